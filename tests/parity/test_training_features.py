"""What people do with layers when they train and ship: save, copy, export, checkpoint, split over processes, vmap."""

import copy
import os
import pickle
import socket

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import frn

SPECS = ["frn+tlu", "frn(eps=learned)+affine_tlu", "gn(group_size=4,proxy=true)+relu", "bn+relu", "brn+relu", "none+tlu"]


class Net(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.conv = frn.WSConv2d(3, 8, 3, form="gain") if spec.startswith("gn") else nn.Conv2d(3, 8, 3)
        self.norm = frn.NormAct(8, spec)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.norm(self.conv(x)).mean((2, 3)))


def images(count=4):
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def gradients(model, x):
    model.zero_grad()
    model(x).square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("spec", SPECS)
def test_saved_copied_and_pickled_models_give_the_same_bits(spec, tmp_path):
    model = Net(spec)
    model(images())  # moves running statistics
    model.eval()
    expected = model(images())
    torch.save(model, tmp_path / "model.pt")
    torch.save(model.state_dict(), tmp_path / "state.pt")
    loaded = Net(spec)
    loaded.load_state_dict(torch.load(tmp_path / "state.pt"))
    others = [torch.load(tmp_path / "model.pt", weights_only=False), pickle.loads(pickle.dumps(model)), copy.deepcopy(model), loaded]
    for other in others:
        assert torch.equal(other.eval()(images()), expected)


@pytest.mark.parametrize("spec", SPECS)
def test_an_exported_program_gives_the_same_bits(spec, tmp_path):
    model = Net(spec).eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(model, (images(),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "program.pt2")
    for exported in (program, torch.export.load(tmp_path / "program.pt2")):
        for count in (2, 7):
            assert torch.equal(exported.module()(images(count)), model(images(count)))


@pytest.mark.parametrize("spec", SPECS)
def test_checkpointed_activations_give_the_same_gradients(spec):
    if spec == "brn+relu":
        pytest.skip("batch renormalisation reads its running statistics, which the second forward pass finds moved")
    model = Net(spec)
    plain = gradients(model, images())
    model.zero_grad()
    hidden = checkpoint(lambda x: model.norm(model.conv(x)), images(), use_reentrant=False)
    model.last(hidden.mean((2, 3))).square().sum().backward()
    for parameter, expected in zip(model.parameters(), plain, strict=True):
        assert torch.equal(parameter.grad, expected)


@pytest.mark.parametrize("spec", ["frn+tlu", "frn(eps=learned)+affine_tlu", "gn(group_size=4,proxy=true)+relu", "none+tlu"])
def test_vmap_over_samples_is_the_batch(spec):
    layer = frn.NormAct(8, spec)
    x = torch.randn(5, 8, 4, 4)
    alone = torch.func.vmap(lambda sample: layer(sample[None])[0])(x)
    assert torch.equal(alone, layer(x))


@pytest.mark.parametrize("spec", ["frn+tlu", "gn(group_size=4,proxy=true)+relu"])
def test_gradients_of_each_sample_come_from_vmap_and_grad(spec):
    model = Net(spec).double()
    parameters = dict(model.named_parameters())
    x = images().double()

    def loss(values, sample):
        return torch.func.functional_call(model, values, (sample[None],)).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for i in range(len(x)):
        for (name, _), expected in zip(model.named_parameters(), gradients(model, x[i : i + 1]), strict=True):
            torch.testing.assert_close(found[name][i], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spec", ["frn+tlu", "gn(group_size=4,proxy=true)+relu", "none+tlu"])
def test_forward_and_reverse_mode_agree(spec):
    layer = frn.NormAct(8, spec).double()
    x, dx, dz = torch.randn(3, 2, 8, 4, 4, dtype=torch.float64)
    _, forward = torch.func.jvp(layer, (x,), (dx,))
    _, reverse = torch.func.vjp(layer, x)
    torch.testing.assert_close((forward * dz).sum(), (dx * reverse(dz)[0]).sum(), rtol=1e-12, atol=1e-12)


def test_an_ensemble_of_layers_runs_by_vmap_and_trains():
    layers = [frn.NormAct(8, "frn(eps=learned)+tlu").double() for _ in range(3)]
    with torch.no_grad():
        for parameter in (p for layer in layers for p in layer.parameters()):
            parameter.normal_()
    values, _ = torch.func.stack_module_state(layers)
    x = torch.randn(2, 8, 4, 4, dtype=torch.float64)

    def loss(one):
        return torch.func.functional_call(layers[0], one, (x,)).square().sum()

    found = torch.func.vmap(torch.func.grad(loss))(values)
    for i, layer in enumerate(layers):
        for (name, _), expected in zip(layer.named_parameters(), gradients(layer, x), strict=True):
            torch.testing.assert_close(found[name][i], expected, rtol=1e-12, atol=1e-12)


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def train_in_parallel(rank, port, spec, folder):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Net(spec).double())
    model(images().double()[2 * rank : 2 * rank + 2]).square().sum().backward()
    if rank == 0:
        torch.save([parameter.grad for parameter in model.parameters()], f"{folder}/gradients.pt")
    torch.distributed.destroy_process_group()


def test_ddp_on_gloo_gives_the_gradients_of_the_whole_batch(tmp_path):
    spec = "frn(eps=learned)+tlu"
    torch.multiprocessing.spawn(train_in_parallel, (free_port(), spec, str(tmp_path)), nprocs=2)
    torch.manual_seed(0)
    whole = gradients(Net(spec).double(), images().double())
    for found, expected in zip(torch.load(tmp_path / "gradients.pt"), whole, strict=True):
        torch.testing.assert_close(2 * found, expected, rtol=1e-12, atol=1e-12)  # DDP takes the mean over processes
