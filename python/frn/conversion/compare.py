"""Whether forwards give what their graphs give: torch.fx runs a forward on stand-ins for tensors, which may take other branches."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from frn.conversion import rewrite
from frn.conversion.graphs import Forward, constants_of, unchanged_random_state


@dataclass
class Comparison:
    reached: set[str] = field(default_factory=set)  # modules whose forward ran
    different: dict[str, str] = field(default_factory=dict)  # those whose graph gives something else, and what
    other_class: set[str] = field(default_factory=set)  # those whose graph gives the same in another container's class


@dataclass
class _Call:
    """A call that runs: what it was given, and a copy of that, since a forward may change it."""

    name: str
    given: list[Any]
    copied: list[Any]
    arguments: tuple[tuple, dict]  # made of the copy
    random_state: list[Tensor]


def compare(
    model: nn.Module, traced: nn.Module, forwards: dict[str, Forward | str], run: Callable[[nn.Module], Any]
) -> Comparison:
    """Runs the model, and behind each call of a module its eval graph on the same arguments, in the same random state.

    model: a copy in eval mode, of which nothing else is used. traced: the one that was traced; it has the tensors that
    forwards made.
    """
    found = Comparison()
    calls: list[_Call] = []
    inside = False  # a graph runs, whose calls were compared already

    def watch(name: str, module: nn.Module, graph: fx.Graph) -> None:
        generated = functools.cache(lambda: rewrite.generated(graph))

        def before(_: nn.Module, args: tuple, kwargs: dict) -> None:
            if not inside:
                given, shape = tree_flatten((args, kwargs))
                copied = _copies(given)
                calls.append(_Call(name, given, copied, tree_unflatten(copied, shape), _random_state()))

        def after(module: nn.Module, args: tuple, kwargs: dict, result: Any) -> None:
            nonlocal inside
            if inside:
                return
            call = calls.pop()
            while call.name != name:  # raised, and was caught
                call = calls.pop()
            found.reached.add(name)
            inside = True
            try:
                with unchanged_random_state():
                    _set_random_state(call.random_state)
                    args, kwargs = call.arguments
                    again = generated()(module, *args, **kwargs)
                expected, other = _Parts((result, call.given)), _Parts((again, call.copied))
                if expected.form != other.form or not all(map(_same_value, expected.values, other.values)):
                    found.different[name] = "gives another result for the example"
                elif expected.classes != other.classes:
                    found.other_class.add(name)
            except Exception as error:
                said = (str(error).splitlines() or [""])[0]
                found.different[name] = f"does not run on the example ({type(error).__name__}: {said})"
            finally:
                inside = False

        module.register_forward_pre_hook(before, with_kwargs=True)
        # Before the module's own hooks, which may change the result and are no part of the graph.
        module.register_forward_hook(after, with_kwargs=True, prepend=True)

    for name, forward in forwards.items():
        if isinstance(forward, Forward):
            module, graph = model.get_submodule(name), forward.graph(training=False)
            for constant in constants_of(graph):
                setattr(module, constant, getattr(traced.get_submodule(name), constant))
            watch(name, module, graph)
    with contextlib.suppress(Exception):  # it ran before: a model that changes its example reaches less now
        run(model)
    return found


def _copies(values: list[Any]) -> list[Any]:
    """One copy of each tensor: what was given twice stays the same tensor."""
    made = {id(value): value.detach().clone() for value in values if isinstance(value, Tensor)}
    return [made.get(id(value), value) for value in values]


def _random_state() -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]


def _set_random_state(state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state_all(state[1:])


class _Parts:
    """What is in a result, the containers' form, and their classes, of which torch.fx makes plain ones."""

    def __init__(self, result: Any) -> None:
        self.values: list[Any] = []
        self.form: list[tuple] = []
        self.classes: list[type] = []
        self._take(result)

    def _take(self, value: Any) -> None:
        if not isinstance(value, (dict, list, tuple)):
            self.values.append(value)
            return
        kind = next(base for base in (dict, list, tuple) if isinstance(value, base))
        self.form.append((kind, tuple(value) if isinstance(value, dict) else len(value)))
        self.classes.append(dict if type(value) is OrderedDict else type(value))  # whoever reads one can read the other
        for part in value.values() if isinstance(value, dict) else value:
            self._take(part)


def _same_value(one: Any, two: Any) -> bool:
    if type(one) is not type(two):
        return False
    if not isinstance(one, Tensor):
        return not isinstance(one, (bool, int, float, str)) or one == two or one != one
    if one.shape != two.shape or one.dtype != two.dtype or one.device != two.device:
        return False
    if one.is_meta or not (one.is_floating_point() or one.is_complex()):
        return one.is_meta or torch.equal(one, two)
    # A copy that lies elsewhere in memory may be rounded otherwise, in the last digits; another branch shows in the first.
    near = max(1e-3, 4 * torch.finfo(one.dtype).eps)
    finite = one[one.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(one, two, rtol=0, atol=near * largest, equal_nan=True)
