"""Forward and every gradient in float32 against float64, for every norm, activation, layout and implementation."""

import pytest
import torch
from cases import LAYERS, LAYOUTS, make_call, read_shapes, shape_name
from oracle import ALLOWED, assert_within, expected

import frn

SHAPES = [shape for shape in read_shapes("shapes.txt") if 0 not in shape]
# The maps of a real network, two samples of each, in the paper's layer and by turns in all others.
RESNET = [
    ((2, *shape[1:]), layer)
    for i, shape in enumerate(read_shapes("resnetv2-50-224.txt"))
    for layer in [("frn", "tlu"), LAYERS[(7 * i + 5) % len(LAYERS)]]
]


def check_everywhere(call, allowed=ALLOWED):
    wanted = expected(call, allowed)
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        for layout in LAYOUTS:
            got = call.with_layout(layout).run()
            assert frn.last_implementation() == implementation
            assert_within(got, wanted, f"{implementation} {layout}")


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
@pytest.mark.parametrize("norm, activation", LAYERS)
def test_results_are_within_4_ulp_of_float64(norm, activation, shape):
    check_everywhere(make_call(norm, activation, shape))


@pytest.mark.parametrize("shape, layer", RESNET, ids=lambda v: shape_name(v) if isinstance(v[0], int) else "+".join(v))
def test_results_on_resnet_maps_are_within_4_ulp_of_float64(shape, layer):
    check_everywhere(make_call(*layer, shape))


@pytest.mark.parametrize("shape", [(4, 12), (2, 7, 5, 7), (1, 130, 3, 5), (3, 8, 64, 65)], ids=shape_name)
@pytest.mark.parametrize("norm, activation", LAYERS)
def test_float64_results_agree_with_pytorch(norm, activation, shape):
    """Both sides add up to 33280 terms in double, each with errors of 2^-53: 1e-12 leaves room for 9000 of one sign."""
    check_everywhere(make_call(norm, activation, shape, torch.float64), allowed=1e-12)


@pytest.mark.parametrize("shape", [(4, 12), (2, 7, 5, 7), (2, 64, 7, 7), (1, 4, 200, 200)], ids=shape_name)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("in", "affine_tlu")])
def test_an_eps_per_channel_is_within_4_ulp_of_float64(norm, activation, shape):
    check_everywhere(make_call(norm, activation, shape, eps=0.1, per_channel_eps=True))


@pytest.mark.parametrize("offset", [1e2, 1e4, 3e4, 1e6])
@pytest.mark.parametrize("norm", ["gn", "ln", "in"])
def test_a_large_mean_costs_no_more_than_its_own_rounding(norm, offset):
    """The mean's sum is off by up to 8 units of 2^-24, and storing it in float32 by one more; the division by the
    deviation makes that visible. The 8 units beside it are those of every other result, of the largest value, about 5."""
    x = torch.randn(2, 64, 14, 14) + offset
    exact = frn.NormAct(64, f"{norm}+none").double()(x.double())
    deviation = x.double().var(dim=(2, 3), correction=0).min().sqrt().item()  # no group's is smaller than its channels' smallest
    allowed = 9 * 2**-24 * (offset + 1) / deviation + 8 * 2**-24 * 5
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        assert (frn.NormAct(64, f"{norm}+none")(x) - exact).abs().max() <= allowed


@pytest.mark.parametrize("missing", [("weight",), ("bias",), ("weight", "bias")], ids="+".join)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("gn", "prelu"), ("ln", "none")])
def test_a_missing_weight_is_one_and_a_missing_bias_zero(norm, activation, missing):
    call = make_call(norm, activation, (2, 12, 5, 7))
    for name in missing:
        setattr(call, name, None)
    check_everywhere(call)


@pytest.mark.parametrize("offset", [1e3, -3e4])
@pytest.mark.parametrize("norm", ["in", "gn", "ln"])
def test_a_mean_far_from_zero_costs_no_accuracy(norm, offset):
    """A one-pass variance, E[x^2] - E[x]^2, loses every digit here."""
    call = make_call(norm, "relu", (2, 12, 9, 9))
    call.x = call.x + torch.tensor(offset)
    check_everywhere(call)


@pytest.mark.parametrize("activation", ["relu", "tlu", "prelu", "affine_tlu"])
@pytest.mark.parametrize("shape", [(4, 12), (2, 7, 5, 7), (2, 64, 7, 7), (3, 8, 64, 65)], ids=shape_name)
def test_act_equals_the_definition(activation, shape):
    """No sums in forward: z is one rounding of kappa*y, one of the sum; dtau and dkappa as in the oracle."""
    source = make_call("frn", activation, shape)
    tensors = [t for t in (source.x, source.tau, source.kappa) if t is not None]
    wide = [t.double().requires_grad_() for t in tensors]
    y = wide[0]
    view = [1, -1] + [1] * (len(shape) - 2)
    tau = wide[1].view(view) if source.tau is not None else torch.zeros((), dtype=torch.float64)
    kappa = wide[-1].view(view) if source.kappa is not None else torch.zeros((), dtype=torch.float64)
    threshold = kappa * y + tau
    z = torch.where(y < threshold, threshold, y)
    wanted = torch.autograd.grad(z, wide, source.dz.double())
    size = torch.maximum(y.abs(), (kappa * y).abs() + tau.abs()).detach()
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        for layout in LAYOUTS.values():
            inputs = [layout(tensors[0]).requires_grad_(), *(t.clone().requires_grad_() for t in tensors[1:])]
            named = dict(zip([n for n in ("y", "tau", "kappa") if n == "y" or getattr(source, n) is not None], inputs))
            got = frn.act(**named, activation=activation)
            gradients = torch.autograd.grad(got, inputs, layout(source.dz))
            assert frn.last_implementation() == implementation
            assert ((got - z).abs() <= 2 * 2**-24 * size).all()
            assert torch.equal(gradients[0], wanted[0].float())
            for gradient, value in zip(gradients[1:], wanted[1:]):
                # A wrong or missing term would show as a whole |dz|, not as a share of the sum.
                bound = 4 * 2**-23 * (source.dz.double().abs() * (1 + y.abs())).transpose(0, 1).flatten(1).sum(1)
                assert ((gradient - value).abs() <= bound).all()
