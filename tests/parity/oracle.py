"""norm_act in float64 with PyTorch's own operators and autograd, and how far a float32 result may be from it.

The measure is the accumulated magnitude: for each result, the sum of the magnitudes of the terms that are added up to
it. With u = 2^-24 the longest path has about eight roundings of at most u each: a chain of five float32 additions
(four roundings), the join of two chains and of two halves of a vector, rstd (its sum, its square root and its own rounding come to less than 2u),
the product with gamma or kappa, the partial sum of a sample and the last store. Everything between is in double. Hence
8u = 4*2^-23, four units in the last place of the magnitude, whatever the size of the map.

An element whose y lies within rounding of its threshold may fall on the other side of it: for exactly those the whole
gradient that moves is allowed on top.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from cases import Call
from torch import Tensor

ALLOWED = 4 * 2.0**-23
SMALLEST = 2.0**-149  # the smallest float32: what a result that underflows may lose


def per_channel(parameter: Tensor | None, like: Tensor, missing: float) -> Tensor:
    if parameter is None:
        return like.new_tensor(missing)
    return parameter.reshape([1, -1] + [1] * (like.dim() - 2))


def group_mean(values: Tensor, groups: int) -> Tensor:
    """The mean of every (sample, group), at each of its channels: [N, C, 1, ...]."""
    n, channels = values.shape[:2]
    means = values.reshape(n, groups, -1).mean(-1)
    return means.repeat_interleave(channels // groups, 1).reshape([n, channels] + [1] * (values.dim() - 2))


def normalise(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """rstd [N, C, 1, ...], y and its threshold (minus infinity for the identity)."""
    x = call.x
    deviation = x - group_mean(x, call.groups) if call.centered else x
    rstd = (group_mean(deviation.square(), call.groups) + per_channel(call.eps, x, 0)).rsqrt()
    y = deviation * rstd * per_channel(call.weight, x, 1) + per_channel(call.bias, x, 0)
    if call.activation == "none":
        return rstd, y, torch.full_like(y, -torch.inf)
    return rstd, y, per_channel(call.kappa, x, 0) * y + per_channel(call.tau, x, 0)


def composite(call: Call) -> Tensor:
    _, y, threshold = normalise(call)
    return torch.where(y < threshold, threshold, y)


@dataclass
class Expected:
    values: dict[str, Tensor]
    bounds: dict[str, Tensor]


def expected(call: Call, allowed: float = ALLOWED) -> Expected:
    """z and every gradient of a call, and how far each may be off: `allowed` times the accumulated magnitude."""
    wide = call.map(lambda t: t.detach().double().contiguous().requires_grad_())
    z = composite(wide)
    inputs = wide.tensors()
    gradients = torch.autograd.grad(z, list(inputs.values()), wide.dz)
    values = {"z": z.detach(), **dict(zip(inputs, gradients))}
    with torch.no_grad():
        bounds = error_bounds(wide, allowed)
    return Expected(values, {name: bounds[name] for name in values})


def error_bounds(call: Call, allowed: float) -> dict[str, Tensor]:
    x, dz, groups = call.x, call.dz.abs(), call.groups
    gamma, beta, tau = (per_channel(p, x, m).abs() for p, m in ((call.weight, 1), (call.bias, 0), (call.tau, 0)))
    kappa = per_channel(call.kappa, x, 0)
    rstd, y, threshold = normalise(call)
    thresholded = call.activation != "none"

    # Magnitudes of the terms: a hat is a mean or a difference before cancellation.
    mean = group_mean(x.abs(), groups) if call.centered else torch.zeros(())
    xhat = rstd * (x.abs() + mean)
    y_size = gamma * xhat + beta
    threshold_size = kappa.abs() * y_size + tau if thresholded else torch.zeros_like(y)
    blocked = y < threshold
    near = ((y - threshold).abs() <= allowed * (y_size + threshold_size)) & thresholded
    dy = torch.where(blocked, kappa.abs() * dz, dz)
    flipped = torch.where(near, (1 - kappa).abs() * dz, 0)  # by how much dy changes on the other side
    stopped = torch.where(blocked, dz, 0)

    def sum_to_channels(values: Tensor) -> Tensor:
        return values.transpose(0, 1).flatten(1).sum(1)

    def dx_of(ghat: Tensor) -> Tensor:
        means = group_mean(ghat, groups) if call.centered else 0
        return rstd * (ghat + means + xhat * group_mean(ghat * xhat, groups))

    change = allowed * dy + flipped  # of dy, relative terms and flips together
    stopped_change = allowed * stopped + torch.where(near, dz, 0)
    deps = 0.5 * rstd.square() * gamma * change * xhat
    z_size = torch.where(near, torch.maximum(y_size, threshold_size), torch.where(blocked, threshold_size, y_size))
    return {
        "z": allowed * z_size,
        "x": dx_of(gamma * change),
        "weight": sum_to_channels(change * xhat),
        "bias": sum_to_channels(change),
        "eps": sum_to_channels(deps) if call.eps.dim() == 1 else deps.sum(),
        "tau": sum_to_channels(stopped_change),
        "kappa": sum_to_channels(stopped_change * y_size),
    }


def assert_within(actual: dict[str, Tensor], wanted: Expected, context: str, extra: float = 0.0) -> None:
    """`extra`: allowed on top, as an absolute number (underflow)."""
    for name, value in wanted.values.items():
        error = (actual[name].double() - value).abs()
        excess = error / (wanted.bounds[name] + extra + SMALLEST)
        assert torch.isfinite(actual[name]).all(), f"{context}: {name} is not finite"
        if excess.numel():
            assert excess.max() <= 1, f"{context}: {name} is off by {excess.max():.2f} times what is allowed"
