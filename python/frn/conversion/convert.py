"""frn.convert and frn.revert."""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from frn.conversion import known, layers, rewrite
from frn.conversion.compare import Comparison, compare
from frn.conversion.graphs import Arguments, Forward, learn, unchanged_random_state
from frn.conversion.plan import FUSED, LEFT, OWN, Plan, Planner, Site
from frn.conversion.report import Change, ConversionReport, Left
from frn.modules import NormAct
from frn.spec import NormActSpec


# Of x/sqrt(x^2 + eps) and of (x - x)/sqrt(0 + eps).
_LEFT_OF_ONE_VALUE = {
    "frn": "with a fixed eps little but its sign is left, so eps is learned unless the spec fixes it",
    "in": "nothing is left of it but the bias",
}


def convert(
    model: nn.Module, spec: str | NormActSpec = "frn+tlu", example: Any = None, init: str = "fresh"
) -> tuple[nn.Module, ConversionReport]:
    """A copy of the model in which every batch norm is `spec`'s norm and every ReLU behind one `spec`'s activation.

        model, report = frn.convert(torchvision.models.resnet50(), "frn+tlu", example=torch.randn(1, 3, 224, 224))
        print(report)

    A norm followed by a ReLU becomes one layer, "frn+tlu". A norm before an addition becomes "frn+none", and the ReLU
    behind the addition an activation with its own tau, "none+tlu"; one ReLU module that was called at many places becomes
    many. Other activations (SiLU, ReLU6, GELU, Hardswish) stay, and so does a ReLU without a norm before it. Batch norms
    of torch.nn, torchvision (frozen) and timm (BatchNormAct2d) are known; a subclass of them is refused.

    Args:
        model: is not changed. Its class, attributes, hooks of other modules, devices and types stay.
        spec: any name of a layer, such as "gn(groups=32)+relu". An activation "none" leaves all activations as they are.
        example: what the model is called with, a tensor or a tuple of arguments. Norms that see one value per channel for
            it (maps of 1x1) get a learned eps, "frn(eps=learned)"; forwards that take lists of tensors can be followed;
            and forwards are compared with what was traced of them.
        init: "fresh": as new layers start. "from_bn": so that a layer gives what batch norm gave in eval mode, for samples
            whose mean square is the running one; for the norms frn, in, bn and brn.

    Returns the model and a report: what became what, what was left and why.
    """
    spec = NormActSpec.parse(spec)
    _check(model, spec, init)
    converted = _own_activations(copy.deepcopy(model))
    arguments = {} if example is None else _arguments(converted, example)
    plan, forwards, compared = _make_plan(converted, spec, arguments, example)
    report = ConversionReport(type(model).__name__, str(spec), init)
    if not plan.norms:
        return converted, report
    job = _Conversion(converted, spec, init, plan, forwards, compared, report)
    job.run()
    if example is None:
        report.warnings.append("without an example, maps of one value are not looked for")
    else:
        job.look_for_single_values(example)
    job.describe()
    return job.model, report


def revert(model: nn.Module) -> nn.Module:
    """A copy of a converted model as it was before, if its new layers have not been trained since."""
    model = copy.deepcopy(model)
    places = [(name, module, layers.memory_of(module)) for name, module in model.named_modules()]
    remembered = [(name, module, memory) for name, module, memory in places if memory is not None]
    if not remembered:
        raise ValueError("[revert] expected a model that frn.convert returned but found no converted layer in it")
    for name, module, memory in remembered:
        now = module.state_dict()
        if any(not torch.equal(now[key], start.to(now[key])) for key, start in memory.start.items()):
            raise ValueError(
                f"[revert] expected layers as frn.convert made them but {name or 'the model'} was trained since; what it "
                "learned has no meaning for a batch norm, so take the model from before the conversion"
            )
    for name, module, memory in remembered:
        if memory.was is None:
            parent, _, own = name.rpartition(".")
            delattr(model.get_submodule(parent), own)
        else:
            memory.was.train(module.training)
            if (like := next(module.parameters(), None)) is not None:
                memory.was.to(like.device, like.dtype)
            if not name:
                return memory.was
            rewrite.replace_module(model, module, memory.was)
    for module in model.modules():
        if rewrite.is_rewritten(module):
            rewrite.restore_forward(module)
    return model


def _check(model: nn.Module, spec: NormActSpec, init: str) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"[convert] expected a torch.nn.Module but got a {type(model).__name__}")
    if spec.norm.name == "none":
        wanted = f"frn+{spec.activation.name}"
        raise ValueError(f"[convert] expected a norm to put in place of batch norm but got '{spec}'; write {wanted}")
    if init not in ("fresh", "from_bn"):
        raise ValueError(f"[convert] init must be fresh or from_bn but is {init!r}")
    if init == "from_bn" and spec.norm.name not in layers.FROM_BN:
        raise ValueError(
            f"[convert] init='from_bn' must come with one of the norms {', '.join(layers.FROM_BN)} but the spec is "
            f"'{spec}': its statistics mix channels; use init='fresh'"
        )
    refused = [(name, why) for name, module in model.named_modules() if (why := known.unknown_batch_norm(module))]
    if refused:
        name, why = refused[0]
        more = f" (and {len(refused) - 1} more like it)" if len(refused) > 1 else ""
        raise ValueError(f"[convert] expected batch norms that are known but {name or 'the model'}{more} is {why}")
    if spec.norm.batch_method:
        _check_statistics(model, spec)


def _check_statistics(model: nn.Module, spec: NormActSpec) -> None:
    """A batch method keeps running statistics, with a momentum: a norm that does otherwise would become another one."""
    for name, module in model.named_modules():
        if not known.is_batch_norm(module):
            continue
        norm, place = known.read_batch_norm(module), name or "the model"
        if norm.running_mean is None:
            raise ValueError(
                f"[convert] expected batch norms with running statistics for '{spec}' but {place} has none "
                "(track_running_stats=False); take a norm of single samples, such as frn, or put a norm with statistics there"
            )
        if norm.averages_all and "momentum" not in spec.options:
            raise ValueError(
                f"[convert] expected batch norms with a momentum for '{spec}' but that of {place} is None (the mean of all "
                f"batches); choose one, as in {spec.norm.name}(momentum=0.1)+{spec.activation.name}"
            )


def _own_activations(model: nn.Module) -> nn.Module:
    """One ReLU object per place: it has no state, and places are what is decided about."""
    seen: set[int] = set()
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is None or not known.is_relu(child):
                continue
            if id(child) in seen:
                parent._modules[name] = child = copy.copy(child)
            seen.add(id(child))
    return model


def _copy_that_shares(model: nn.Module) -> nn.Module:
    """A copy to try things on, with the model's own parameters and copies of its buffers."""
    return copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})


def _call(model: nn.Module, example: Any) -> Any:
    with torch.no_grad(), unchanged_random_state():
        return model(*example) if isinstance(example, tuple) else model(example)


def _arguments(model: nn.Module, example: Any) -> dict[str, Arguments]:
    """How the model calls its modules when it runs on the example."""
    trial = _copy_that_shares(model).eval()
    found: dict[str, Arguments] = {}

    def record(name: str) -> Any:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            if name not in found:
                found[name] = Arguments.of(module, args, kwargs)

        return hook

    for name, module in trial.named_modules():
        module.register_forward_pre_hook(record(name), with_kwargs=True)
    try:
        _call(trial, example)
    except Exception as error:
        raise ValueError(
            "[convert] expected an example that the model runs on in eval mode but it raised "
            f"{type(error).__name__}: {error}; give a tensor, or a tuple of the model's arguments"
        ) from error
    return found


def _make_plan(
    model: nn.Module, spec: NormActSpec, arguments: dict[str, Arguments], example: Any
) -> tuple[Plan, dict[str, Forward | str], Comparison]:
    trial, compared = _copy_that_shares(model), Comparison()
    has_norms = any(known.is_batch_norm(module) for module in model.modules())
    forwards = learn(trial, arguments) if has_norms else {}
    if has_norms and example is not None:
        compared = compare(_copy_that_shares(model).eval(), trial, forwards, lambda copied: _call(copied, example))
        for name, what in compared.different.items():
            forwards[name] = f"cannot be followed: its forward as torch.fx sees it {what}"
        for name in compared.other_class:
            cast(Forward, forwards[name]).cannot_rewrite = "returns a container of a class of its own"
    activation = spec.activation.name
    return Planner(trial, forwards).plan(activation != "none", activation not in ("none", "relu")), forwards, compared


class _WatchBatchNorm(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= getattr(func, "__name__", "") in ("batch_norm", "native_batch_norm")
        return func(*args, **(kwargs or {}))


class _Conversion:
    """Carries a plan out on the copy, and writes the report."""

    def __init__(
        self,
        model: nn.Module,
        spec: NormActSpec,
        init: str,
        plan: Plan,
        forwards: dict[str, Forward | str],
        compared: Comparison,
        report: ConversionReport,
    ) -> None:
        self.model, self.spec, self.init, self.plan, self.report = model, spec, init, plan, report
        self.forwards, self.compared = forwards, compared
        self.originals = {name: model.get_submodule(name) for name in plan.norms}
        self.norms = {name: known.read_batch_norm(module, _near(model, name)) for name, module in self.originals.items()}
        self.layers: dict[str, NormAct] = {}
        self.takes: dict[str, str] = {}  # the activation that a norm takes over
        self.changes: dict[str, Change] = {}

    def run(self) -> None:
        fused = self.plan.fused_norms()
        for name, norm in self.norms.items():
            brings_relu = norm.activation is not None and known.is_relu(norm.activation)
            self.takes[name] = self.spec.activation.name if name in fused or brings_relu else "none"
            self._put_norm(name, name in self.plan.after_linear)
        rewritten = set(self.plan.rewritten)
        for site in self.plan.sites:
            if site.owner not in rewritten:
                self._replace(site)
        for owner in self.plan.rewritten:
            self._rewrite(owner, [site for site in self.plan.sites if site.owner == owner])
        self.report.rewritten = {owner: type(self.model.get_submodule(owner)).__name__ for owner in self.plan.rewritten}

    def _put_norm(self, name: str, single_value: bool) -> None:
        norm, old = self.norms[name], self.layers.get(name, self.originals[name])
        spec = layers.written_spec(self.spec, norm, self.takes[name], single_value)
        try:
            layer = layers.make_norm(norm, spec, self.init)
        except ValueError as error:  # groups that do not divide the channels
            raise ValueError(f"[convert] {name}: {error}") from error
        layers.remember(layer, self.originals[name])
        layer.train(self.originals[name].training)
        self.layers[name] = layer
        if single_value:
            self.report.single_values.append(name)
        if name:
            rewrite.replace_module(self.model, old, layer)
        else:
            self.model = layer

    def _new_activation(self, site: Site, was: nn.Module | None) -> NormAct:
        like = self.norms[site.like].like
        layer = NormAct(site.channels, f"none+{self.spec.activation.name}").to(like.device, like.dtype)
        layers.remember(layer, was)
        return layer.train(self.model.training)

    def _replace(self, site: Site) -> None:
        """Another module in a ReLU module's place: if it has one call, or if norms take all of them over."""
        if site.decision == LEFT or site.slot is None or site.idle:
            return
        old = self.model.get_submodule(site.slot)
        if not known.is_relu(old):
            return
        new: nn.Module
        if site.decision == FUSED:
            new = self._absorbed(site.slot, old)
        else:
            new = self._new_activation(site, old)
            self._changed(site.slot, f"ReLU after {site.after}", f"none+{self.spec.activation.name}")
        rewrite.replace_module(self.model, old, new)

    def _absorbed(self, slot: str, old: nn.Module) -> layers.Absorbed:
        norms = dict.fromkeys(site.norm for site in self.plan.sites if site.slot == slot)
        absorbed = layers.Absorbed(", ".join(norms))
        layers.remember(absorbed, old)
        return absorbed

    def _rewrite(self, owner: str, sites: list[Site]) -> None:
        """Calls are taken out or go to a module of their own; the first of them gets the ReLU module's place."""
        module, forward = self.model.get_submodule(owner), self.forwards[owner]
        assert isinstance(forward, Forward)
        needed = {site.slot for site in self.plan.sites if site.slot and site.decision == LEFT}
        for site in sites:
            if site.decision == LEFT or site.idle:
                continue
            target = self._place(owner, module, site, needed) if site.decision == OWN else ""
            for node in site.nodes:
                value = cast(fx.Node, node.args[0] if node.args else node.kwargs["input"])
                with node.graph.inserting_before(node):
                    new = node.graph.call_module(target, (value,)) if target else value
                node.replace_all_uses_with(new)
                node.graph.erase_node(node)
        rewrite.set_forward(module, forward.graphs)
        for slot in {site.slot for site in sites if site.slot}:
            old = self.model.get_submodule(slot)
            if slot not in needed and known.is_relu(old):  # all of its calls went into norms
                rewrite.replace_module(self.model, old, self._absorbed(slot, old))

    def _place(self, owner: str, module: nn.Module, site: Site, needed: set[str]) -> str:
        """Puts a new activation into the module and tells its name in it."""
        call = site.nodes[0]
        old = None if site.slot is None else self.model.get_submodule(site.slot)
        became = f"none+{self.spec.activation.name}"
        if old is not None and site.slot not in needed and known.is_relu(old):
            rewrite.replace_module(self.model, old, self._new_activation(site, old))
            name = str(call.target)
        else:
            parent, _, wanted = (str(call.target) if site.slot else "activation").rpartition(".")
            inside = module.get_submodule(parent)
            wanted = rewrite.free_name(inside, wanted)
            inside.add_module(wanted, self._new_activation(site, None))
            name = f"{parent}.{wanted}" if parent else wanted
        was = "ReLU" if site.slot else "relu()"
        self._changed(f"{owner}.{name}" if owner else name, f"{was} after {site.after}", became)
        return name

    def _changed(self, name: str, was: str, became: str) -> None:
        self.changes[name] = Change(name, was, became)

    def look_for_single_values(self, example: Any) -> None:
        """Runs the converted model; where a norm sees one value per channel its eps is learned from now on."""
        found: dict[str, None] = {}
        for training in (False, True):
            trial = _copy_that_shares(self.model).train(training)
            for name in self.layers:

                def hook(_: nn.Module, args: tuple, name: str = name) -> None:
                    if args[0].dim() < 3 or args[0].shape[2:].numel() == 1:
                        found[name] = None

                trial.get_submodule(name).register_forward_pre_hook(hook)
            try:
                with _WatchBatchNorm() as watch:
                    _call(trial, example)
            except Exception as error:
                said = str(error).splitlines()[0] if str(error) else ""
                mode = "training" if training else "eval"
                self.report.warnings.append(
                    f"the example does not run in {mode} mode ({type(error).__name__}: {said}), so maps of one value are "
                    "not looked for there"
                )
                continue
            if watch.seen and not self.spec.norm.batch_method:
                self._warn_once("a batch norm still runs that is no module; look for torch.nn.functional.batch_norm")
        for name in found:
            if name not in self.report.single_values:
                self._put_norm(name, True)

    def _warn_once(self, text: str) -> None:
        if text not in self.report.warnings:
            self.report.warnings.append(text)

    def describe(self) -> None:
        report, plan = self.report, self.plan
        kinds = {site.norm: "ReLU" if site.slot else "relu()" for site in plan.sites if site.decision == FUSED}
        for name, layer in self.layers.items():
            norm = self.norms[name]
            was = norm.kind if norm.activation is None else f"{norm.kind} with {type(norm.activation).__name__}"
            self._changed(name, f"{was} + {kinds[name]}" if name in kinds else was, str(layer.spec))
        order = {name: i for i, (name, _) in enumerate(self.model.named_modules())}
        report.converted = sorted(self.changes.values(), key=lambda change: order.get(change.name, -1))
        for site in plan.sites:
            if site.decision == LEFT and site.why and not site.idle and self.spec.activation.name != "none":
                what = "ReLU" if site.slot else "relu()"
                report.left.append(Left(site.slot or site.owner or "(the model)", what, site.why))
        report.left += [Left(name, kind, "stays behind its norm") for name, kind in plan.stays]
        self._describe_warnings()

    def _describe_warnings(self) -> None:
        report, plan = self.report, self.plan
        for why in dict.fromkeys(plan.unseen.values()):
            names = [name for name, said in plan.unseen.items() if said == why]
            report.warnings.append(f"{_some(names)}: {why}; became norms without activation, what is behind them stays")
        for owner in self.compared.different:
            if not any(said.startswith(f"{owner or 'the model'} ") for said in plan.unseen.values()):
                report.warnings.append(f"{owner or 'the model'} {self.forwards[owner]}; it stays as it was")
        if blind := [owner for owner in plan.rewritten if owner not in self.compared.reached]:
            report.warnings.append(
                f"{_some(blind)}: the generated forward was not compared with the one before, since no example runs it in "
                "eval mode"
            )
        if report.single_values and self.spec.norm.name in _LEFT_OF_ONE_VALUE:
            said = _LEFT_OF_ONE_VALUE[self.spec.norm.name]
            report.warnings.append(f"{_some(report.single_values)}: the norm sees one value per channel; {said}")
        if frozen := [name for name, norm in self.norms.items() if norm.frozen]:
            report.warnings.append(f"{_some(frozen)}: was frozen, the new layer learns")
        if self.init == "from_bn":
            without = [name for name, norm in self.norms.items() if norm.running_mean is None]
            if without:
                report.warnings.append(f"{_some(without)}: has no running statistics, the new layer starts fresh")
        hooked = [name for name, old in self.originals.items() if old._forward_hooks or old._forward_pre_hooks]
        if hooked:
            report.warnings.append(f"{_some(hooked)}: its hooks are not on the new layer")


def _near(model: nn.Module, name: str) -> torch.Tensor | None:
    """A tensor of the module's nearest surroundings that have one, for its type and device."""
    while name:
        name = name.rpartition(".")[0]
        around = model.get_submodule(name)
        for tensor in (*around.parameters(), *around.buffers()):
            if tensor.is_floating_point():
                return tensor
    return None


def _some(names: list[str]) -> str:
    shown = ", ".join(name or "the model" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
