"""Modules that take the place of batch norms and activations, and what they remember of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from frn.conversion.known import BatchNorm
from frn.modules import NormAct
from frn.spec import NormActSpec

_MEMORY = "_before_conversion"


@dataclass
class Memory:
    """What stood in a module's place, and the values that the module started with."""

    was: nn.Module | None  # None: nothing, the place is new
    start: dict[str, Tensor]


def remember(module: nn.Module, was: nn.Module | None) -> None:
    """In vars(), where torch does not look: `was` is no submodule and has no part in the state dict."""
    start = {name: value.clone() for name, value in module.state_dict().items()}
    vars(module)[_MEMORY] = Memory(was, start)


def memory_of(module: nn.Module) -> Memory | None:
    return vars(module).get(_MEMORY)


class Absorbed(nn.Identity):
    """Stands where a ReLU was that a norm took over."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        self.norm = norm

    def extra_repr(self) -> str:
        return f"ReLU, now in {self.norm}"


class NormThen(NormAct):
    """A norm without an activation of its own and what follows it, `drop` and `act`, as in timm's BatchNormAct2d.

    x: [N, channels, *], and so is the result.
    """

    def __init__(self, channels: int, spec: str | NormActSpec, drop: nn.Module, act: nn.Module) -> None:
        super().__init__(channels, spec)
        self.drop, self.act = drop, act

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(x)))


def written_spec(spec: NormActSpec, norm: BatchNorm, activation: str, single_value: bool) -> NormActSpec:
    """The spec of one place: FRN learns its eps where it sees one value, batch methods keep eps and momentum."""
    options = dict(spec.options)
    if spec.norm.name == "frn" and single_value and "eps" not in options:
        options["eps"] = "learned"
    if spec.norm.batch_method:
        options.setdefault("eps", norm.eps)
        if norm.momentum is not None:
            options.setdefault("momentum", norm.momentum)
    inside = ",".join(f"{key}={value}" for key, value in options.items())
    return NormActSpec.parse(f"{spec.norm.name}{f'({inside})' if inside else ''}+{activation}")


def make_norm(norm: BatchNorm, spec: NormActSpec, init: str) -> NormAct:
    """The layer that takes the norm's place. What the norm brings along and the spec does not take over stays behind it."""
    act, activation = norm.activation, spec.activation.name
    if norm.drop is not None and activation != "none":  # drops out between norm and activation
        act, spec = NormAct(norm.channels, f"none+{activation}"), spec.with_activation("none")
    follows = norm.drop is not None or (act is not None and activation == "none")
    layer = NormAct(norm.channels, spec)
    if follows:
        layer = NormThen(norm.channels, spec, norm.drop or nn.Identity(), act or nn.Identity())
    layer.to(device=norm.like.device, dtype=norm.like.dtype if norm.like.is_floating_point() else None)
    if init == "from_bn":
        start_from(layer, norm)
    return layer


FROM_BN = ("frn", "in", "bn", "brn")


@torch.no_grad()
def start_from(layer: NormAct, norm: BatchNorm) -> None:
    """weight and bias such that the layer gives what batch norm gives in eval mode, on the samples it would expect.

    Batch norm is a*x + b with a = gamma/sqrt(var + eps), b = beta - a*mean. FRN divides by sqrt(nu2 + eps'), where nu2 is
    the mean square of the sample's channel. Where nu2 is the running one, var + mean^2, both are equal for
    weight = a*sqrt(var + mean^2 + eps'), bias = b and tau = 0. Instance norm is equal where mean and variance are.
    """
    if norm.running_mean is None or norm.running_var is None:
        return
    mean, var = norm.running_mean.double(), norm.running_var.double()
    gamma = torch.ones_like(mean) if norm.weight is None else norm.weight.double()
    beta = torch.zeros_like(mean) if norm.bias is None else norm.bias.double()
    if layer.spec.norm.name == "frn":
        scale = gamma * (var + norm.eps).rsqrt()
        eps = layer.current_eps()
        gamma = scale * (var + mean.square() + eps).sqrt()
        beta = beta - scale * mean
    elif layer.spec.norm.name == "in":
        gamma = gamma * ((var + layer.current_eps()) / (var + norm.eps)).sqrt()
    weight, bias = layer._affine()
    weight.copy_(gamma)
    bias.copy_(beta)
    if layer.spec.norm.batch_method:
        layer.running_mean.copy_(norm.running_mean)
        layer.running_var.copy_(norm.running_var)
