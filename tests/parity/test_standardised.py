"""Weight standardisation: timm's convolutions are the oracle."""

import copy

import pytest
import timm.layers
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

import frn

FORMS = {"plain": timm.layers.StdConv2d, "gain": timm.layers.ScaledStdConv2d}
SHAPES = [(8, 5, 3, 3), (16, 64, 1, 1), (4, 3, 7, 7), (6, 2, 1, 5)]


def pair(form, shape, **options):
    """timm's layer and ours with the same weights, none of them trivial."""
    out, inputs, *kernel = shape
    theirs = FORMS[form](inputs, out, kernel, padding=0, bias=True, **options).double()
    with torch.no_grad():
        theirs.weight.normal_(0.3, 0.7)
        if form == "gain":
            theirs.gain.uniform_(0.5, 1.5)
    ours = frn.WSConv2d(inputs, out, kernel, form=form, dtype=torch.float64, **options)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("eps", [1e-6, 1e-8])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_a_standardised_convolution_is_timms_with_its_gradients(form, shape, eps):
    theirs, ours = pair(form, shape, eps=eps)
    x = torch.randn(2, shape[1], 9, 9, dtype=torch.float64)
    results = []
    for module in (theirs, ours):
        y = module(x)
        y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape))
        results.append({"y": y.detach(), **{name: p.grad for name, p in module.named_parameters()}})
    assert results[0].keys() == results[1].keys()
    for name, wanted in results[0].items():
        torch.testing.assert_close(results[1][name], wanted, rtol=1e-12, atol=1e-12 * wanted.abs().max().item())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_scaled_form_is_the_plain_one_over_the_root_of_the_fan_in(shape):
    weight = torch.randn(shape, dtype=torch.float64)
    fan_in = weight[0].numel()
    plain, scaled = (frn.standardise(weight, scaled=scaled) for scaled in (False, True))
    torch.testing.assert_close(scaled, plain / fan_in**0.5, rtol=1e-14, atol=0)
    torch.testing.assert_close(plain.flatten(1).mean(1), torch.zeros(shape[0], dtype=torch.float64), rtol=0, atol=1e-15)


@pytest.mark.parametrize("scaled", [False, True])
def test_standardised_weights_have_right_first_and_second_derivatives(scaled):
    weight = torch.randn(3, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    gain = torch.rand(3, 1, 1, 1, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda w, g: frn.standardise(w, g, scaled=scaled), (weight, gain))
    assert gradgradcheck(lambda w, g: frn.standardise(w, g, scaled=scaled), (weight, gain))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_layout_of_weights_stays_and_changes_no_bit(dtype):
    weight = torch.randn(8, 6, 3, 3, dtype=dtype)
    gain = torch.rand(8, 1, 1, 1, dtype=dtype)
    rows = weight.contiguous(memory_format=torch.channels_last)
    out = frn.standardise(rows, gain)
    assert out.dtype == dtype and out.is_contiguous(memory_format=torch.channels_last)
    # Sums run over a filter in the order of memory, so the order is that of a filter laid out so.
    laid_out = frn.standardise(weight.permute(0, 2, 3, 1).contiguous(), gain).permute(0, 3, 1, 2)
    assert torch.equal(out, laid_out)


@pytest.mark.parametrize("form", ["plain", "scaled", "gain"])
def test_a_standardised_convolution_is_a_module_like_others(form):
    layer = frn.WSConv2d(4, 6, 3, stride=2, padding=1, form=form)
    names = ["weight", "bias"] + (["gain"] if form == "gain" else [])
    assert sorted(layer.state_dict()) == sorted(names)
    x = torch.randn(2, 4, 8, 8)
    wanted = F.conv2d(x, layer.standardised_weight(), layer.bias, 2, 1)
    assert torch.equal(layer(x), wanted)
    assert torch.equal(copy.deepcopy(layer)(x), wanted)
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), wanted)
    assert form in repr(layer)


def test_a_network_trains_with_standardised_convolutions():
    torch.manual_seed(0)
    net = nn.Sequential(
        frn.WSConv2d(3, 8, 3, form="gain"), frn.FRN(8, eps="learned", eps_start=1.0, proxy=True), nn.Flatten(), nn.LazyLinear(2)
    )
    x, target = torch.randn(8, 3, 6, 6), torch.arange(8) % 2
    net(x)
    descent = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(30):
        descent.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        descent.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_what_does_not_fit_is_named():
    with pytest.raises(RuntimeError, match=r"gain must have one number for each of the 3 filters of weight \[3, 2\] but"):
        frn.standardise(torch.ones(3, 2), torch.ones(2))
    with pytest.raises(ValueError, match="eps must be above 0 but is 0"):
        frn.standardise(torch.ones(3, 2), eps=0)


def test_an_unknown_form_is_named():
    with pytest.raises(ValueError, match="form must be plain, scaled or gain but is 'none'"):
        frn.WSConv2d(1, 1, 1, form="none")
