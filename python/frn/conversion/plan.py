"""Decides what becomes of every batch norm and every place that calls a ReLU, from the graphs of all forwards."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from torch import fx, nn

from frn.conversion import known
from frn.conversion.graphs import Forward, output_of

FUSED, OWN, LEFT = "fused", "own", "left"
_DEPTH = 32  # of calls that are followed to find where a tensor comes from


@dataclass(eq=False)
class Site:
    """A place in a forward that calls a ReLU: as a module (its name is `slot`) or as a function."""

    owner: str  # the module whose forward it is
    nodes: list[fx.Node]  # one per graph of the owner
    slot: str | None
    decision: str = LEFT
    why: str = "no norm before it"
    norm: str = ""  # the norm that takes it over, if fused
    channels: int = 0
    after: str = ""
    like: str = ""  # a norm whose type and device an activation of its own takes
    idle: bool = False  # the same call was seen in a caller that goes past the owner, by owner.forward(x)

    def leave(self, why: str) -> None:
        self.decision, self.why = LEFT, why


@dataclass(frozen=True)
class Source:
    """Where a tensor comes from: its channels, and what it is the result of."""

    channels: int
    after: str
    norm: str = field(compare=False)  # one of the norms


@dataclass
class Plan:
    norms: dict[str, known.BatchNorm]
    sites: list[Site]
    rewritten: list[str]  # modules that need another forward
    unseen: dict[str, str]  # norms that no known forward calls, and why
    after_linear: set[str]  # norms of fully connected layers: one value per channel
    stays: list[tuple[str, str]] = field(default_factory=list)  # other activations behind norms: name, kind

    def fused_norms(self) -> set[str]:
        return {site.norm for site in self.sites if site.decision == FUSED}


def _input(node: fx.Node) -> Any:
    return node.args[0] if node.args else node.kwargs.get("input")


def _in_place(node: fx.Node, module: nn.Module | None) -> bool:
    if module is not None:
        return bool(getattr(module, "inplace", False))
    named = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return named.endswith("_") or bool(node.kwargs.get("inplace", len(node.args) > 1 and node.args[1]))


class Planner:
    def __init__(self, model: nn.Module, forwards: dict[str, Forward | str]) -> None:
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.names = {id(module): name for name, module in reversed(self.modules.items())}  # the first of its names
        self.forwards = {name: forward for name, forward in forwards.items() if isinstance(forward, Forward)}
        self.failures = {name: why for name, why in forwards.items() if isinstance(why, str)}
        self.norms = {
            name: known.read_batch_norm(module)
            for name, module in model.named_modules()
            if known.is_batch_norm(module)
        }
        self.callers: dict[str, list[tuple[str, fx.Node, bool]]] = defaultdict(list)
        for owner, node, training in self._calls():
            self.callers[self._callee(owner, node)].append((owner, node, training))
        self.aliased = {owner for owner in self.forwards if self._resolve_aliases(owner)}

    def _calls(self) -> list[tuple[str, fx.Node, bool]]:
        return [
            (owner, node, training)
            for owner, forward in self.forwards.items()
            for training, graph in zip((True, False), forward.graphs)
            for node in graph.nodes
            if node.op == "call_module"
        ]

    def _callee(self, owner: str, node: fx.Node) -> str:
        return self.names[id(self.modules[f"{owner}.{node.target}" if owner else str(node.target)])]

    def _module(self, owner: str, node: fx.Node) -> nn.Module | None:
        return self.modules[self._callee(owner, node)] if node.op == "call_module" else None

    def _is_relu(self, owner: str, node: fx.Node) -> bool:
        if node.op == "call_module":
            return known.is_relu(self.modules[self._callee(owner, node)])
        if node.op == "call_method":
            return node.target in known.RELU_METHODS
        return node.op == "call_function" and node.target in known.RELU_FUNCTIONS

    def _resolve_aliases(self, owner: str) -> bool:
        """After relu(x, inplace=True) x itself is activated: whoever uses x later means relu's result."""
        changed = False
        for graph in self.forwards[owner].graphs:
            order = {node: i for i, node in enumerate(graph.nodes)}
            for node in order:
                value = _input(node)
                if not self._is_relu(owner, node) or not isinstance(value, fx.Node):
                    continue
                if not _in_place(node, self._module(owner, node)):
                    continue
                for user in [user for user in value.users if order[user] > order[node]]:
                    user.replace_input_with(value, node)
                    changed = True
        return changed

    def plan(self, converts_fused: bool, converts_own: bool) -> Plan:
        """What to do. The activation of the spec may be ReLU itself: then what stands alone can stay as it is."""
        sites = [site for owner in self.forwards for site in self._sites(owner)]
        if converts_fused:
            for site in sites:
                self._decide(site)
        self._agree_on_norms(sites)
        if not converts_own:
            for site in sites:
                if site.decision == OWN:
                    site.leave("")
        rewritten = self._rewritten(sites)
        self._agree_on_norms(sites)  # a site that had to be left no longer takes part in a fusion
        return Plan(self.norms, sites, rewritten, self._unseen(), self._after_linear(), self._stays())

    def _sites(self, owner: str) -> list[Site]:
        graphs = self.forwards[owner].graphs
        found = [[node for node in graph.nodes if self._is_relu(owner, node)] for graph in graphs]

        def slots(nodes: list[fx.Node]) -> list[str | None]:
            return [self._callee(owner, node) if node.op == "call_module" else None for node in nodes]

        if len({tuple(slots(nodes)) for nodes in found}) == 1:
            return [Site(owner, list(nodes), slot) for slot, *nodes in zip(slots(found[0]), *found, strict=True)]
        why = "called differently in training and in eval mode"
        return [Site(owner, [node], slot, why=why, after="?") for nodes in found for node, slot in zip(nodes, slots(nodes))]

    def _decide(self, site: Site) -> None:
        if site.after == "?":
            return
        sources = []
        for training, node in zip((True, False), site.nodes):
            value = _input(node)
            if not isinstance(value, fx.Node):
                return
            if self._changes_caller(site, node, value):
                return site.leave("changes a tensor of its caller in place")
            sources.append(self._source(site.owner, value, training, (), 0))
        if len(set(sources)) != 1:
            return site.leave("its input differs between training and eval mode")
        if sources[0] is None:
            return
        site.channels, site.after, site.like, site.decision = sources[0].channels, sources[0].after, sources[0].norm, OWN
        norms = {self._plain_norm(site.owner, value) for value in self._norm_nodes(site)}
        if norms != {""} and len(norms) == 1:
            site.decision, site.norm = FUSED, norms.pop()

    def _norm_nodes(self, site: Site) -> list[fx.Node | None]:
        """What the ReLU activates and nobody else uses, in each graph; nn.Identity between them is looked through."""
        found = []
        for value in map(_input, site.nodes):
            while len(value.users) == 1 and type(self._module(site.owner, value)) is nn.Identity:
                value = _input(value)
            found.append(value if len(value.users) == 1 else None)
        return found

    def _changes_caller(self, site: Site, node: fx.Node, value: fx.Node) -> bool:
        if value.op != "placeholder" or not _in_place(node, self._module(site.owner, node)):
            return False
        given = [self._argument(call, site.owner, value) for _, call, _ in self.callers[site.owner]]
        return not given or any(not isinstance(arg, fx.Node) or len(arg.users) > 1 for arg in given)

    def _plain_norm(self, owner: str, node: fx.Node | None) -> str:
        """Name of the norm that the node calls, if its result is not activated yet; else empty."""
        name = self._callee(owner, node) if node is not None and node.op == "call_module" else ""
        norm = self.norms.get(name)
        return name if norm is not None and norm.activation is None and norm.drop is None else ""

    def _agree_on_norms(self, sites: list[Site]) -> None:
        """A norm takes an activation over if that follows wherever the norm is called."""
        followed = {node for site in sites if site.decision == FUSED for node in self._norm_nodes(site)}
        for site in sites:
            if site.decision == FUSED and any(node not in followed for _, node, _ in self.callers[site.norm]):
                site.decision, site.norm = OWN, ""

    def _rewritten(self, sites: list[Site]) -> list[str]:
        """Modules that need another forward: for functions, and for one ReLU module that is called at many places."""
        calls: dict[str, list[Site]] = defaultdict(list)
        for site in sites:
            if site.slot is not None:
                calls[site.slot].append(site)
        for same in calls.values():
            used = [site for site in same if site.owner == "" or self.callers[site.owner]]
            for site in same:
                site.idle = bool(used) and site not in used
        needed = set()
        for site in sites:
            if site.decision == LEFT or site.idle:
                continue
            same = [other for other in calls[site.slot] if not other.idle] if site.slot is not None else []
            one_module_will_do = len(same) == 1 or (same and all(other.decision == FUSED for other in same))
            if one_module_will_do and site.owner not in self.aliased:
                continue
            if why := self.forwards[site.owner].cannot_rewrite:
                site.leave(f"{site.owner or 'the model'} {why}")
            else:
                needed.add(site.owner)
        return [owner for owner in self.forwards if owner in needed]

    def _argument(self, call: fx.Node, callee: str, placeholder: fx.Node) -> Any:
        graph = placeholder.graph
        names = [str(node.target) for node in graph.nodes if node.op == "placeholder"]
        index = names.index(str(placeholder.target))
        return call.args[index] if index < len(call.args) else call.kwargs.get(names[index])

    def _source(self, owner: str, node: Any, training: bool, calls: tuple, depth: int) -> Source | None:
        """Follows a tensor back to a norm, through what keeps its channels; None if it comes from elsewhere.

        calls: the calls that were entered on the way, each (owner, node), the innermost last.
        """
        if not isinstance(node, fx.Node) or depth > _DEPTH:
            return None

        def back(value: Any) -> Source | None:
            return self._source(owner, value, training, calls, depth + 1)

        if node.op == "placeholder":
            return self._source_of_argument(owner, node, training, calls, depth)
        if node.op == "call_module":
            return self._source_of_module(owner, node, training, calls, depth)
        method = node.op == "call_method"
        if node.target in (known.COMBINING_METHODS if method else known.COMBINING):
            return _combined([back(value) for value in node.args[:2]], node)
        if not method and node.target in known.JOINING:
            return _joined([back(value) for value in _input(node) or ()], node)
        if node.target in (known.PASSING_METHODS if method else known.PASSING_FUNCTIONS):
            return back(_input(node))
        return None

    def _source_of_module(self, owner: str, node: fx.Node, training: bool, calls: tuple, depth: int) -> Source | None:
        name = self._callee(owner, node)
        if name in self.norms:
            return Source(self.norms[name].channels, "a norm", name) if self._plain_norm(owner, node) else None
        if known.is_passing(self.modules[name]):
            return self._source(owner, _input(node), training, calls, depth + 1)
        if name not in self.forwards:
            return None
        result = output_of(self.forwards[name].graph(training))
        return self._source(name, result, training, (*calls, (owner, node)), depth + 1)

    def _source_of_argument(self, owner: str, node: fx.Node, training: bool, calls: tuple, depth: int) -> Source | None:
        if calls:
            caller, call = calls[-1]
            return self._source(caller, self._argument(call, owner, node), training, calls[:-1], depth + 1)
        found = {
            self._source(caller, self._argument(call, owner, node), training, (), depth + 1)
            for caller, call, mode in self.callers[owner]
            if mode == training or len(self.forwards[caller].graphs) == 1
        }
        return found.pop() if len(found) == 1 else None

    def _unseen(self) -> dict[str, str]:
        unseen = {}
        for name in self.norms:
            if self.callers[name]:
                continue
            owners = [owner for owner in self.failures if owner == "" or name.startswith(owner + ".")]
            owner = max(owners, key=len, default=None)
            said = "no forward calls it" if owner is None else f"{owner or 'the model'} {self.failures[owner]}"
            unseen[name] = said
        return unseen

    def _after_linear(self) -> set[str]:
        found = set()
        for name, norm in self.norms.items():
            given = [(owner, _input(node)) for owner, node, _ in self.callers[name]]
            modules = [self._module(owner, node) if isinstance(node, fx.Node) else None for owner, node in given]
            if norm.kind == "BatchNorm1d" and modules and all(isinstance(module, nn.Linear) for module in modules):
                found.add(name)
        return found

    def _stays(self) -> list[tuple[str, str]]:
        found = {}
        for name, norm in self.norms.items():
            if norm.activation is not None and not known.is_relu(norm.activation):
                found[f"{name}.act"] = type(norm.activation).__name__
            for owner, node, _ in self.callers[name]:
                for user in node.users:
                    module = self._module(owner, user)
                    if module is not None and known.other_activation(module):
                        found[self._callee(owner, user)] = type(module).__name__
        return list(found.items())


def _combined(sources: list[Source | None], node: fx.Node) -> Source | None:
    known_ones = [source for source in sources if source is not None]
    named = node.target if isinstance(node.target, str) else node.target.__name__  # type: ignore[union-attr]
    after = "an addition" if "add" in named else "a norm"
    if len({source.channels for source in known_ones}) != 1:
        return None
    return Source(known_ones[0].channels, after, known_ones[0].norm)


def _joined(sources: list[Source | None], node: fx.Node) -> Source | None:
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    known_ones = [source for source in sources if source is not None]
    if dim != 1 or not sources or len(known_ones) < len(sources):
        return None
    return Source(sum(source.channels for source in known_ones), "a concatenation", known_ones[0].norm)
