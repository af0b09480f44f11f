"""At y == kappa*y + tau the whole gradient goes to y and none to tau and kappa (section 3.2 of the paper)."""

import pytest
import torch
from cases import LAYOUTS

import frn

# y at the tie, tau, kappa: all exact in binary.
TIES = {
    "relu": (0.0, None, None),
    "tlu": (0.5, 0.5, None),
    "prelu": (0.0, None, 0.25),
    "affine_tlu": (0.5, 0.25, 0.5),
}
CHANNELS = 24


def parameters(activation):
    values = dict(zip(("tau", "kappa"), TIES[activation][1:]))
    return {n: torch.full((CHANNELS,), v, requires_grad=True) for n, v in values.items() if v is not None}


def check_gradients(z, y, others, dz, create_graph):
    gradients = torch.autograd.grad(z, [y, *others], dz, create_graph=create_graph)
    assert torch.equal(gradients[0], dz)
    for gradient in gradients[1:]:
        assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("activation", TIES)
def test_act_sends_the_gradient_of_a_tie_to_y(activation, layout, create_graph):
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        y = LAYOUTS[layout](torch.full((2, CHANNELS, 3, 5), TIES[activation][0])).requires_grad_()
        others = parameters(activation)
        z = frn.act(y, **others, activation=activation)
        assert torch.equal(z, y)
        check_gradients(z, y, others.values(), torch.randn_like(y), create_graph)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("activation", TIES)
def test_norm_act_sends_the_gradient_of_a_tie_to_y(activation, layout, create_graph):
    """Where x is 0, y is the bias. Those elements tie; the others lie far above and pass their gradient as well."""
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        x = torch.rand(2, CHANNELS, 3, 5) + 10
        x[..., ::2] = 0
        x = LAYOUTS[layout](x).requires_grad_()
        weight = torch.ones(CHANNELS, requires_grad=True)
        bias = torch.full((CHANNELS,), TIES[activation][0], requires_grad=True)
        others = parameters(activation)
        z = frn.norm_act(x, weight, bias, **others, activation=activation)
        dz = torch.ones_like(x)
        gradients = torch.autograd.grad(z, [bias, *others.values()], dz, create_graph=create_graph)
        assert torch.equal(gradients[0], torch.full((CHANNELS,), 30.0))  # all of dz: nothing was blocked
        for gradient in gradients[1:]:
            assert torch.equal(gradient, torch.zeros(CHANNELS))


@pytest.mark.parametrize("create_graph", [False, True])
def test_frn_tlu_sends_the_gradient_of_a_tie_to_y(create_graph):
    x = torch.zeros(2, CHANNELS, 3, 5, requires_grad=True)
    weight, bias, tau = (torch.full((CHANNELS,), v, requires_grad=True) for v in (1.0, 0.5, 0.5))
    dbias, dtau = torch.autograd.grad(
        frn.frn_tlu(x, weight, bias, tau).sum(), [bias, tau], create_graph=create_graph
    )
    assert torch.equal(dbias, torch.full((CHANNELS,), 30.0))
    assert torch.equal(dtau, torch.zeros(CHANNELS))


@pytest.mark.parametrize("activation", ["tlu", "affine_tlu"])
def test_one_ulp_below_the_tie_the_gradient_goes_to_tau(activation):
    value = TIES[activation][0]
    below = torch.full((2, CHANNELS, 3, 5), value).nextafter(torch.tensor(0.0)).requires_grad_()
    others = parameters(activation)
    if activation == "affine_tlu":  # kappa = 0: with a slope the next float below may round back to a tie
        others["kappa"] = torch.zeros(CHANNELS, requires_grad=True)
        others["tau"] = torch.full((CHANNELS,), value, requires_grad=True)
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        z = frn.act(below, **others, activation=activation)
        dy, dtau = torch.autograd.grad(z.sum(), [below, others["tau"]])
        assert torch.equal(dy, torch.zeros_like(dy))
        assert torch.equal(dtau, torch.full((CHANNELS,), 30.0))
