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

_CONSTANT = "_tensor_constant"  # torch.fx's name for a tensor that a forward makes


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


def _contexts() -> tuple:
    """The contexts that a call would run in; torch.fx records calls without them."""
    torch.autocast_increment_nesting()  # an autocast that is off is seen by its depth alone
    depth = torch.autocast_decrement_nesting()
    saved = torch._C._autograd._top_saved_tensors_default_hooks(True)  # checkpoint's, for one
    modes = torch._C._len_torch_function_stack()  # torch.device's, for one
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), depth, saved is not None, modes


class ShallowTracer(fx.Tracer):
    """Records one module's own forward. Modules that it calls are not looked into: each is traced by itself."""

    def __init__(self, arguments: Arguments | None) -> None:
        super().__init__()
        self.arguments = arguments or Arguments(frozenset(), {})
        self.contexts: set[tuple] = set()  # arguments and result are in those of the caller

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        self.contexts.add(_contexts())
        return super().create_node(*args, **kwargs)

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
    if any(constants_of(graph) for graph in graphs):
        return "makes a tensor of its own in forward"
    return ""


def constants_of(graph: fx.Graph) -> list[str]:
    """Names of the tensors that forward makes; torch.fx keeps them as attributes of the module that it traced."""
    names = [str(node.target) for node in graph.nodes if node.op == "get_attr"]
    return [name for name in names if name.split(".")[-1].startswith(_CONSTANT)]


class _Attributes:
    """What a forward could change beside its result: attributes and buffers of the module and of those in it."""

    def __init__(self, module: nn.Module) -> None:
        self.values: list[Any] = []  # kept alive, so that no new one can be taken for an old one
        for owner in (module, *module.children()):
            values = {key: value for key, value in vars(owner).items() if not key.startswith(_CONSTANT)}
            for value in (*values.values(), *owner._buffers.values()):
                self.values.append(value)
                if isinstance(value, dict):
                    self.values += [*value.keys(), *value.values()]
                elif isinstance(value, (list, set)):
                    self.values += value
                elif isinstance(value, torch.Tensor) and not value.is_inference():
                    self.values.append(value._version)

    def are(self, other: _Attributes) -> bool:
        def same(one: Any, two: Any) -> bool:
            return one is two or (type(one) is type(two) is int and one == two)

        return len(self.values) == len(other.values) and all(map(same, self.values, other.values))


def _trace(
    module: nn.Module, training: bool, arguments: Arguments | None, gradients: bool = True
) -> tuple[fx.Graph, str]:
    """The graph, and what forward does that it does not show; empty if nothing."""
    modes = [(child, child.training) for child in module.modules()]
    tracer = ShallowTracer(arguments)
    try:
        for child, _ in modes:
            child.training = training
        attributes, random_state = _Attributes(module), torch.get_rng_state()
        with torch.set_grad_enabled(gradients):
            graph = tracer.trace(module)
        why = ""
        if len(tracer.contexts) > 1:
            why = "has calls in a context such as torch.no_grad(), torch.autocast or checkpoint"
        elif not _Attributes(module).are(attributes):
            why = "changes its attributes in forward"
        elif not torch.equal(torch.get_rng_state(), random_state):
            why = "draws random numbers in forward"
    finally:
        for child, mode in modes:
            child.training = mode
    for node in graph.nodes:
        node.type = None  # annotations name types that a generated forward does not need
    return graph, why


def _forward_of(module: nn.Module, arguments: Arguments | None) -> Forward | str:
    """The graphs, or in one line why there are none."""
    if isinstance(module, torch.jit.ScriptModule):
        return "is TorchScript"
    if "forward" in vars(module):
        return "has a forward of its own that is not its class's"
    try:
        traces = [_trace(module, training, arguments) for training in (True, False)]
        graphs = [graph for graph, _ in traces]
        if _source(graphs[0]) == _source(graphs[1]):
            graphs = graphs[:1]
        why = _why_not_rewritten(module, graphs) or traces[0][1] or traces[1][1]
        if not why:
            without, why = _trace(module, False, arguments, gradients=False)
            if not why and _source(without) != _source(graphs[-1]):
                why = "asks whether gradients are on"
    except Exception as error:  # whatever a forward does with what is not a tensor
        return f"cannot be traced ({type(error).__name__}: {(str(error).splitlines() or [''])[0]})"
    return Forward(graphs, why)


def learn(model: nn.Module, arguments: dict[str, Arguments]) -> dict[str, Forward | str]:
    """Forward of every module that has one of its own, by qualified name; where it cannot be followed, why.

    Runs every forward on proxies. Give a copy: a forward may keep what it computes.
    """
    with unchanged_random_state(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about proxies, which are no concern of the caller
        return {
            name: _forward_of(module, arguments.get(name))
            for name, module in model.named_modules()
            if _own_forward(module)
        }
