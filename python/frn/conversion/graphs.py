"""What each module's forward calls, in which order and on what: torch.fx graphs per module, in training and eval mode."""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx, nn

from frn.conversion import known


def expect_default(value: Any, default: Any, name: str) -> None:
    """Stands in a generated forward for an argument that had its default when the model was converted."""
    if value is not default and value != default:
        raise ValueError(
            f"[convert] {name} must be {default} in a converted forward but is {value}; convert with an example that "
            "sets it"
        )


@dataclass(frozen=True)
class Arguments:
    """How the example called a module: names of arguments it set, and lengths of those that are lists."""

    given: frozenset[str]
    lengths: dict[str, int]

    @staticmethod
    def of(module: nn.Module, args: tuple, kwargs: dict) -> Arguments:
        try:
            bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):  # TorchScript has no signature
            return Arguments(frozenset(), {})
        lengths = {name: len(value) for name, value in bound.items() if isinstance(value, list)}
        return Arguments(frozenset(bound), lengths)


class ShallowTracer(fx.Tracer):
    """Records one module's own forward. Modules that it calls are not looked into: each is traced by itself."""

    def __init__(self, arguments: Arguments | None) -> None:
        super().__init__()
        self.arguments = arguments or Arguments(frozenset(), {})

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
        if self.submodule_paths is not None and m not in self.submodule_paths:
            return forward(*args, **kwargs)  # made in forward, such as nn.Sequential(self.conv, self.bn): looked through
        return super().call_module(m, forward, args, kwargs)

    def create_args_for_root(self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None) -> Any:
        function, args = super().create_args_for_root(root_fn, is_module, concrete_args)
        return function, [self._argument(arg) if isinstance(arg, fx.Proxy) else arg for arg in args]

    def _argument(self, proxy: fx.Proxy) -> Any:
        """A proxy is neither None nor a list: a forward that asks gets the default, or a list of proxies."""
        name = str(proxy.node.target)
        if name in self.arguments.lengths:
            return [operator.getitem(cast(Any, proxy), i) for i in range(self.arguments.lengths[name])]
        if not proxy.node.args or name in self.arguments.given:
            return proxy
        default = proxy.node.args[0]
        if default is None or isinstance(default, (bool, int, float, str)):
            self.create_proxy("call_function", expect_default, (proxy, default, name), {})
        return default


def unchanged_random_state() -> AbstractContextManager[None]:
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    return torch.random.fork_rng(devices=list(devices))


@dataclass
class Forward:
    """A module's forward as graphs: one when it is the same in both modes, else training's and eval's."""

    graphs: list[fx.Graph]
    cannot_rewrite: str  # why no forward can be generated from them; empty if one can

    def graph(self, training: bool) -> fx.Graph:
        return self.graphs[0 if training else -1]


def output_of(graph: fx.Graph) -> Any:
    return next(iter(reversed(graph.nodes))).args[0]


def _source(graph: fx.Graph) -> str:
    return graph.python_code("self").src


def _own_forward(module: nn.Module) -> bool:
    """Whether the module's forward can call others: layers of torch.nn but for its containers cannot."""
    if isinstance(module, (torch.jit.ScriptModule, fx.GraphModule)) or type(module).forward is nn.Sequential.forward:
        return True
    if known.is_batch_norm(module) or not hasattr(type(module), "forward"):
        return False
    return not type(module).__module__.startswith(("torch.nn.", "frn."))


def _why_not_rewritten(module: nn.Module, graphs: list[fx.Graph]) -> str:
    if isinstance(module, fx.GraphModule):
        return "" if len(graphs) == 1 else "is a torch.fx.GraphModule that asks for its mode"
    if type(module).__reduce_ex__ is not object.__reduce_ex__ or type(module).__reduce__ is not object.__reduce__:
        return "has its own way to be pickled"
    for graph in graphs:
        for node in graph.nodes:
            if node.op == "get_attr" and str(node.target).split(".")[-1].startswith("_tensor_constant"):
                return "makes a tensor of its own in forward"
    return ""


def _trace(module: nn.Module, training: bool, arguments: Arguments | None) -> fx.Graph:
    modes = [(child, child.training) for child in module.modules()]
    try:
        for child, _ in modes:
            child.training = training
        graph = ShallowTracer(arguments).trace(module)
    finally:
        for child, mode in modes:
            child.training = mode
    for node in graph.nodes:
        node.type = None  # annotations name types that a generated forward does not need
    return graph


def _forward_of(module: nn.Module, arguments: Arguments | None) -> Forward | str:
    """The graphs, or in one line why there are none."""
    if isinstance(module, torch.jit.ScriptModule):
        return "is TorchScript"
    if "forward" in vars(module):
        return "has a forward of its own that is not its class's"
    try:
        graphs = [_trace(module, training, arguments) for training in (True, False)]
    except Exception as error:  # whatever a forward does with what is not a tensor
        return f"cannot be traced ({type(error).__name__}: {(str(error).splitlines() or [''])[0]})"
    if _source(graphs[0]) == _source(graphs[1]):
        graphs = graphs[:1]
    return Forward(graphs, _why_not_rewritten(module, graphs))


def learn(model: nn.Module, arguments: dict[str, Arguments]) -> dict[str, Forward | str]:
    """Forward of every module that has one of its own, by qualified name; where it cannot be followed, why.

    Runs every forward on proxies. Give a copy: a forward may keep what it computes.
    """
    with torch.no_grad(), unchanged_random_state(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about proxies, which are no concern of the caller
        return {
            name: _forward_of(module, arguments.get(name))
            for name, module in model.named_modules()
            if _own_forward(module)
        }
