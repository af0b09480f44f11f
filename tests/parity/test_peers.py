"""The same numbers as the layers people use today: PyTorch's norms, timm's FRN, and the paper's listing."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cases import LAYOUTS, make_call, shape_name
from oracle import ALLOWED, Expected, assert_within, expected
from timm.layers.filter_response_norm import FilterResponseNormTlu2d

import frn

SHAPES = [(2, 12, 7, 5), (1, 32, 28, 28), (3, 8, 1, 1)]
# PyTorch refuses instance norm of one value per map.
NORMS_AND_SHAPES = [(n, s) for n in ("in", "gn", "ln") for s in SHAPES if n != "in" or s[2:] != (1, 1)]


def pytorch_norm(norm, call):
    if norm == "in":
        return F.instance_norm(call.x, weight=call.weight, bias=call.bias, eps=1e-5)
    if norm == "gn":
        return F.group_norm(call.x, call.groups, call.weight, call.bias, eps=1e-5)
    # Per-channel weights over all of a sample: layer_norm's own are per element.
    shape = call.x.shape[1:]
    weight, bias = (p.view(-1, 1, 1).expand(shape) for p in (call.weight, call.bias))
    return F.layer_norm(call.x, shape, weight, bias, eps=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("activation", ["relu", "prelu"])
@pytest.mark.parametrize("norm, shape", NORMS_AND_SHAPES, ids=lambda v: v if isinstance(v, str) else shape_name(v))
def test_results_equal_those_of_pytorchs_norms(norm, shape, activation, layout):
    call = make_call(norm, activation, shape, torch.float64).with_layout(layout)
    if call.kappa is not None:
        call.kappa = call.kappa.clamp(max=0.9)  # up to 1, max(y, kappa*y) is what PyTorch calls PReLU
    ours = call.run()
    call = call.map(lambda t: t.detach().requires_grad_())
    y = pytorch_norm(norm, call)
    z = F.relu(y) if activation == "relu" else F.prelu(y, call.kappa)
    theirs = {name: t for name, t in call.tensors().items() if name != "eps"}
    theirs = dict(zip(theirs, torch.autograd.grad(z, list(theirs.values()), call.dz.detach())))
    assert_within(ours, Expected({"z": z.detach(), **theirs}, expected(call, 1e-12).bounds), "against PyTorch")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [*SHAPES, (2, 64, 56, 56)], ids=shape_name)
def test_results_equal_those_of_timms_frn(shape, layout):
    call = make_call("frn", "tlu", shape).with_layout(layout)
    ours = call.run()
    theirs = FilterResponseNormTlu2d(shape[1], eps=1e-5)  # its default, and that of make_call
    with torch.no_grad():
        for name in ("weight", "bias", "tau"):
            getattr(theirs, name).copy_(getattr(call, name))
    x = call.x.clone().requires_grad_()
    z = theirs(x)
    names = ("weight", "bias", "tau")
    gradients = torch.autograd.grad(z, [x, *(getattr(theirs, n) for n in names)], call.dz)
    # Twice what one float32 side may be off; timm's sums over a map and the batch are float32 too, in blocks of 4096 or
    # fewer added pairwise: at most 12 + 4 more roundings of 2^-24, two more times ALLOWED.
    wanted = Expected({"z": z.detach(), **dict(zip(("x", *names), gradients))}, expected(call, 4 * ALLOWED).bounds)
    assert_within(ours, wanted, "against timm")


def paper_listing(x, tau, beta, gamma, eps=1e-6):
    """Listing 1 of the paper, in NumPy: x is [B, H, W, C]; tau, beta and gamma are [1, 1, 1, C]."""
    nu2 = np.mean(np.square(x), axis=(1, 2), keepdims=True)
    x = x / np.sqrt(nu2 + np.abs(eps))
    return np.maximum(gamma * x + beta, tau)


@pytest.mark.parametrize("eps", [1e-6, 0.25, -0.25])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_frn_tlu_is_the_papers_listing(shape, layout, eps):
    call = make_call("frn", "tlu", shape, torch.float64).with_layout(layout)
    nhwc = call.x.movedim(1, -1).numpy()
    tau, beta, gamma = (p.view(1, 1, 1, -1).numpy() for p in (call.tau, call.bias, call.weight))
    wanted = torch.from_numpy(paper_listing(nhwc, tau, beta, gamma, eps)).movedim(-1, 1)
    for given in (eps, torch.tensor(eps, dtype=torch.float64)):
        ours = frn.frn_tlu(call.x, call.weight, call.bias, call.tau, given)
        torch.testing.assert_close(ours, wanted, rtol=1e-13, atol=1e-13)


def test_a_negative_eps_of_frn_tlu_gets_a_gradient_of_the_other_sign():
    call = make_call("frn", "tlu", (2, 12, 7, 5), torch.float64)

    def gradient(value):
        eps = torch.tensor(value, dtype=torch.float64, requires_grad=True)
        z = frn.frn_tlu(call.x, call.weight, call.bias, call.tau, eps)
        return torch.autograd.grad(z, eps, call.dz)[0]

    assert gradient(0.5) != 0
    assert torch.equal(gradient(0.5), -gradient(-0.5))
