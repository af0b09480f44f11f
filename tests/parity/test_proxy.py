"""Proxy normalisation: z' = (z - mean)/sqrt(variance + 0.03), the moments those of z for normal numbers in place of xhat."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

import frn

ACTIVATIONS = ["relu", "tlu", "prelu", "affine_tlu"]
EPS = 0.03


def parameters(channels=64, activation="affine_tlu", dtype=torch.float64):
    """weight, bias, tau and kappa with both signs, and a kappa above 1."""
    uses = frn.ACTIVATIONS[activation]
    torch.manual_seed(1)
    weight, bias = torch.randn(channels, dtype=dtype), torch.randn(channels, dtype=dtype)
    tau = torch.randn(channels, dtype=dtype) if uses.uses_tau else None
    kappa = 0.3 + 0.8 * torch.randn(channels, dtype=dtype) if uses.uses_kappa else None
    return weight, bias, tau, kappa


def moments_by_integration(weight, bias, tau, kappa):
    """Mean and variance of max(y, kappa*y + tau) over the normal density, by Gauss-Legendre on both sides of the bend."""
    points, weights = np.polynomial.legendre.leggauss(200)
    out = []
    for w, b, t, k in zip(weight.tolist(), bias.tolist(), tau.tolist(), kappa.tolist()):
        bend = (t / (1 - k) - b) / w if k != 1 else 0.0
        edges = sorted({-12.0, 12.0, min(max(bend, -12.0), 12.0)})
        first = second = 0.0
        for low, high in zip(edges, edges[1:]):
            q = (high - low) / 2 * points + (high + low) / 2
            density = np.exp(-q * q / 2) / math.sqrt(2 * math.pi) * weights * (high - low) / 2
            y = w * q + b
            z = np.maximum(y, k * y + t)
            first += (density * z).sum()
            second += (density * z * z).sum()
        out.append((first, second - first * first))
    mean, variance = torch.tensor(out, dtype=torch.float64).T
    return mean, variance


def zeros_for_none(weight, *others):
    return [torch.zeros_like(weight) if one is None else one for one in others]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_moments_are_those_of_the_normal_distribution(activation):
    weight, bias, tau, kappa = parameters(activation=activation)
    t, k = zeros_for_none(weight, tau, kappa)
    mean, variance = moments_by_integration(weight, bias, t, k)
    a = (variance + EPS).rsqrt()
    new_weight, new_bias, new_tau = frn.proxy(weight, bias, tau, kappa)
    torch.testing.assert_close(new_weight, a * weight, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(new_bias, a * (bias - mean), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(new_tau, a * (t - (1 - k) * mean), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("norm", ["frn", "gfrn(group_size=4)", "lfrn", "in", "gn(group_size=4)", "ln"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_layer_normalises_its_activations(norm, activation):
    head, _, options = norm.partition("(")
    options = options.rstrip(")") + "," if options else ""
    plain = frn.NormAct(8, f"{norm}+{activation}", dtype=torch.float64)
    weight, bias, tau, kappa = parameters(8, activation)
    with torch.no_grad():
        for name, value in {"weight": weight, "bias": bias, "tau": tau, "kappa": kappa}.items():
            if value is not None:
                getattr(plain, name).copy_(value)
    layer = frn.NormAct(8, f"{head}({options}proxy=true)+{activation}", dtype=torch.float64)
    layer.load_state_dict(plain.state_dict())
    x = torch.randn(3, 8, 5, 4, dtype=torch.float64)
    mean, variance = moments_by_integration(weight, bias, *zeros_for_none(weight, tau, kappa))
    shape = (1, 8, 1, 1)
    wanted = (plain(x) - mean.reshape(shape)) * (variance + EPS).rsqrt().reshape(shape)
    torch.testing.assert_close(layer(x), wanted, rtol=1e-10, atol=1e-11)


def test_normal_numbers_come_out_with_mean_0_and_deviation_near_1():
    layer = frn.NormAct(16, "ln(proxy=true)+relu")
    x = torch.randn(64, 16, 32, 32)
    z = layer(x)
    mean, variance = z.mean((0, 2, 3)), z.var((0, 2, 3))
    # ReLU of a normal number has a variance of 0.3408, of which 0.03 makes it 0.919.
    assert mean.abs().max() < 0.02 and (variance - 0.3408 / 0.3708).abs().max() < 0.02


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_derivatives_are_right_to_the_second_order(activation):
    tensors = [t for t in parameters(6, activation) if t is not None]
    uses = frn.ACTIVATIONS[activation]

    def function(*given):
        rest = list(given[2:])
        tau = rest.pop(0) if uses.uses_tau else None
        return frn.proxy(given[0], given[1], tau, rest.pop(0) if uses.uses_kappa else None)

    inputs = [t.requires_grad_() for t in tensors]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


def test_gradients_are_the_same_with_a_graph_of_them():
    """With one they are ATen's operators, which devices without a kernel run too; without, the fused loop."""
    inputs = [t.requires_grad_() for t in parameters(64)]
    weights = [torch.linspace(-1, 2, 64, dtype=torch.float64) ** power for power in (1, 2, 3)]
    total = sum((w * out).sum() for w, out in zip(weights, frn.proxy(*inputs)))
    fused = torch.autograd.grad(total, inputs, retain_graph=True)
    composed = torch.autograd.grad(total, inputs, create_graph=True)
    for one, other in zip(fused, composed):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_a_channel_without_a_spread_gives_numbers_and_gradients():
    """gamma 0, as where residual branches start: z is max(beta, tau), and nothing is divided by 0."""
    weight = torch.zeros(3, requires_grad=True)
    bias = torch.tensor([0.0, 1.0, -1.0], requires_grad=True)
    tau = torch.zeros(3, requires_grad=True)
    out = frn.proxy(weight, bias, tau)
    expected = [torch.zeros(3), torch.tensor([0.0, 0.0, -1.0]) / EPS**0.5, torch.tensor([0.0, -1.0, 0.0]) / EPS**0.5]
    for value, wanted in zip(out, expected):
        torch.testing.assert_close(value, wanted)
    sum(one.sum() for one in out).backward()
    assert all(torch.isfinite(t.grad).all() for t in (weight, bias, tau))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e3, 1e15])
def test_extreme_parameters_give_numbers(scale):
    weight, bias, tau, kappa = (scale * t for t in parameters(32))
    kappa[0], kappa[1], kappa[2] = 1.0, 1 + 1e-12, 1 - 1e-12
    inputs = [t.requires_grad_() for t in (weight, bias, tau, kappa)]
    out = frn.proxy(*inputs)
    assert all(torch.isfinite(t).all() for t in out)
    sum(one.sum() for one in out).backward()
    assert all(torch.isfinite(t.grad).all() for t in inputs)


def test_the_operator_keeps_pytorchs_rules():
    inputs = [t.float().requires_grad_() for t in parameters(5)]
    opcheck(torch.ops.frn.proxy.default, tuple(inputs))
    opcheck(torch.ops.frn.proxy.default, (inputs[0], inputs[1], None, None))
    layer = frn.NormAct(4, "frn(proxy=true)+tlu")
    x = torch.randn(2, 4, 3, 3)
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x))


def test_without_an_activation_nothing_is_normalised():
    x = torch.randn(2, 4, 3, 3)
    assert torch.equal(frn.NormAct(4, "gn(groups=2,proxy=true)+none")(x), frn.NormAct(4, "gn(groups=2)+none")(x))


def test_16_bit_layers_take_parameters_of_their_own_type():
    layer = frn.NormAct(8, "frn(proxy=true)+tlu").to(torch.bfloat16)
    wide = frn.NormAct(8, "frn(proxy=true)+tlu")
    x = torch.randn(2, 8, 6, 6).bfloat16()
    z = layer(x)
    assert z.dtype == torch.bfloat16
    torch.testing.assert_close(z.float(), wide(x.float()), rtol=2**-8, atol=2**-8)


@pytest.mark.parametrize("form", ["learned", "learned_exp"])
def test_a_learned_eps_starts_where_it_is_told(form):
    for layer in (frn.FRN(4, eps=form, eps_start=0.5), frn.NormAct(4, f"frn(eps={form},eps_start=0.5)+tlu")):
        assert layer.current_eps().item() == pytest.approx(0.5 + 1e-6, rel=1e-6)
    channels = frn.FRN(4, eps=form, eps_start=2, eps_shape="channel")
    assert channels.current_eps().tolist() == pytest.approx([2 + 1e-6] * 4, rel=1e-6)
    with pytest.raises(ValueError, match="eps_start must come with a learned eps"):
        frn.NormAct(4, "frn(eps_start=1)+tlu")


def test_what_does_not_fit_is_named():
    with pytest.raises(RuntimeError, match=r"\[proxy\] tau must have shape \[3\] \(as weight\) but has \[2\]"):
        frn.proxy(torch.ones(3), torch.ones(3), torch.ones(2))
