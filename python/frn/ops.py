"""The operators as functions. For sample n and a group of channels, over the values x of that group:

mu = mean(x) if centered else 0      xhat = (x - mu)/sqrt(mean((x - mu)^2) + eps)
y = weight*xhat + bias               z = max(y, kappa*y + tau)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor, fx


def norm_act(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: Tensor | float = 1e-6,
    tau: Tensor | None = None,
    kappa: Tensor | None = None,
    *,
    groups: int | None = None,
    centered: bool = False,
    activation: str = "none",
) -> Tensor:
    """Normalises each sample over groups of channels and applies the activation, in one pass over memory.

    Args:
        x: [N, C, *], contiguous or channels-last; float32, float64, bfloat16 or float16.
        weight, bias: [C], of x's type or float32; missing ones are 1 and 0.
        eps: positive; one number, or [C] when every channel is a group of its own.
        tau: [C], for the activations tlu and affine_tlu.
        kappa: [C], for prelu and affine_tlu.
        groups: how many groups the channels form: C (the default) for FRN and instance norm, 1 for layer norm.
        centered: whether the group's mean is subtracted.
        activation: none, relu, tlu, prelu or affine_tlu.

    Returns a tensor of x's type and layout. Differentiable twice in all tensors. At y == kappa*y + tau the gradient
    goes to y, as in the paper.
    """
    if groups is None:
        groups = _channels(x)
    return torch.ops.frn.norm_act.default(x, weight, bias, _as_tensor(eps, x), tau, kappa, groups, centered, activation)


def norm_act_conv(
    x: Tensor,
    filters: Tensor,
    conv_bias: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: Tensor | float = 1e-6,
    tau: Tensor | None = None,
    kappa: Tensor | None = None,
    *,
    groups: int | None = None,
    centered: bool = False,
    activation: str = "none",
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    conv_groups: int = 1,
) -> Tensor:
    """The convolution of norm_act's result, keeping one tensor of x's size for the gradients where the two keep two.

    The result z of norm_act is not kept for the filters' gradient but computed again from x when that needs it. All
    results and gradients have the bits of the two operators one after the other.

    Args:
        x: [N, C, *] with one, two or three dimensions in *, as for norm_act; so are weight, bias, eps, tau, kappa, groups,
            centered and activation.
        filters: [out, C / conv_groups, *], with conv_bias of [out].
        stride, padding, dilation: a number for all dimensions of a map, or one for each, as in torch.nn.functional.conv2d.

    Differentiable twice in all tensors.
    """
    if isinstance(padding, str):
        raise ValueError(f"[norm_act_conv] padding must be numbers but is {padding!r}; write dilation*(kernel - 1)/2 for 'same'")
    if groups is None:
        groups = _channels(x)
    return torch.ops.frn.norm_act_conv.default(
        x,
        weight,
        bias,
        _as_tensor(eps, x),
        tau,
        kappa,
        groups,
        centered,
        activation,
        filters,
        conv_bias,
        _each(stride, x),
        _each(padding, x),
        _each(dilation, x),
        conv_groups,
    )


def norm_add_act(
    x: Tensor,
    shortcut: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: Tensor | float = 1e-6,
    tau: Tensor | None = None,
    kappa: Tensor | None = None,
    *,
    groups: int | None = None,
    centered: bool = False,
    activation: str = "none",
) -> Tensor:
    """The end of a residual block, act(norm_act(x) + shortcut), in one pass over memory where three operators make three.

    The norm has no activation of its own; tau, kappa and activation are the sum's. For the gradients x, the shortcut and
    a few numbers per channel are kept, but not the sum: in a network the shortcut is the block's input, which the block's
    first convolution keeps anyway. float32 and float64 results and gradients have the bits of the three operators;
    16-bit ones are rounded once instead of three times.

    Args:
        x: [N, C, *], as for norm_act; so are weight, bias, eps, tau, kappa, groups, centered and activation.
        shortcut: of x's shape. One of x's type is fast; of another type, the result has the wider of both.

    Differentiable twice in all tensors. Where the sum equals its threshold the gradient goes to the sum.
    """
    if groups is None:
        groups = _channels(x)
    return torch.ops.frn.norm_add_act.default(
        x, shortcut, weight, bias, _as_tensor(eps, x), tau, kappa, groups, centered, activation
    )


def frn_tlu(x: Tensor, weight: Tensor, bias: Tensor, tau: Tensor, eps: Tensor | float = 1e-6) -> Tensor:
    """The paper's listing: max(weight*x/sqrt(mean(x^2) + |eps|) + bias, tau), statistics per sample and channel."""
    return torch.ops.frn.frn_tlu.default(x, weight, bias, tau, _as_tensor(eps, x))


def act(y: Tensor, tau: Tensor | None = None, kappa: Tensor | None = None, *, activation: str) -> Tensor:
    """The activation alone, max(y, kappa*y + tau), for use after a batch norm or a residual addition."""
    return torch.ops.frn.act.default(y, tau, kappa, activation)


def proxy(
    weight: Tensor, bias: Tensor, tau: Tensor | None = None, kappa: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Proxy normalisation (Labatie et al. 2021): weight, bias and tau of a layer that also normalises its activations.

    With them norm_act brings max(y, kappa*y + tau) to the mean 0 and the deviation 1 (of variance + 0.03) that it would
    have for normal numbers in place of the normalised x. All are [C]; kappa stays as it is. Use them with the activation
    tlu, or affine_tlu where there is a kappa. Differentiable twice.
    """
    return torch.ops.frn.proxy.default(weight, bias, tau, kappa)


def standardise(weight: Tensor, gain: Tensor | None = None, *, scaled: bool = True, eps: float = 1e-6) -> Tensor:
    """Weight standardisation (Qiao et al. 2019): filters [out, *] with mean 0 and deviation 1, or 1/sqrt(fan-in).

    Args:
        gain: [out, 1, ...] or [out], multiplies each filter.
        scaled: whether filters are divided by the root of their fan-in.
        eps: added to a filter's variance.
    """
    return torch.ops.frn.standardise.default(weight, gain, scaled, eps)


def implementations() -> list[str]:
    """The CPU implementations that this machine can run, best first."""
    return torch.ops.frn.implementations()


def force_implementation(name: str | None) -> None:
    """Makes all CPU calls of this process use one implementation; None goes back to the default.

    The environment variable FRN_IMPLEMENTATION does the same at start.
    """
    torch.ops.frn.force_implementation(name or "")


def last_implementation() -> str:
    """The implementation that ran last: one of implementations(), "composite", or "" before the first call."""
    return torch.ops.frn.last_implementation()


def _channels(x: Tensor) -> int:
    return x.size(1) if x.dim() > 1 else 1  # the operator says what is wrong with a vector


def _each(numbers: int | Sequence[int], x: Tensor) -> list[int]:
    """One number for each dimension of x's maps."""
    return [numbers] * (x.dim() - 2) if isinstance(numbers, int) else list(numbers)


def _as_tensor(eps: Tensor | float, x: Tensor) -> Tensor:
    if isinstance(eps, Tensor):
        return eps
    # As wide as the arithmetic: 16 bits do not hold 1e-6, and not every device has float64.
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    if x.device.type != "cpu" or type(x) is not Tensor or torch.compiler.is_compiling():
        return torch.full((), eps, dtype=dtype, device=x.device)
    return _number(float(eps), dtype)


# torch.fx records calls of these instead of running them: they ask x what a stand-in for a tensor does not know. Calls
# outside torch.fx are as before.
fx.wrap("_channels")
fx.wrap("_each")
fx.wrap("_as_tensor")


@functools.cache
def _number(value: float, dtype: torch.dtype) -> Tensor:
    """Made once: with small maps, making it takes a tenth of the layer's time. Also for graphs, wherever it is first asked for."""
    with torch.inference_mode(False), torch.utils._python_dispatch._disable_current_modes():
        return torch.full((), value, dtype=dtype, device="cpu")  # a default device is none of these modes
