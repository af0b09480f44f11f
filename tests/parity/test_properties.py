"""What must hold for any input: invariance, independence of the batch, the same bits from any number of threads."""

import pytest
import torch
from cases import LAYERS, LAYOUTS, PER_SAMPLE, make_call, shape_name

import frn

# Large maps, few units of work, one group a sample: where passes are cut by position instead of by sample.
SPLIT_SHAPES = [(1, 4, 200, 200), (3, 8, 64, 65), (5, 6, 90, 91)]


def assert_same_bits(one, other, context):
    for name, value in one.items():
        assert torch.equal(value, other[name]), f"{context}: {name} differs"


@pytest.mark.parametrize("norm", PER_SAMPLE)
def test_the_scale_of_x_does_not_matter_as_eps_goes_to_zero(norm):
    call = make_call(norm, "tlu" if norm == "frn" else "relu", (2, 12, 5, 7), torch.float64, eps=1e-30)
    z = call.forward()
    for scale in (2.0**-20, 3.7, 1e6):
        call.x = call.x * scale
        torch.testing.assert_close(call.forward(), z, rtol=1e-12, atol=1e-12)
        call.x = call.x / scale


@pytest.mark.parametrize("norm", ["frn", "gfrn", "lfrn"])
def test_the_gradient_is_orthogonal_to_x_as_eps_goes_to_zero(norm):
    """Section 3.2: (I - xhat xhat^T/N) projects out the direction of x, within the values that share statistics."""
    call = make_call(norm, "prelu", (2, 12, 5, 7), torch.float64, eps=1e-30)
    dx, x = (t.reshape(2, call.groups, -1) for t in (call.run()["x"], call.x))
    lengths = dx.norm(dim=-1) * x.norm(dim=-1)
    assert (lengths > 1e-3).all()
    assert ((dx * x).sum(-1).abs() <= 1e-12 * lengths).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(5, 12), (4, 7, 5, 7), (3, 32, 14, 14), (3, 4, 200, 200)], ids=shape_name)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("gfrn", "relu"), ("in", "prelu"), ("ln", "affine_tlu")])
def test_a_sample_alone_gives_the_same_bits_as_in_a_batch(norm, activation, shape, layout):
    call = make_call(norm, activation, shape)
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            together = call.with_layout(layout).run()
            for n in range(shape[0]):
                single = make_call(norm, activation, shape)
                single.x, single.dz = call.x[n : n + 1], call.dz[n : n + 1]
                alone = single.with_layout(layout).run()
                assert torch.equal(alone["z"][0], together["z"][n])
                assert torch.equal(alone["x"][0], together["x"][n])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SPLIT_SHAPES, ids=shape_name)
@pytest.mark.parametrize("norm, activation", [*LAYERS[2::5], ("ln", "affine_tlu"), ("in", "none")])
def test_the_number_of_threads_changes_no_bit(norm, activation, shape, layout):
    call = make_call(norm, activation, shape).with_layout(layout)
    for implementation in frn.implementations():
        frn.force_implementation(implementation)
        torch.set_num_threads(1)
        wanted = call.run()
        for threads in (2, 3):
            torch.set_num_threads(threads)
            assert_same_bits(wanted, call.run(), f"{implementation}, {threads} threads")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_number_of_threads_changes_no_bit_in_any_type(dtype, layout):
    call = make_call("ln", "affine_tlu", (3, 8, 64, 65), dtype).with_layout(layout)
    wanted = call.run()
    for threads in (2, 3):
        torch.set_num_threads(threads)
        assert_same_bits(wanted, call.run(), f"{threads} threads")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_second_run_gives_the_same_bits(layout):
    torch.set_num_threads(2)
    call = make_call("gn", "affine_tlu", (4, 32, 28, 28)).with_layout(layout)
    wanted = call.run()
    for _ in range(5):
        assert_same_bits(wanted, call.run(), "second run")


@pytest.mark.parametrize("activation", ["tlu", "affine_tlu"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_act_gives_the_same_bits_on_any_number_of_threads(activation, layout):
    source = make_call("frn", activation, (3, 8, 64, 65)).with_layout(layout)
    names = [name for name in ("tau", "kappa") if getattr(source, name) is not None]

    def run():
        inputs = [t.detach().clone().requires_grad_() for t in (source.x, *(getattr(source, n) for n in names))]
        z = frn.act(inputs[0], **dict(zip(names, inputs[1:])), activation=activation)
        return [z.detach(), *torch.autograd.grad(z, inputs, source.dz)]

    wanted = run()
    for threads in (2, 3):
        torch.set_num_threads(threads)
        assert all(torch.equal(a, b) for a, b in zip(run(), wanted))
