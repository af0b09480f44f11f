"""The CUDA kernels on a GPU: what tests/kernels/cuda checks without one, and what only PyTorch on a device can show.

Skipped without a GPU, or where the library was built without them (preset `cuda` has them).
"""

import pytest
import torch
from cases import LAYERS, LAYOUTS, make_call, read_shapes, shape_name
from oracle import ALLOWED, assert_within, expected

import frn

HAS_KERNELS = torch._C._dispatch_has_kernel_for_dispatch_key("frn::_norm_act_forward", "CUDA")
on_a_gpu = pytest.mark.skipif(
    not (HAS_KERNELS and torch.cuda.is_available()), reason="needs a GPU and a library built with PRESET=cuda"
)
SHAPES = [shape for shape in read_shapes("shapes.txt") if 0 not in shape]
RESNET = [(2, *shape[1:]) for shape in read_shapes("resnetv2-50-224.txt")]
LARGE = [(1, 8, 256, 256), (2, 4, 512, 512), (1, 2, 1024, 1024)]


def run_on_gpu(call, layout="contiguous"):
    got = call.with_layout(layout).map(lambda t: t.cuda()).run()
    assert frn.last_implementation() == "cuda"
    return {name: value.cpu() for name, value in got.items()}


@pytest.mark.skipif(not HAS_KERNELS or torch.cuda.is_available(), reason="needs the kernels, and no GPU")
def test_without_a_gpu_the_library_loads_and_pytorch_says_what_is_missing():
    z = frn.frn_tlu(torch.ones(1, 2, 3), torch.ones(2), torch.zeros(2), torch.zeros(2))
    assert z.shape == (1, 2, 3)
    with pytest.raises((RuntimeError, AssertionError), match="(?i)nvidia|cuda"):
        torch.ones(2, 3, device="cuda")


@on_a_gpu
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "small-" + shape_name(shape))
@pytest.mark.parametrize("norm, activation", LAYERS)
def test_results_are_within_4_ulp_of_float64(norm, activation, shape, layout):
    call = make_call(norm, activation, shape)
    assert_within(run_on_gpu(call, layout), expected(call, ALLOWED), layout)


@on_a_gpu
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", RESNET + LARGE, ids=shape_name)
@pytest.mark.parametrize("norm, activation", [("frn", "tlu"), ("gn", "relu"), ("ln", "affine_tlu")])
def test_large_maps_are_within_4_ulp_of_float64(norm, activation, shape, layout):
    call = make_call(norm, activation, shape)
    assert_within(run_on_gpu(call, layout), expected(call, ALLOWED), layout)


@on_a_gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm, activation", LAYERS)
def test_other_types_agree_with_the_cpu(norm, activation, layout, dtype):
    call = make_call(norm, activation, (3, 12, 9, 7), dtype).with_layout(layout)
    units = {torch.float64: 1e-11, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}[dtype]  # two roundings to the type
    cpu, gpu = call.run(), run_on_gpu(call, layout)
    for name, value in cpu.items():
        torch.testing.assert_close(gpu[name], value, rtol=units, atol=units * value.abs().max().item())


@on_a_gpu
def test_results_are_the_same_bits_in_every_run_and_in_every_batch():
    call = make_call("frn", "tlu", (8, 33, 14, 14)).map(lambda t: t.cuda())
    first, second = call.run(), call.run()
    assert all(torch.equal(first[name], second[name]) for name in first)
    for n in range(8):
        alone = make_call("frn", "tlu", (8, 33, 14, 14)).map(lambda t: t.cuda())
        alone.x, alone.dz = call.x[n : n + 1].clone(), call.dz[n : n + 1].clone()
        one = alone.run()
        assert torch.equal(one["z"], first["z"][n : n + 1]) and torch.equal(one["x"], first["x"][n : n + 1])


@on_a_gpu
def test_a_cuda_graph_records_forward_and_backward():
    layer = frn.NormAct(16, "frn+tlu").cuda()
    x = torch.randn(4, 16, 28, 28, device="cuda", requires_grad=True)

    def step():
        (gradient,) = torch.autograd.grad(layer(x).square().sum(), x)
        return gradient

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            wanted = step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = step()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(got, wanted)


@on_a_gpu
def test_double_backward_autocast_and_compile_work():
    call = make_call("frn", "affine_tlu", (2, 3, 4, 4), torch.float64).map(lambda t: t.cuda().requires_grad_())
    inputs = tuple(call.tensors().values())

    def forward(x, weight, bias, eps, tau, kappa):
        return torch.ops.frn.norm_act(x, weight, bias, eps, tau, kappa, 3, False, "affine_tlu")

    assert torch.autograd.gradcheck(forward, inputs) and torch.autograd.gradgradcheck(forward, inputs)
    layer = frn.NormAct(8, "frn+tlu").cuda()
    x = torch.randn(2, 8, 5, 5, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        assert layer(x.bfloat16()).dtype == torch.bfloat16
    assert torch.equal(torch.compile(layer, fullgraph=True)(x), layer(x))


@on_a_gpu
def test_empty_batches_have_empty_results_and_zero_gradients():
    for shape in [(0, 8, 5, 5), (2, 8, 0, 5)]:
        got = make_call("gn", "tlu", shape).map(lambda t: t.cuda()).run()
        assert got["z"].shape == shape and got["weight"].abs().sum() == 0


@pytest.mark.skipif(not HAS_KERNELS or torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_call_runs_on_the_device_of_x():
    call = make_call("frn", "tlu", (2, 8, 7, 7)).map(lambda t: t.to("cuda:1"))
    assert call.run()["z"].device == torch.device("cuda:1")
