"""The operators as good citizens of PyTorch: opcheck, torch.compile, autocast, meta tensors, inference mode."""

import pytest
import torch
from cases import LAYOUTS, NAMES, make_call, shape_name
from torch import nn
from torch.library import opcheck

import frn


def arguments(call):
    return (*(getattr(call, name) for name in NAMES), call.groups, call.centered, call.activation)


def leaves(call, grad, layout="contiguous"):
    return call.with_layout(layout).map(lambda t: t.detach().requires_grad_(grad))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("in", "affine_tlu"), ("gn", "none"), ("ln", "prelu")])
def test_norm_act_passes_opcheck(norm, activation, layout, grad):
    call = leaves(make_call(norm, activation, (2, 12, 3, 4)), grad, layout)
    opcheck(torch.ops.frn.norm_act.default, arguments(call))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(3, 8), (2, 6, 5), (2, 4, 2, 3, 2), (0, 4, 3, 3)], ids=shape_name)
def test_norm_act_passes_opcheck_in_every_rank_and_type(shape, dtype):
    call = leaves(make_call("frn", "tlu", shape, dtype, eps=0.5, per_channel_eps=True), grad=True)
    opcheck(torch.ops.frn.norm_act.default, arguments(call))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_frn_tlu_passes_opcheck(layout, grad):
    call = leaves(make_call("frn", "tlu", (2, 12, 3, 4)), grad, layout)
    opcheck(torch.ops.frn.frn_tlu.default, (call.x, call.weight, call.bias, call.tau, call.eps))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("activation", ["none", "relu", "affine_tlu"])
def test_act_passes_opcheck(activation, layout, grad):
    call = leaves(make_call("frn", activation, (2, 12, 3, 4)), grad, layout)
    opcheck(torch.ops.frn.act.default, (call.x, call.tau, call.kappa, activation))


def test_the_operators_below_autograd_pass_opcheck():
    call = make_call("in", "affine_tlu", (2, 12, 3, 4))
    opcheck(torch.ops.frn._norm_act_forward.default, arguments(call))
    _, mean, rstd = torch.ops.frn._norm_act_forward(*arguments(call))
    for needs in ([True] * 6, [True, False, False, True, False, False]):
        opcheck(
            torch.ops.frn._norm_act_backward.default, (call.dz, call.x, mean, rstd, *arguments(call)[1:], needs)
        )


class SmallModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.norm1 = frn.NormAct(8, "frn(eps=learned)+tlu")
        self.norm2 = frn.NormAct(8, "gn(groups=2)+none")
        self.last = frn.NormAct(8, "none+affine_tlu")
        self.batch = frn.NormAct(8, "bn+prelu")

    def forward(self, x):
        x = self.norm1(self.first(x))
        x = self.last(x + self.norm2(self.second(x)))
        return self.batch(x).mean((2, 3))


def results(model, compiled, x):
    """The output and every gradient, with the parameters as they are."""
    x = x.detach().requires_grad_()
    y = compiled(x)
    return y, torch.autograd.grad(y.square().sum(), [x, *model.parameters()])


def assert_compiled_equals_eager(model, compiled, x):
    torch.testing.assert_close(results(model, compiled, x), results(model, model, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_a_compiled_model_equals_the_eager_one(memory_format):
    model = SmallModel().to(memory_format=memory_format)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_compiled_equals_eager(model, compiled, torch.randn(2, 3, 8, 8).to(memory_format=memory_format))


def test_a_model_compiled_by_inductor_equals_the_eager_one():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), frn.FRN(8, "learned"))
    compiled = torch.compile(model, fullgraph=True)
    assert_compiled_equals_eager(model, compiled, torch.randn(2, 3, 8, 8))


def test_a_compiled_model_takes_changing_shapes():
    torch._dynamo.reset()
    model = SmallModel()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for shape in [(2, 3, 8, 9), (5, 3, 8, 9), (4, 3, 6, 10)]:
        with torch._dynamo.config.patch(error_on_recompile=shape[0] != 2):
            assert_compiled_equals_eager(model, compiled, torch.randn(shape))


def test_functions_compile_with_fixed_and_learned_eps():
    call = make_call("frn", "tlu", (2, 12, 5, 7))

    def function(x, eps):
        a = frn.frn_tlu(x, call.weight, call.bias, call.tau, 1e-6)
        b = frn.norm_act(x, call.weight, None, eps, groups=3, centered=True, activation="relu")
        return frn.act(a + b, activation="relu")

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(call.x, call.eps), function(call.x, call.eps))


@pytest.mark.parametrize("spec", ["frn+tlu", "frn(eps=learned)+affine_tlu", "gn(groups=2)+relu", "bn+tlu"])
def test_autocast_keeps_x_in_bfloat16_and_parameters_in_float32(spec):
    conv, layer = nn.Conv2d(3, 8, 3), frn.NormAct(8, spec)
    x = torch.randn(2, 3, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = conv(x)
        z = layer(y)
    assert y.dtype == z.dtype == torch.bfloat16
    z.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in layer.parameters())
    wanted = frn.NormAct(8, spec)(y.detach().float())
    torch.testing.assert_close(z.float(), wanted, rtol=2**-7, atol=2**-7)  # bfloat16 has 8 bits


def test_autocast_takes_parameters_of_another_16_bit_type():
    call = make_call("frn", "tlu", (2, 12, 5, 7))
    parameters = [p.half() for p in (call.weight, call.bias, call.tau)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = frn.frn_tlu(call.x.bfloat16(), *parameters)
    assert torch.equal(z, frn.frn_tlu(call.x.bfloat16(), *(p.float() for p in parameters)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_meta_tensors_get_shapes_types_and_strides(layout, dtype):
    call = make_call("in", "affine_tlu", (2, 12, 5, 7), dtype).with_layout(layout)
    real = call.run()
    meta = call.map(lambda t: t.to("meta")).run()
    for name, value in real.items():
        assert (meta[name].shape, meta[name].dtype) == (value.shape, value.dtype), name
        assert meta[name].stride() == value.stride(), name
        assert meta[name].is_meta


def test_a_default_device_changes_nothing_for_other_calls():
    x, eps = torch.randn(2, 4, 3, 3), 0.0123456  # a number that no other test has asked for
    with torch.device("meta"):
        inside = frn.norm_act(x, eps=eps)
    after = frn.norm_act(x, eps=eps)
    assert inside.device == after.device == x.device
    assert torch.equal(after, frn.norm_act(x, eps=torch.tensor(eps)))


def test_a_module_on_the_meta_device_can_be_made_real():
    layer = frn.NormAct(8, "frn(eps=learned)+tlu", device="meta")
    assert layer(torch.empty(2, 8, 3, 3, device="meta")).shape == (2, 8, 3, 3)
    layer = layer.to_empty(device="cpu")
    layer.reset_parameters()
    fresh = frn.NormAct(8, "frn(eps=learned)+tlu")
    x = torch.randn(2, 8, 3, 3)
    assert torch.equal(layer(x), fresh(x))


@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("gn", "affine_tlu")])
def test_inference_mode_gives_the_same_bits(norm, activation):
    call = make_call(norm, activation, (2, 12, 5, 7))
    wanted = call.map(torch.Tensor.requires_grad_).forward()
    with torch.inference_mode():
        z = call.forward()
        assert z.is_inference()
        act = frn.act(call.x, call.tau, call.kappa, activation=activation)
    assert torch.equal(z, wanted.detach())
    assert torch.equal(act, frn.act(call.x.detach(), call.tau, call.kappa, activation=activation))


def test_inputs_are_not_changed():
    call = make_call("gn", "affine_tlu", (2, 12, 5, 7))
    before = call.map(torch.clone)
    call.run()
    for name, value in before.tensors().items():
        assert torch.equal(getattr(call, name), value)


def test_changing_x_before_backward_is_an_error():
    x = torch.randn(2, 4, 3, 3, requires_grad=True)
    inner = x * 1
    z = frn.norm_act(inner, activation="relu")
    inner.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
