"""Shapes, layers and random inputs that the tests share."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor

import frn

ROOT = Path(__file__).resolve().parents[2]

PER_SAMPLE = ("frn", "gfrn", "lfrn", "in", "gn", "ln")
ACTIVATIONS = ("none", "relu", "tlu", "prelu", "affine_tlu")
LAYERS = [(norm, activation) for norm in PER_SAMPLE for activation in ACTIVATIONS]
NAMES = ("x", "weight", "bias", "eps", "tau", "kappa")  # the order of the operator's tensors


def read_shapes(name: str) -> list[tuple[int, ...]]:
    lines = (ROOT / "tests" / "cases" / name).read_text().splitlines()
    return [tuple(int(part) for part in line.split()) for line in lines if line.strip() and not line.startswith("#")]


def shape_name(shape) -> str:
    return "x".join(str(size) for size in shape)


def groups_of(norm: str, channels: int) -> int:
    """For the sized rule the smallest real split, so that shapes of few channels have groups of several as well."""
    rule = frn.NORMS[norm].group_rule
    if rule == "channel":
        return channels
    if rule == "layer":
        return 1
    return next((g for g in range(2, channels) if channels % g == 0), 1)


def channels_last(x: Tensor) -> Tensor:
    """The same values with the channels innermost in memory, for any rank."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


LAYOUTS = {"contiguous": torch.Tensor.contiguous, "channels_last": channels_last}


@dataclass
class Call:
    """One call of norm_act and the gradient of its result."""

    x: Tensor
    weight: Tensor | None
    bias: Tensor | None
    eps: Tensor
    tau: Tensor | None
    kappa: Tensor | None
    groups: int
    centered: bool
    activation: str
    dz: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """The inputs that are there, by name."""
        return {name: getattr(self, name) for name in NAMES if getattr(self, name) is not None}

    def map(self, f) -> Call:
        """The same call with f applied to every tensor."""
        names = [field.name for field in fields(self) if isinstance(getattr(self, field.name), Tensor)]
        return replace(self, **{name: f(getattr(self, name)) for name in names})

    def with_layout(self, layout: str) -> Call:
        return replace(self, x=LAYOUTS[layout](self.x), dz=LAYOUTS[layout](self.dz))

    def forward(self) -> Tensor:
        return torch.ops.frn.norm_act(
            self.x, self.weight, self.bias, self.eps, self.tau, self.kappa, self.groups, self.centered, self.activation
        )

    def run(self, **grad_options) -> dict[str, Tensor]:
        """z, and the gradients under the names of their inputs."""
        call = self.map(lambda t: t.detach().requires_grad_())
        z = call.forward()
        inputs = call.tensors()
        gradients = torch.autograd.grad(z, list(inputs.values()), self.dz.detach(), **grad_options)
        return {"z": z.detach(), **dict(zip(inputs, gradients))}


def make_call(
    norm: str, activation: str, shape, dtype=torch.float32, eps: float = 1e-5, per_channel_eps=False, seed: int = 0
) -> Call:
    """Random inputs, the same in every run: channels of differing scale and offset, parameters of both signs."""
    row, act = frn.NORMS[norm], frn.ACTIVATIONS[activation]
    generator = torch.Generator().manual_seed(zlib.crc32(f"{norm}+{activation} {shape} {seed}".encode()))
    channels = shape[1]

    def normal(*size):
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    def uniform(low, high):
        return torch.rand(channels, generator=generator, dtype=torch.float64) * (high - low) + low

    per_channel = [1, channels] + [1] * (len(shape) - 2)
    scale, offset = (10 ** uniform(-1, 1)).view(per_channel), uniform(-2, 2).view(per_channel)
    eps = torch.tensor(eps, dtype=torch.float64) * (1 + uniform(0, 1) if per_channel_eps else 1)
    call = Call(
        x=(normal(*shape) + offset) * scale,
        weight=normal(channels),
        bias=normal(channels),
        eps=eps,
        tau=normal(channels) if act.uses_tau else None,
        kappa=uniform(-0.5, 1.5) if act.uses_kappa else None,
        groups=groups_of(norm, channels),
        centered=row.centered,
        activation=activation,
        dz=normal(*shape),
    )
    return call.map(lambda t: t.to(dtype))
