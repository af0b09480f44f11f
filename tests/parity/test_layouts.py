"""Any shape and any memory layout: empty batches and maps, odd channel counts, views, offsets, ranks 2 to 5."""

import itertools
import subprocess

import pytest
import torch
from cases import ACTIVATIONS, LAYERS, PER_SAMPLE, Call, channels_last, make_call, read_shapes, shape_name
from oracle import assert_within, expected

import frn

EMPTY = [shape for shape in read_shapes("shapes.txt") if 0 in shape] + [(0, 4), (0, 4, 0), (2, 4, 0, 3, 1)]


@pytest.mark.parametrize("shape", EMPTY, ids=shape_name)
@pytest.mark.parametrize("norm, activation", LAYERS[::3])
def test_an_empty_batch_or_map_gives_an_empty_result_and_zero_gradients(norm, activation, shape):
    for layout in ("contiguous", "channels_last"):
        call = make_call(norm, activation, shape).with_layout(layout)
        got = call.run()
        assert got["z"].shape == got["x"].shape == shape
        for name in call.tensors():
            assert torch.equal(got[name], torch.zeros_like(getattr(call, name))), name
        differentiable = call.run(create_graph=True)
        for name in call.tensors():
            assert torch.equal(differentiable[name], got[name]), name


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", EMPTY, ids=shape_name)
def test_act_of_nothing_is_nothing(shape, activation):
    call = make_call("frn", activation, shape).map(torch.Tensor.requires_grad_)
    z = frn.act(call.x, call.tau, call.kappa, activation=activation)
    assert z.shape == shape
    z.sum().backward()
    for parameter in (call.tau, call.kappa):
        assert parameter is None or torch.equal(parameter.grad, torch.zeros_like(parameter))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("spatial", [(), (1,), (1, 1), (5, 7), (33, 31), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("norm", PER_SAMPLE)
def test_one_or_three_channels_work_at_every_rank(norm, spatial, channels):
    call = make_call(norm, "affine_tlu", (2, channels, *spatial))
    wanted = expected(call)
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        for layout in ("contiguous", "channels_last"):
            assert_within(call.with_layout(layout).run(), wanted, f"{implementation} {layout}")


def views(values):
    """The same values behind every kind of view, by name."""
    n, c, h, w = values.shape
    yield "transposed", values.transpose(2, 3).contiguous().transpose(2, 3)
    yield "batch innermost", values.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2)
    yield "height outermost", values.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)
    yield "channels-last with W before H", values.permute(0, 3, 2, 1).contiguous().permute(0, 3, 2, 1)
    yield "every second column", values.repeat_interleave(2, 3)[..., ::2]
    yield "every second channel", values.repeat_interleave(2, 1)[:, ::2]
    yield "part of a wider map", torch.nn.functional.pad(values, (1, 2, 3, 0))[:, :, 3:, 1 : w + 1]
    yield "part of more channels, channels-last", channels_last(torch.cat([values, values], 1))[:, :c]
    yield "part of a wider map, channels-last", channels_last(torch.nn.functional.pad(values, (0, 2)))[..., :w]
    for offset in (1, 3):
        storage = torch.empty(values.numel() + offset, dtype=values.dtype)
        yield f"offset {offset}", storage[offset:].view_as(values).copy_(values)
        last = storage.clone()[offset:].view(n, h, w, c).copy_(values.movedim(1, -1))
        yield f"offset {offset}, channels-last", last.movedim(-1, 1)


SAMPLE = torch.empty(3, 12, 5, 7)
VIEWS = [name for name, _ in views(SAMPLE)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("gn", "affine_tlu"), ("ln", "relu")])
def test_a_view_gives_the_same_values_as_a_copy(norm, activation, view, dtype):
    """In x and in dz, in every combination with a plain one."""
    plain = make_call(norm, activation, SAMPLE.shape, dtype)
    wanted = expected(plain)
    tolerance = 2.0**-8 if dtype == torch.bfloat16 else 0.0  # what a store to bfloat16 rounds off, below
    for x_is_view, dz_is_view in itertools.product([False, True], repeat=2):
        call = make_call(norm, activation, SAMPLE.shape, dtype)
        call.x = dict(views(plain.x))[view] if x_is_view else plain.x
        call.dz = dict(views(plain.dz))[view] if dz_is_view else plain.dz
        # Not run(): its detach keeps the strides, but a gradient is asked for with the view itself.
        inputs = {name: tensor.detach().requires_grad_() for name, tensor in call.tensors().items()}
        z = Call(**{**vars(call), **inputs}).forward()
        got = {"z": z.detach(), **dict(zip(inputs, torch.autograd.grad(z, list(inputs.values()), call.dz)))}
        bounds = {n: wanted.bounds[n] + tolerance * wanted.values[n].abs() for n in wanted.bounds}
        assert_within(got, type(wanted)(wanted.values, bounds), f"x {x_is_view}, dz {dz_is_view}")


@pytest.mark.parametrize("activation", ["relu", "affine_tlu"])
@pytest.mark.parametrize("view", VIEWS)
def test_act_of_a_view_gives_the_same_values_as_a_copy(activation, view):
    plain = make_call("frn", activation, SAMPLE.shape)
    parameters = [p.requires_grad_() for p in (plain.tau, plain.kappa) if p is not None]

    def run(y, dz):
        y = y.detach().requires_grad_()
        z = frn.act(y, plain.tau, plain.kappa, activation=activation)
        return [z.detach(), *torch.autograd.grad(z, [y, *parameters], dz)]

    y, dz = dict(views(plain.x))[view], dict(views(plain.dz))[view]
    wanted = run(plain.x, plain.dz)
    for got in (run(y, plain.dz), run(plain.x, dz), run(y, dz)):
        assert torch.equal(got[0], wanted[0]) and torch.equal(got[1], wanted[1])
        for one, other in zip(got[2:], wanted[2:]):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)  # layouts differ in the order of a sum


@pytest.mark.parametrize("expanded", ["x", "dz"])
@pytest.mark.parametrize("dims", [(0,), (1,), (2, 3), (0, 1, 2, 3)])
def test_an_expanded_tensor_gives_the_same_values_as_a_copy(expanded, dims):
    call = make_call("frn", "affine_tlu", (3, 12, 5, 7))
    small = getattr(call, expanded)[tuple(slice(0, 1) if d in dims else slice(None) for d in range(4))]
    setattr(call, expanded, small.expand(3, 12, 5, 7))
    wanted = expected(call)
    got = call.run()
    assert_within(got, wanted, expanded)
    assert got["z"].is_contiguous()


def test_sum_backward_and_scalar_strides_work():
    """z.sum().backward() hands over an expanded dz with strides of zero."""
    call = make_call("frn", "tlu", (2, 12, 5, 7)).map(torch.Tensor.requires_grad_)
    call.forward().sum().backward()
    assert torch.isfinite(call.x.grad).all()


def dense_layouts(values):
    for order in itertools.permutations(range(values.dim())):
        inverse = [order.index(i) for i in range(values.dim())]
        yield order, values.permute(order).contiguous().permute(inverse)


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 5, 4), (2, 6, 3, 4, 5)], ids=shape_name)
def test_the_result_of_a_dense_x_has_the_strides_of_x(shape):
    call = make_call("frn", "tlu", shape)
    plain = call.run()
    wrong = []
    for order, x in dense_layouts(call.x):
        call.x = x
        got = call.run()
        torch.testing.assert_close(got["z"], plain["z"], rtol=1e-5, atol=1e-5)
        if got["z"].stride() != x.stride() or got["x"].stride() != x.stride():
            wrong.append(order)
    assert not wrong, "memory orders of x whose z or dx comes out in another"


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 5, 4), (2, 6, 3, 4, 5)], ids=shape_name)
def test_the_meta_result_has_the_strides_of_the_real_one(shape):
    """torch.compile plans memory by them."""
    call = make_call("in", "tlu", shape)
    wrong = []
    for order, x in dense_layouts(call.x):
        call.x = x
        if call.forward().stride() != call.map(lambda t: t.to("meta")).forward().stride():
            wrong.append(order)
        act = frn.act(x, call.tau, activation="tlu")
        if act.stride() != frn.act(x.to("meta"), call.tau.to("meta"), activation="tlu").stride():
            wrong.append(order)
    assert not wrong, "memory orders of x for which they differ"


@pytest.mark.parametrize(
    "shape, memory_format", [((2, 6, 5, 4), torch.channels_last), ((2, 6, 3, 4, 5), torch.channels_last_3d)], ids=str
)
def test_channels_last_stays_channels_last(shape, memory_format):
    call = make_call("frn", "tlu", shape)
    call.x = call.x.to(memory_format=memory_format)
    got = call.run()
    assert got["z"].is_contiguous(memory_format=memory_format)
    assert got["x"].is_contiguous(memory_format=memory_format)


@pytest.mark.parametrize("offset", range(1, 17))
def test_any_alignment_gives_the_same_bits(offset):
    """Vectors may start anywhere; results as large as the cache take the stores that go around it."""
    call = make_call("frn", "affine_tlu", (2, 24, 9, 9))
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        for layout in ("contiguous", "channels_last"):
            plain = call.with_layout(layout)
            moved = call.with_layout(layout)
            for name in ("x", "dz"):
                tensor = getattr(plain, name)
                storage = torch.empty(tensor.numel() + offset)
                setattr(moved, name, storage[offset:].as_strided(tensor.shape, tensor.stride(), offset).copy_(tensor))
            wanted, got = plain.run(), moved.run()
            assert all(torch.equal(got[name], wanted[name]) for name in wanted), f"{implementation} {layout}"


def larger_than_half_the_cache(channels):
    """A float32 shape whose results are written around the last-level cache, though those of each sample are not."""
    known = subprocess.run(["getconf", "LEVEL3_CACHE_SIZE"], capture_output=True, text=True).stdout.strip()
    cache = int(known or 0) or 32 << 20  # what the library takes when the system does not know
    positions = int(1.1 * cache / 2 / (4 * 4 * channels))
    return (4, channels, positions // 32, 32)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_results_written_around_the_cache_have_the_same_bits(layout):
    torch.set_num_threads(2)
    x = torch.randn(larger_than_half_the_cache(16))
    x = channels_last(x) if layout == "channels_last" else x
    parameters = [torch.randn(16) for _ in range(3)]

    def run(x):
        x = x.detach().requires_grad_()
        z = frn.frn_tlu(x, *parameters)
        return z.detach(), *torch.autograd.grad(z, x, x.detach())

    z, dx = run(x)
    for n in (0, 3):
        alone = run(x[n : n + 1])
        assert torch.equal(z[n], alone[0][0])
        assert torch.equal(dx[n], alone[1][0])
