"""A norm and the convolution that reads it as one operator: the bits of the two, and memory for one of their tensors."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from cases import LAYOUTS, NAMES, make_call, shape_name
from test_gradcheck import smooth_call
from test_memory import kept_by
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

import frn

CONVS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
SHAPES = [(2, 12, 9), (2, 12, 9, 7), (3, 12, 1, 1), (2, 12, 5, 4, 6)]
GEOMETRIES = [
    {"stride": 1, "padding": 1, "dilation": 1, "conv_groups": 1},
    {"stride": 2, "padding": 2, "dilation": 2, "conv_groups": 4},
]
NORMS = [("frn", "tlu"), ("gn", "relu"), ("in", "affine_tlu"), ("ln", "prelu"), ("frn", "none")]


def filters_for(call, conv_groups, size=3, bias=True):
    channels, rank = call.x.size(1), call.x.dim() - 2
    generator = torch.Generator().manual_seed(7)
    filters = torch.randn(8, channels // conv_groups, *[size] * rank, generator=generator, dtype=torch.float64)
    offsets = torch.randn(8, generator=generator, dtype=torch.float64) if bias else None
    return [t.to(call.x.dtype).requires_grad_() if t is not None else None for t in [filters, offsets]]


def as_one(call, filters, bias, **geometry):
    tensors = [getattr(call, name) for name in NAMES[1:]]
    settings = {"groups": call.groups, "centered": call.centered, "activation": call.activation}
    return frn.norm_act_conv(call.x, filters, bias, *tensors, **settings, **geometry)


def one_after_the_other(call, filters, bias, stride, padding, dilation, conv_groups):
    return CONVS[call.x.dim()](call.forward(), filters, bias, stride, padding, dilation, conv_groups)


def with_gradients(run, call, filters, bias, geometry):
    leaves = [t for t in [*call.tensors().values(), filters, bias] if t is not None]
    result = run(call, filters, bias, **geometry)
    direction = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype)
    return [result, *torch.autograd.grad(result, leaves, direction)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=["plain", "strided"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
@pytest.mark.parametrize("norm, activation", NORMS)
def test_it_has_the_bits_of_the_two_operators(norm, activation, shape, layout, geometry, dtype):
    if layout != "contiguous" and len(shape) == 3:
        pytest.skip("PyTorch has channels-last for maps of two and three dimensions")
    call = make_call(norm, activation, shape, dtype).with_layout(layout).map(torch.Tensor.requires_grad_)
    filters, bias = filters_for(call, geometry["conv_groups"])
    ours = with_gradients(as_one, call, filters, bias, geometry)
    wanted = with_gradients(one_after_the_other, call, filters, bias, geometry)
    assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(ours, wanted, strict=True))


@pytest.mark.parametrize("norm, activation", NORMS)
def test_one_tensor_of_the_size_of_x_is_kept(norm, activation):
    call = make_call(norm, activation, (2, 12, 9, 7)).map(torch.Tensor.requires_grad_)
    filters, bias = filters_for(call, 1)

    def large(run):
        kept = kept_by(lambda: run(call, filters, bias, **GEOMETRIES[0]))
        return {t.data_ptr() for t in kept if t.numel() == call.x.numel()}

    assert large(as_one) == {call.x.data_ptr()}
    assert len(large(one_after_the_other)) == 2, "the check above can fail"


@pytest.mark.parametrize("shape", [(1, 4, 3), (1, 4, 3, 2), (1, 4, 2, 2, 2)], ids=shape_name)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("frn", "affine_tlu"), ("gn", "relu"), ("ln", "none")])
def test_first_and_second_derivatives_are_right(norm, activation, shape):
    call = smooth_call(norm, activation, shape)
    names, given = list(call.tensors()), list(call.tensors().values())
    filters, bias = filters_for(call, 2, size=2)
    geometry = {"stride": 1, "padding": 1, "dilation": 1, "conv_groups": 2}

    def function(filters, bias, *tensors):
        return as_one(replace(call, **dict(zip(names, tensors))), filters, bias, **geometry)

    inputs = [filters, bias, *[t.requires_grad_() for t in given]]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("frozen", ["filters", "norm", "x", "all but filters"])
def test_what_is_frozen_gets_no_gradient_and_changes_no_other(frozen):
    call = make_call("frn", "tlu", (2, 12, 9, 7))
    filters, bias = filters_for(call, 1)
    learn = {"x": call.x, "weight": call.weight, "bias": call.bias, "tau": call.tau, "filters": filters, "conv_bias": bias}
    still = {"filters": ["filters"], "norm": ["weight", "bias", "tau"], "x": ["x"]}
    for name, tensor in learn.items():
        learns = name == "filters" if frozen == "all but filters" else name not in still[frozen]
        tensor.requires_grad_(learns)
    gradients = []
    for run in [as_one, one_after_the_other]:
        run(call, filters, bias, **GEOMETRIES[0]).square().sum().backward()
        gradients.append({name: tensor.grad for name, tensor in learn.items()})
        for tensor in learn.values():
            tensor.grad = None
    for name, tensor in learn.items():
        ours, wanted = gradients[0][name], gradients[1][name]
        assert (ours is None) == (not tensor.requires_grad)
        assert ours is None or torch.equal(ours, wanted), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_narrows_what_it_narrows_for_the_two(dtype):
    call = make_call("frn", "tlu", (2, 12, 9, 7), dtype)
    call = replace(call, weight=call.weight.float(), bias=call.bias.float(), tau=call.tau.float())
    call = call.map(torch.Tensor.requires_grad_)
    filters, bias = (t.detach().float().requires_grad_() for t in filters_for(call, 1))
    results = []
    for run in [as_one, one_after_the_other]:
        with torch.autocast("cpu", torch.bfloat16):
            results.append(with_gradients(run, call, filters, bias, GEOMETRIES[0]))
    assert results[0][0].dtype == torch.bfloat16
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_passes_opcheck(layout, grad):
    call = make_call("frn", "tlu", (2, 12, 3, 4)).with_layout(layout).map(lambda t: t.detach().requires_grad_(grad))
    filters, bias = (t.detach().requires_grad_(grad) for t in filters_for(call, 1))
    tensors = [getattr(call, name) for name in NAMES]
    settings = (call.groups, call.centered, call.activation)
    opcheck(torch.ops.frn.norm_act_conv.default, (*tensors, *settings, filters, bias, [1, 1], [1, 1], [1, 1], 1))


def test_compiled_in_one_graph_it_computes_the_same():
    torch.manual_seed(0)
    layer = frn.NormActConv2d(8, 12, 3, "frn+tlu", padding=1)
    x = torch.randn(2, 8, 6, 5, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    results = []
    for run in [layer, compiled]:
        out = run(x)
        results.append([out, *torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])])
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*results, strict=True))


def test_torch_func_takes_it_apart():
    layer = frn.NormActConv2d(4, 4, 3, "frn+tlu", padding=1, dtype=torch.float64)
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    gradient = torch.func.grad(lambda t: layer(t).square().sum())(x)
    leaf = x.clone().requires_grad_()
    layer(leaf).square().sum().backward()
    assert torch.allclose(gradient, leaf.grad, rtol=1e-12)


def test_without_a_graph_and_with_no_images_it_is_the_two():
    layer = frn.NormActConv2d(8, 12, 3, "gn(groups=4)+relu", padding=1, stride=2)
    x = torch.randn(2, 8, 6, 5)
    for mode in [torch.no_grad, torch.inference_mode]:
        with mode():
            assert torch.equal(layer(x), layer.conv(layer.norm(x)))
    empty = layer(x[:0].requires_grad_())
    assert empty.shape == (0, 12, 3, 3)
    empty.sum().backward()


@pytest.mark.parametrize("spec", ["frn(eps=learned)+tlu", "gn(groups=4,proxy=true)+relu", "bn+relu", "none+relu", "brn+tlu"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_layer_is_its_parts(rank, spec):
    cls = {1: frn.NormActConv1d, 2: frn.NormActConv2d, 3: frn.NormActConv3d}[rank]
    layer = cls(8, 12, 3, spec, padding=1, groups=2, bias=False)
    assert set(layer.state_dict()) == {
        *(f"norm.{n}" for n in frn.NormAct(8, spec).state_dict()),
        "conv.weight",
    }
    other = copy.deepcopy(layer)
    x = torch.randn(4, 8, *[6] * rank)
    for mode in [True, False]:
        assert torch.equal(layer.train(mode)(x), other.conv.train(mode)(other.norm.train(mode)(x)))


def test_hooks_and_other_classes_are_not_passed_over():
    x = torch.randn(2, 8, 6, 6)
    seen = []
    for part in ["norm", "conv"]:
        layer = frn.NormActConv2d(8, 12, 3, padding=1)
        getattr(layer, part).register_forward_hook(lambda *_: seen.append(part))
        layer(x)
    assert seen == ["norm", "conv"]
    layer = frn.NormActConv2d(8, 12, 3, padding=1)
    layer.conv = frn.WSConv2d(8, 12, 3, padding=1)
    assert torch.equal(layer(x), layer.conv(layer.norm(x)))
    layer = frn.NormActConv2d(8, 12, 3, padding=1)
    nn.utils.parametrizations.weight_norm(layer.conv)
    assert torch.equal(layer(x), layer.conv(layer.norm(x)))
    old = frn.NormActConv2d(8, 12, 3, padding=1)
    nn.utils.spectral_norm(old.conv)  # by a hook
    assert torch.equal(old.eval()(x), old.conv(old.norm(x)))


@pytest.mark.parametrize("make", [lambda: frn.NormActConv2d(8, 8, 3, padding=1), lambda: frn.NormAddAct(8)], ids=["conv", "add"])
def test_a_forward_of_the_parts_own_is_not_passed_over(make):
    """As tools put it there that move weights to where a part runs (accelerate)."""
    x = torch.randn(2, 8, 6, 6)
    for part in dict(make().named_children()):
        layer, seen = make(), []
        module = getattr(layer, part)

        def forward(x, module=module, seen=seen):
            seen.append(1)
            return type(module).forward(module, x)

        module.forward = forward
        layer(*[x] * (2 if isinstance(layer, frn.NormAddAct) else 1))
        assert seen == [1], part


def test_hooks_of_all_modules_see_the_parts():
    """As profilers that watch every module."""
    layer, x, seen = frn.NormActConv2d(8, 12, 3, padding=1), torch.randn(2, 8, 6, 6), []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module)))
    try:
        result = layer(x)
    finally:
        handle.remove()
    assert seen == [frn.NormAct, nn.Conv2d, frn.NormActConv2d]
    assert torch.equal(result, layer(x)) and len(seen) == 3


def test_a_graph_can_be_walked_twice_and_notices_what_was_overwritten():
    layer = frn.NormActConv2d(8, 12, 3, padding=1)
    x = torch.randn(2, 8, 6, 6, requires_grad=True)
    sum_of_squares = layer(x).square().sum()
    first = torch.autograd.grad(sum_of_squares, [x, *layer.parameters()], retain_graph=True)
    second = torch.autograd.grad(sum_of_squares, [x, *layer.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    hidden = x * 1
    result = layer(hidden).sum()
    hidden.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_a_network_trains_to_the_same_bits():
    def network(one_step):
        torch.manual_seed(3)
        parts = [nn.Conv2d(3, 8, 3), *[frn.NormActConv2d(8, 8, 3, "frn+tlu", padding=1) for _ in range(3)]]
        if not one_step:
            parts = [parts[0], *[m for p in parts[1:] for m in (p.norm, p.conv)]]
        return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))

    weights = []
    for one_step in [True, False]:
        model = network(one_step)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        generator = torch.Generator().manual_seed(1)
        for _ in range(10):
            x = torch.randn(4, 3, 10, 10, generator=generator)
            optimizer.zero_grad()
            F.cross_entropy(model(x), torch.arange(4)).backward()
            optimizer.step()
        weights.append(list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def test_what_does_not_fit_is_said():
    layer = frn.NormActConv2d(8, 12, 3)
    with pytest.raises(RuntimeError, match="filters must have the rank of x"):
        layer(torch.randn(2, 8, 6))
    with pytest.raises(RuntimeError, match="stride, padding and dilation must have a number for each of the 2 dimensions"):
        frn.norm_act_conv(torch.randn(2, 8, 6, 6), layer.conv.weight, stride=[1])
    with pytest.raises(ValueError, match="padding must be numbers"):
        frn.NormActConv2d(8, 12, 3, padding="same")
    with pytest.raises(ValueError, match=r"^\[norm_act_conv\] padding must be numbers but is 'same'; write dilation"):
        frn.norm_act_conv(torch.randn(2, 8, 6, 6), layer.conv.weight, padding="same")
