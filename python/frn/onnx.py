"""What torch.onnx needs to write the operators of frn as ONNX's own.

    torch.onnx.export(model.eval(), (x,), "model.onnx", dynamo=True, opset_version=18,
                      custom_translation_table=frn.onnx.translation_table())

Engines then need nothing of frn. `frn export` does the same for the program's networks.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch


def translation_table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For `custom_translation_table` of torch.onnx.export. Needs onnxscript, as torch.onnx itself does."""
    try:
        from onnxscript import ir, opset18 as op
    except ImportError as error:
        raise ImportError("frn.onnx needs onnxscript, as torch.onnx.export does; pip install onnxscript") from error

    def whole_numbers(*numbers: int):
        return op.Constant(value_ints=list(numbers))

    def beside(parameter, rank: int):
        """[C] as [C, 1, ...]."""
        return parameter if rank == 2 else op.Reshape(parameter, whole_numbers(-1, *[1] * (rank - 2)))

    def to(dtype, value):
        """ONNX's operators take one type: parameters may have another than x."""
        return value if value is None or value.dtype == dtype else op.Cast(value, to=dtype)

    def wide_type(x):
        """What kernels compute in: squares of 16-bit values overflow in 16 bits."""
        return ir.DataType.DOUBLE if x.dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT

    def rounded(value, dtype):
        return value if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else op.Cast(value, to=dtype)

    def activated(y, wide, rank: int, tau, kappa, activation: str):
        """max(y, kappa*y + tau) with parts left out, in the wide type that y has."""
        if activation == "none":
            return y
        if activation == "relu":
            return op.Relu(y)
        threshold = None if kappa is None else op.Mul(y, beside(to(wide, kappa), rank))
        if tau is not None:
            offset = beside(to(wide, tau), rank)
            threshold = offset if threshold is None else op.Add(threshold, offset)
        return op.Max(y, threshold)

    def act(y, tau=None, kappa=None, activation: str = "none"):
        if activation == "none":
            return op.Identity(y)
        wide = wide_type(y)
        return rounded(activated(to(wide, y), wide, len(y.shape), tau, kappa, activation), y.dtype)

    def normalised(x, wide, weight, bias, eps, groups: int, centered: bool):
        """y in the wide type, and as the operator gives them, means (none unless centered) and 1/roots of the groups."""
        rank, channels = len(x.shape), x.shape[1]
        # Statistics of a channel, of a whole sample, or of groups of channels, which get an axis of their own.
        grouped = groups not in (1, channels)
        axes = [2] if grouped else list(range(2 if groups == channels else 1, rank))

        def mean_of(values):
            return op.ReduceMean(values, whole_numbers(*axes), keepdims=1) if axes else values

        values = op.Reshape(to(wide, x), whole_numbers(0, groups, -1)) if grouped else to(wide, x)
        per_group = whole_numbers(0, groups)
        means = op.Constant(value_floats=[])
        if centered:
            mean = mean_of(values)
            means = op.Reshape(mean, per_group)
            values = op.Sub(values, mean)
        number = to(wide, eps)
        number = beside(number, rank) if len(eps.shape) == 1 and eps.shape[0] != 1 else number
        root = op.Sqrt(op.Add(mean_of(op.Mul(values, values)), number))
        y = op.Div(values, root)
        if grouped:
            y = op.Reshape(y, op.Shape(x))
        if weight is not None:
            y = op.Mul(y, beside(to(wide, weight), rank))
        if bias is not None:
            y = op.Add(y, beside(to(wide, bias), rank))
        return y, means, op.Reshape(op.Reciprocal(root), per_group)

    def norm_act_forward(
        x,
        weight=None,
        bias=None,
        eps=None,
        tau=None,
        kappa=None,
        groups: int = 1,
        centered: bool = False,
        activation: str = "none",
        *,
        shortcut=None,
    ):
        wide, result = wide_type(x), x.dtype
        y, means, roots = normalised(x, wide, weight, bias, eps, groups, centered)
        if shortcut is not None:
            if shortcut.dtype != x.dtype:  # the wider of both types
                either_is_double = ir.DataType.DOUBLE in (x.dtype, shortcut.dtype)
                wide = result = ir.DataType.DOUBLE if either_is_double else ir.DataType.FLOAT
                y = op.Cast(y, to=wide)
            y = op.Add(y, to(wide, shortcut))
        return rounded(activated(y, wide, len(x.shape), tau, kappa, activation), result), means, roots

    def norm_add_act_forward(x, shortcut, *arguments, **named):
        return norm_act_forward(x, *arguments, shortcut=shortcut, **named)

    def norm_add_act(*arguments, **named):
        return norm_add_act_forward(*arguments, **named)[0]

    def norm_act(*arguments, **named):
        return norm_act_forward(*arguments, **named)[0]

    def proxy_forward(weight, bias, tau=None, kappa=None):
        """frn/kernels/proxy.h, line by line. The results are as wide as the arithmetic."""
        wide = wide_type(weight)
        weight = to(wide, weight)

        def number(value: float):
            return op.CastLike(op.Constant(value_float=value), weight)  # type: ignore[type-var]  # any constant

        zero, one, half = number(0.0), number(1.0), number(0.5)
        tau = op.Mul(weight, zero) if tau is None else to(wide, tau)
        kappa = op.Mul(weight, zero) if kappa is None else to(wide, kappa)
        beta, spread, below = to(wide, bias), op.Abs(weight), op.Sub(one, kappa)
        straight = op.Equal(below, zero)
        low, high, bend = op.Min(kappa, one), op.Max(kappa, one), op.Abs(below)
        offset = op.Where(op.Greater(below, zero), tau, op.Where(straight, op.Max(tau, zero), zero))
        theta = op.Where(straight, zero, op.Div(tau, op.Where(straight, one, below)))
        m = op.Sub(beta, theta)
        far, flat = number(40.0), op.Equal(spread, zero)
        alone = op.Where(op.Less(m, zero), op.Neg(far), far)
        alpha = op.Where(flat, alone, op.Min(op.Max(op.Div(m, op.Where(flat, one, spread)), op.Neg(far)), far))
        error = op.Erf(op.Mul(alpha, number(0.5**0.5)))
        above, rest = op.Mul(half, op.Add(one, error)), op.Mul(half, op.Sub(one, error))
        density = op.Mul(number((2 * math.pi) ** -0.5), op.Exp(op.Neg(op.Mul(half, op.Mul(alpha, alpha)))))
        first = op.Mul(op.Mul(alpha, alpha), op.Mul(above, rest))
        second = op.Mul(op.Mul(alpha, density), op.Sub(rest, above))
        v = op.Sub(op.Add(first, second), op.Mul(density, density))
        ramp = op.Add(op.Mul(m, above), op.Mul(spread, density))
        mean = op.Add(op.Add(op.Mul(low, beta), offset), op.Mul(bend, ramp))
        sides = op.Add(op.Mul(op.Mul(low, low), rest), op.Mul(op.Mul(high, high), above))
        share = op.Max(zero, op.Add(sides, op.Mul(op.Mul(bend, bend), v)))
        variance = op.Mul(op.Mul(spread, spread), share)
        scale = op.Reciprocal(op.Sqrt(op.Add(variance, number(0.03))))
        moved = op.Sub(tau, op.Mul(below, mean))
        return op.Mul(scale, weight), op.Mul(scale, op.Sub(beta, mean)), op.Mul(scale, moved)

    norm_act.__signature__ = inspect.signature(norm_act_forward)  # type: ignore[attr-defined]  # torch.onnx reads it
    norm_add_act.__signature__ = inspect.signature(norm_add_act_forward)  # type: ignore[attr-defined]
    return {
        # What torch.export makes of the layers, and of standardised weights.
        torch.ops.frn._norm_act_forward.default: norm_act_forward,
        torch.ops.frn._act_forward.default: act,
        torch.ops.frn._norm_add_act_forward.default: norm_add_act_forward,
        torch.ops.frn.norm_add_act.default: norm_add_act,
        torch.ops.frn.norm_act.default: norm_act,
        torch.ops.frn._proxy_forward.default: proxy_forward,
        torch.ops.frn.proxy.default: proxy_forward,
    }
