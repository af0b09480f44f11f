"""Another forward for a module, generated from its graph: the module keeps its attributes and stays of its class."""

from __future__ import annotations

import functools
import itertools
import linecache
import math
from types import FunctionType
from typing import Any, cast

import torch
from torch import fx, nn

_REWRITTEN = "_frn_rewritten"
_STANDARD = {"torch": torch, "device": torch.device, "inf": math.inf, "nan": math.nan, "NoneType": type(None)}
_files = itertools.count()


def _compile(source: str, names: dict[str, Any], title: str) -> FunctionType:
    file = f"<frn.convert {title} {next(_files)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)  # tracebacks show the lines
    scope: dict[str, Any] = {**_STANDARD, **names}
    exec(compile(source, file, "exec"), scope)
    return scope["forward"]


def _reduce(self: nn.Module, protocol: Any) -> tuple:
    """A class that was made here is not found by its name: what it is made of is pickled instead."""
    return _rebuild, getattr(type(self), _REWRITTEN), vars(self).copy()


def _rebuild(base: type[nn.Module], sources: tuple[str, ...], names: tuple[tuple[str, Any], ...]) -> nn.Module:
    made = _make_class(cast(Any, base), sources, names)
    return made.__new__(made)


@functools.lru_cache(maxsize=None)  # modules with the same forward share a class, as torch.compile likes it
def _make_class(base: Any, sources: tuple[str, ...], names: tuple[tuple[str, Any], ...]) -> type[nn.Module]:
    forwards = [_compile(source, dict(names), base.__qualname__) for source in sources]

    def by_mode(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return forwards[0 if self.training else 1](self, *args, **kwargs)

    body = {
        "forward": forwards[0] if len(forwards) == 1 else by_mode,
        "__reduce_ex__": _reduce,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        _REWRITTEN: (base, sources, names),
    }
    return cast(Any, type(base))(base.__name__, (base,), body)


def generated(graph: fx.Graph) -> FunctionType:
    """The graph as a function of the module and its arguments."""
    code = graph.python_code("self")
    return _compile(code.src, code.globals, "check")


def set_forward(module: nn.Module, graphs: list[fx.Graph]) -> None:
    """graphs: one for both modes, or training's and eval's."""
    if isinstance(module, fx.GraphModule):  # has a graph already, and its own ways to be copied and pickled
        module.meta[_REWRITTEN] = module.graph
        module.graph = graphs[0]
        return
    sources, names = [], {}
    for graph in graphs:
        graph.lint()
        code = graph.python_code("self")
        sources.append(code.src)
        used = set(generated(graph).__code__.co_names)
        names.update({name: value for name, value in code.globals.items() if name in used and name not in _STANDARD})
    base = type(module)
    module.__class__ = _make_class(cast(Any, base), tuple(sources), tuple(sorted(names.items())))


def is_rewritten(module: nn.Module) -> bool:
    return _REWRITTEN in (module.meta if isinstance(module, fx.GraphModule) else vars(type(module)))


def restore_forward(module: nn.Module) -> None:
    if isinstance(module, fx.GraphModule):
        module.graph = module.meta.pop(_REWRITTEN)
        return
    module.__class__ = getattr(type(module), _REWRITTEN)[0]


def replace_module(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Wherever `old` stands in the model."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is old:
                parent._modules[name] = new


def free_name(module: nn.Module, wanted: str) -> str:
    """`wanted`, or with the first number that makes it new."""
    names = itertools.chain([wanted], (f"{wanted}_{i}" for i in itertools.count(2)))
    return next(name for name in names if not hasattr(module, name))
