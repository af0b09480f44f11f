"""The end of a residual block as one operator: the bits of the norm, the sum and the activation, and less memory."""

import copy
import itertools
import os
from dataclasses import replace

import pytest
import torch
from cases import ACTIVATIONS, LAYOUTS, NAMES, make_call, read_shapes, shape_name
from oracle import normalise, per_channel
from test_memory import kept_by
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

import frn

NORMS = ["frn", "gn", "ln", "lfrn"]
# Of two activations that the same loops compute one is enough; make check-all runs the others too.
SLOW = pytest.mark.skipif(not os.environ.get("FRN_ALL_CASES"), reason="half a minute; set FRN_ALL_CASES, as make check-all does")
ONE_OF_EACH_LOOP = [pytest.param(name, marks=() if name in ("tlu", "affine_tlu") else SLOW) for name in ACTIVATIONS]
SHAPES = read_shapes("shapes.txt")
ALL = ("x", "shortcut", *NAMES[1:])  # the order of the operator's tensors


def shortcut_for(call, layout="contiguous"):
    generator = torch.Generator().manual_seed(11)
    values = torch.randn(call.x.shape, generator=generator, dtype=torch.float64).to(call.x.dtype)
    return LAYOUTS[layout](values)


def arguments(call, shortcut):
    return (call.x, shortcut, *(getattr(call, name) for name in NAMES[1:]), call.groups, call.centered, call.activation)


def as_one(call, shortcut):
    return torch.ops.frn.norm_add_act(*arguments(call, shortcut))


def one_after_the_other(call, shortcut):
    y = replace(call, tau=None, kappa=None, activation="none").forward()
    return torch.ops.frn.act(y + shortcut, call.tau, call.kappa, call.activation)


def with_gradients(run, call, shortcut, **options):
    """z, and the gradients under the names of their inputs."""
    call, shortcut = call.map(lambda t: t.detach().requires_grad_()), shortcut.detach().requires_grad_()
    inputs = {"x": call.x, "shortcut": shortcut, **call.tensors()}
    z = run(call, shortcut)
    return {"z": z.detach(), **dict(zip(inputs, torch.autograd.grad(z, list(inputs.values()), call.dz.detach(), **options)))}


def assert_same_bits(ours, wanted, context=""):
    for name, value in wanted.items():
        assert torch.equal(ours[name], value), f"{context}: {name} differs"
        assert ours[name].dtype == value.dtype and ours[name].stride() == value.stride(), f"{context}: {name}"


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
@pytest.mark.parametrize("activation", ONE_OF_EACH_LOOP)
@pytest.mark.parametrize("norm", NORMS)
def test_it_has_the_bits_of_the_three_operators(norm, activation, shape):
    call = make_call(norm, activation, shape)
    for implementation, layout, threads in itertools.product(frn.implementations(), LAYOUTS, (1, 2)):
        frn.force_implementation(implementation)
        torch.set_num_threads(threads)
        laid, shortcut = call.with_layout(layout), shortcut_for(call, layout)
        ours = with_gradients(as_one, laid, shortcut)
        assert_same_bits(ours, with_gradients(one_after_the_other, laid, shortcut), f"{implementation} {layout} {threads}")


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(2, 12), (2, 7, 5, 7)], ids=shape_name)
def test_in_float64_too(activation, shape):
    call = make_call("gn" if len(shape) > 2 else "frn", activation, shape, torch.float64)
    shortcut = shortcut_for(call)
    assert_same_bits(with_gradients(as_one, call, shortcut), with_gradients(one_after_the_other, call, shortcut))


@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("gn", "affine_tlu")])
def test_a_sample_alone_gives_the_same_bits_as_in_a_batch(norm, activation):
    call = make_call(norm, activation, (3, 8, 64, 65))
    shortcut = shortcut_for(call)
    for layout, threads in itertools.product(LAYOUTS, (1, 2)):
        torch.set_num_threads(threads)
        together = with_gradients(as_one, call.with_layout(layout), LAYOUTS[layout](shortcut))
        for n in range(3):
            alone = replace(call, x=call.x[n : n + 1], dz=call.dz[n : n + 1]).with_layout(layout)
            single = with_gradients(as_one, alone, LAYOUTS[layout](shortcut[n : n + 1]))
            for name in ("z", "x", "shortcut"):
                assert torch.equal(single[name][0], together[name][n])


@pytest.mark.parametrize("dtype, stored", [(torch.bfloat16, 2.0**-8), (torch.float16, 3 * 2.0**-11)], ids=str)
@pytest.mark.parametrize("activation", ["relu", "tlu", "affine_tlu"])
@pytest.mark.parametrize("norm", ["frn", "gn"])
@pytest.mark.parametrize("shape", [(4, 12), (2, 7, 5, 7), (2, 64, 7, 7)], ids=shape_name)
def test_16_bit_results_are_the_float32_ones_rounded(shape, norm, activation, dtype, stored):
    """bfloat16 is rounded once, when z is stored, by half a unit of its 8 bits. float16 runs as the three operators:
    its y, the sum and z are each rounded to 11 bits, by half a unit of the largest of them."""
    call = make_call(norm, activation, shape, dtype)
    shortcut = shortcut_for(call)
    wide = call.map(torch.Tensor.float)
    exact, y = as_one(wide, shortcut.float()), normalise(wide)[1]
    kappa = per_channel(wide.kappa, y, 0).abs().clamp(min=1)
    size = exact.abs()
    if dtype == torch.float16:
        size = torch.maximum(size, kappa * torch.maximum(y.abs(), (y + shortcut.float()).abs()))
    of_float32 = 2**-21 * kappa * (y.abs() + shortcut.float().abs() + per_channel(wide.tau, y, 0).abs())  # its eight roundings
    for layout in LAYOUTS:
        z = as_one(call.with_layout(layout), LAYOUTS[layout](shortcut))
        assert z.dtype == dtype
        assert ((z.float() - exact).abs() <= stored * size + of_float32 + 2**-25).all()  # the smallest float16 by half


@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 3), (1, 4, 2, 3), (1, 4, 2, 1, 2)], ids=shape_name)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", ["frn", "gn", "ln"])
def test_first_and_second_derivatives_are_right(norm, activation, shape):
    call, shortcut = smooth(norm, activation, shape)
    names = list(call.tensors())

    def function(shortcut, *tensors):
        return as_one(replace(call, **dict(zip(names, tensors))), shortcut)

    inputs = [shortcut.requires_grad_(), *[t.requires_grad_() for t in call.tensors().values()]]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs, fast_mode=True)


def smooth(norm, activation, shape):
    """A call with every sum well away from its threshold, where finite differences mean something."""
    for seed in itertools.count():
        call = make_call(norm, activation, shape, torch.float64, eps=0.3, seed=seed)
        shortcut = shortcut_for(call)
        total = normalise(call)[1] + shortcut
        threshold = per_channel(call.kappa, total, 0) * total + per_channel(call.tau, total, 0)
        if activation == "none" or ((total - threshold).abs() > 1e-2).all():
            return call, shortcut


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_that_can_be_differentiated_equal_those_that_cannot(activation):
    call = make_call("gn", activation, (3, 12, 5, 7), torch.float64)
    shortcut = shortcut_for(call)
    fused = with_gradients(as_one, call, shortcut)
    composite = with_gradients(as_one, call, shortcut, create_graph=True)
    for name, value in fused.items():
        torch.testing.assert_close(composite[name].detach(), value, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "activation, total, parameters",
    [
        ("relu", 0.0, {}),
        ("tlu", 0.5, {"tau": 0.5}),
        ("prelu", 0.0, {"kappa": 0.25}),
        ("affine_tlu", 0.5, {"tau": 0.25, "kappa": 0.5}),
    ],
)
def test_the_gradient_of_a_tie_goes_to_the_sum(activation, total, parameters, layout, create_graph):
    """Where x is 0, y is the bias 1: the shortcut brings the sum to its threshold."""
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        x = LAYOUTS[layout](torch.zeros(2, 24, 3, 5)).requires_grad_()
        shortcut = LAYOUTS[layout](torch.full((2, 24, 3, 5), total - 1)).requires_grad_()
        given = {name: torch.full((24,), value, requires_grad=True) for name, value in parameters.items()}
        z = frn.norm_add_act(x, shortcut, torch.ones(24), torch.ones(24), **given, activation=activation)
        assert torch.equal(z, torch.full_like(z, total))
        dz = torch.randn_like(z)
        gradients = torch.autograd.grad(z, [shortcut, *given.values()], dz, create_graph=create_graph)
        assert torch.equal(gradients[0], dz)
        assert all(torch.equal(g, torch.zeros_like(g)) for g in gradients[1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("gn", "relu"), ("ln", "affine_tlu"), ("frn", "none")])
def test_the_sum_is_not_kept(norm, activation, dtype):
    call = make_call(norm, activation, (2, 12, 9, 7), dtype).map(torch.Tensor.requires_grad_)
    shortcut = shortcut_for(call).requires_grad_()

    def large(run):
        return {t.data_ptr() for t in kept_by(lambda: run(call, shortcut)) if t.numel() == call.x.numel()}

    ours = {call.x.data_ptr()} if activation == "none" else {call.x.data_ptr(), shortcut.data_ptr()}
    assert large(as_one) == ours
    new = large(one_after_the_other) - {call.x.data_ptr(), shortcut.data_ptr()}
    assert len(new) == 1, "the check above can fail"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("needed", [*itertools.combinations(ALL, 1), ("x", "tau"), ("shortcut", "eps"), ALL])
def test_only_inputs_that_need_a_gradient_get_one(needed, dtype):
    call = make_call("frn", "affine_tlu", (2, 12, 9, 7), dtype)
    shortcut = shortcut_for(call)
    wanted = with_gradients(as_one, call, shortcut)
    call = call.map(torch.Tensor.detach)
    inputs = {"x": call.x, "shortcut": shortcut, **call.tensors()}
    inputs = {name: t.clone().requires_grad_(name in needed) for name, t in inputs.items()}
    as_one(replace(call, **{n: t for n, t in inputs.items() if n != "shortcut"}), inputs["shortcut"]).backward(call.dz)
    for name, tensor in inputs.items():
        assert (tensor.grad is not None) == (name in needed)
        assert tensor.grad is None or torch.equal(tensor.grad, wanted[name]), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_the_raw_backward_computes_only_what_is_needed(dtype):
    call = make_call("in", "affine_tlu", (2, 12, 9, 7), dtype)
    shortcut = shortcut_for(call)
    _, mean, rstd = torch.ops.frn._norm_add_act_forward(*arguments(call, shortcut))
    for needs in itertools.product([False, True], repeat=7):
        gradients = torch.ops.frn._norm_add_act_backward(
            call.dz, call.x, shortcut, mean, rstd, *arguments(call, shortcut)[2:], list(needs)
        )
        shapes = [tuple(getattr(call, name, shortcut).shape) if n else (0,) for name, n in zip(ALL, needs)]
        assert [tuple(g.shape) for g in gradients] == shapes


@pytest.mark.parametrize("other", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_shortcut_may_lie_otherwise_in_memory(layout, other):
    call = make_call("gn", "tlu", (2, 12, 5, 7)).with_layout(layout)
    shortcut = shortcut_for(call)
    wanted = with_gradients(as_one, call, LAYOUTS[layout](shortcut))
    assert_same_bits(with_gradients(as_one, call, LAYOUTS[other](shortcut)), wanted)
    expanded = shortcut[:, :, :1, :1].expand_as(shortcut)
    assert torch.equal(as_one(call, expanded), as_one(call, expanded.contiguous()))


@pytest.mark.parametrize("x_type, other", list(itertools.permutations([torch.float32, torch.float64, torch.bfloat16], 2)))
def test_a_shortcut_of_another_type_gives_the_wider_one(x_type, other):
    call = make_call("frn", "affine_tlu", (2, 12, 5, 7), x_type)
    shortcut = shortcut_for(call).to(other)
    type_of_sum = torch.promote_types(x_type, other)
    call.dz = call.dz.to(type_of_sum)
    ours = with_gradients(as_one, call, shortcut)
    assert ours["z"].dtype == type_of_sum and ours["shortcut"].dtype == other and ours["x"].dtype == x_type
    y = replace(call, tau=None, kappa=None, activation="none").forward()
    wanted = torch.ops.frn.act(y + shortcut, call.tau.to(type_of_sum), call.kappa.to(type_of_sum), "affine_tlu")
    assert torch.equal(ours["z"], wanted)
    meta = with_gradients(as_one, call.map(lambda t: t.to("meta")), shortcut.to("meta"))
    assert all((meta[name].dtype, meta[name].shape) == (value.dtype, value.shape) for name, value in ours.items())


@pytest.mark.parametrize("shape", [(0, 4, 3, 3), (0, 4), (2, 4, 0, 3)], ids=shape_name)
def test_an_empty_batch_or_map_gives_an_empty_result_and_zero_gradients(shape):
    for activation in ACTIVATIONS:
        call = make_call("frn", activation, shape)
        for options in ({}, {"create_graph": True}):
            got = with_gradients(as_one, call, shortcut_for(call), **options)
            assert got["z"].shape == got["x"].shape == got["shortcut"].shape == shape
            assert all(torch.equal(got[name], torch.zeros_like(t)) for name, t in call.tensors().items())


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("in", "affine_tlu"), ("gn", "none"), ("ln", "prelu")])
def test_it_passes_opcheck(norm, activation, layout, grad):
    call = make_call(norm, activation, (2, 12, 3, 4)).with_layout(layout)
    shortcut = shortcut_for(call, layout)
    call, shortcut = call.map(lambda t: t.detach().requires_grad_(grad)), shortcut.requires_grad_(grad)
    opcheck(torch.ops.frn.norm_add_act.default, arguments(call, shortcut))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(3, 8), (2, 6, 5), (2, 4, 2, 3, 2), (0, 4, 3, 3)], ids=shape_name)
def test_it_passes_opcheck_in_every_rank_and_type(shape, dtype):
    call = make_call("frn", "tlu", shape, dtype, eps=0.5, per_channel_eps=True).map(torch.Tensor.requires_grad_)
    opcheck(torch.ops.frn.norm_add_act.default, arguments(call, shortcut_for(call).requires_grad_()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_operators_below_autograd_pass_opcheck(dtype):
    call = make_call("in", "affine_tlu", (2, 12, 3, 4), dtype)
    shortcut = shortcut_for(call)
    opcheck(torch.ops.frn._norm_add_act_forward.default, arguments(call, shortcut))
    _, mean, rstd = torch.ops.frn._norm_add_act_forward(*arguments(call, shortcut))
    for needs in ([True] * 7, [True, False, False, False, True, False, False], [False, True] + [False] * 5):
        given = (call.dz, call.x, shortcut, mean, rstd, *arguments(call, shortcut)[2:], needs)
        opcheck(torch.ops.frn._norm_add_act_backward.default, given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_meta_tensors_get_shapes_types_and_strides(layout, dtype):
    call = make_call("in", "affine_tlu", (2, 12, 5, 7), dtype).with_layout(layout)
    shortcut = shortcut_for(call)  # contiguous beside either
    real = with_gradients(as_one, call, shortcut)
    meta = with_gradients(as_one, call.map(lambda t: t.to("meta")), shortcut.to("meta"))
    for name, value in real.items():
        assert (meta[name].shape, meta[name].dtype, meta[name].stride()) == (value.shape, value.dtype, value.stride()), name


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("activation", ["none", "tlu"])
def test_without_a_graph_it_gives_the_same_bits(activation, mode):
    call = make_call("gn", activation, (2, 12, 5, 7))
    shortcut = shortcut_for(call)
    wanted = as_one(call.map(torch.Tensor.requires_grad_), shortcut).detach()
    with mode():
        assert torch.equal(as_one(call, shortcut), wanted)


def test_autocast_takes_parameters_of_another_16_bit_type():
    call = make_call("frn", "tlu", (2, 12, 5, 7))
    x, shortcut = call.x.bfloat16(), shortcut_for(call).bfloat16()
    parameters = [p.half() for p in (call.weight, call.bias, call.tau)]

    def run(weight, bias, tau):
        return frn.norm_add_act(x, shortcut, weight, bias, tau=tau, activation="tlu")

    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = run(*parameters)
    assert z.dtype == torch.bfloat16
    assert torch.equal(z, run(*(p.float() for p in parameters)))


def test_changing_the_shortcut_before_backward_is_an_error():
    x, start = torch.randn(2, 4, 3, 3, requires_grad=True), torch.randn(2, 4, 3, 3, requires_grad=True)
    shortcut = start * 1
    z = frn.norm_add_act(x, shortcut, activation="relu")
    shortcut.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


WRONG = {
    "channels": (dict(shortcut=torch.zeros(2, 5, 5, 7)), RuntimeError, r"shortcut must have x's shape \[2, 12, 5, 7\] but has \[2, 5, 5, 7\]"),
    "rank": (dict(shortcut=torch.zeros(2, 12)), RuntimeError, r"shortcut must have x's shape \[2, 12, 5, 7\] but has \[2, 12\]"),
    "what would broadcast": (dict(shortcut=torch.zeros(2, 12, 1, 1)), RuntimeError, r"must have x's shape .* but has \[2, 12, 1, 1\]"),
    "type": (dict(shortcut=torch.zeros(2, 12, 5, 7).int()), TypeError, "shortcut must be float32, .* but is Int"),
    "device": (dict(shortcut=torch.zeros(2, 12, 5, 7, device="meta")), RuntimeError, "shortcut must be on x's device cpu but is on meta"),
    "tau": (dict(tau=torch.zeros(5)), RuntimeError, r"tau must have shape \[12\] \(channels of x"),
    "no tau": (dict(tau=None), RuntimeError, r"'tlu' needs tau of shape \[12\] but got none"),
    "eps": (dict(eps=0.0), ValueError, "eps must be positive and finite but is 0"),
    "groups": (dict(groups=5), ValueError, "groups must divide the 12 channels .* but is 5"),
    "activation": (dict(activation="tlue"), ValueError, r"but is 'tlue' \(did you mean 'tlu'\?\)"),
}  # fmt: skip


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_said(what, grad):
    changes, error, message = WRONG[what]
    x = torch.randn(2, 12, 5, 7, requires_grad=grad)
    given = {"x": x, "shortcut": torch.randn(2, 12, 5, 7), "tau": torch.zeros(12), "activation": "tlu", **changes}
    with pytest.raises(error, match=r"^\[norm_add_act\] .*" + message):
        frn.norm_add_act(**given)


SPECS = ["frn+tlu", "frn(eps=learned)+affine_tlu", "gn(groups=4)+relu", "frn(proxy=true)+tlu", "bn+relu", "none+prelu"]


@pytest.mark.parametrize("spec", SPECS)
def test_the_layer_is_its_parts(spec):
    layer = frn.NormAddAct(8, spec)
    parsed = frn.NormActSpec.parse(spec)
    names = {"norm": parsed.with_activation("none"), "act": f"none+{parsed.activation.name}"}
    assert set(layer.state_dict()) == {f"{part}.{n}" for part, s in names.items() for n in frn.NormAct(8, s).state_dict()}
    other = copy.deepcopy(layer)
    for rank, mode in itertools.product([0, 1, 2, 3], [True, False]):
        x, shortcut = torch.randn(4, 8, *[6] * rank), torch.randn(4, 8, *[6] * rank)
        assert torch.equal(layer.train(mode)(x, shortcut), other.act(other.norm.train(mode)(x) + shortcut))


def test_hooks_and_other_classes_are_not_passed_over():
    x, shortcut, seen = torch.randn(2, 8, 6, 6), torch.randn(2, 8, 6, 6), []
    for part in ["norm", "act"]:
        layer = frn.NormAddAct(8)
        getattr(layer, part).register_forward_hook(lambda *_: seen.append(part))
        layer(x, shortcut)
    assert seen == ["norm", "act"]
    layer = frn.NormAddAct(8)
    layer.act = nn.ReLU()
    assert torch.equal(layer(x, shortcut), torch.relu(layer.norm(x) + shortcut))


def test_compiled_in_one_graph_it_computes_the_same():
    layer = frn.NormAddAct(8, "frn(eps=learned)+tlu")
    x, shortcut = torch.randn(2, 8, 6, 5, requires_grad=True), torch.randn(2, 8, 6, 5, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    results = []
    for run in [layer, compiled]:
        out = run(x, shortcut)
        results.append([out, *torch.autograd.grad(out.square().sum(), [x, shortcut, *layer.parameters()])])
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*results, strict=True))


def test_torch_func_takes_it_apart():
    layer = frn.NormAddAct(4, "gn(groups=2)+affine_tlu", dtype=torch.float64)
    x, shortcut = torch.randn(2, 2, 4, 5, 5, dtype=torch.float64)
    gradients = torch.func.grad(lambda a, b: layer(a, b).square().sum(), argnums=(0, 1))(x, shortcut)
    leaves = [x.clone().requires_grad_(), shortcut.clone().requires_grad_()]
    layer(*leaves).square().sum().backward()
    for gradient, leaf in zip(gradients, leaves):
        assert torch.allclose(gradient, leaf.grad, rtol=1e-12)


def test_residual_blocks_train_to_the_same_bits():
    class Block(nn.Module):
        def __init__(self, as_one):
            super().__init__()
            self.conv, self.end, self.as_one = nn.Conv2d(8, 8, 3, padding=1), frn.NormAddAct(8, "frn+tlu"), as_one

        def forward(self, x):
            y = self.conv(x)
            return self.end(y, x) if self.as_one else self.end.act(self.end.norm(y) + x)

    weights = []
    for as_one_operator in [True, False]:
        torch.manual_seed(3)
        blocks = [Block(as_one_operator) for _ in range(3)]
        model = nn.Sequential(nn.Conv2d(3, 8, 3), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        generator = torch.Generator().manual_seed(1)
        for _ in range(10):
            x = torch.randn(4, 3, 10, 10, generator=generator)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), torch.arange(4)).backward()
            optimizer.step()
        weights.append(list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
