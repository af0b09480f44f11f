"""bn(sync=true) in two processes of torch.distributed: one batch's results, although each process holds a part."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import frn

CHANNELS = 4
PARTS = ([0, 1], [1, 5])  # of different sizes: equal weights of ranks would be found out


def make_layer(spec):
    layer = frn.NormAct(CHANNELS, spec, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(0.5, 1.5, CHANNELS))
        layer.bias.copy_(torch.linspace(-1, 1, CHANNELS))
    return layer


def make_batch():
    generator = torch.Generator().manual_seed(7)
    shape = (5, CHANNELS, 3, 2)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * 2 + 30
    return x, torch.randn(shape, generator=generator, dtype=torch.float64)


def train(layer, x, dz):
    x = x.clone().requires_grad_()
    z = layer(x)
    z.backward(dz)
    tensors = {"z": z, "dx": x.grad, "dweight": layer.weight.grad, "dbias": layer.bias.grad}
    tensors |= {"running_mean": layer.running_mean, "running_var": layer.running_var}
    return {name: tensor.detach() for name, tensor in tensors.items()}


def rank_main(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    begin, end = PARTS[rank]
    x, dz = make_batch()
    torch.save(train(make_layer("bn(sync=true)+relu"), x[begin:end], dz[begin:end]), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="torch without Gloo")
def test_two_processes_with_parts_of_a_batch_are_one_process_with_all_of_it(tmp_path):
    mp.spawn(rank_main, args=(str(tmp_path),), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    whole = train(make_layer("bn+relu"), *make_batch())
    for name in ("running_mean", "running_var"):
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], whole[name])
    for name in ("z", "dx"):
        torch.testing.assert_close(torch.cat([first[name], second[name]]), whole[name])
    for name in ("dweight", "dbias"):
        torch.testing.assert_close(first[name] + second[name], whole[name])


def test_alone_it_is_batch_norm():
    x, dz = make_batch()
    sync, plain = train(make_layer("bn(sync=true)+relu"), x, dz), train(make_layer("bn+relu"), x, dz)
    for name, tensor in plain.items():
        assert torch.equal(sync[name], tensor), name
