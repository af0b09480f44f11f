"""The networks that torchvision or timm have as well, trained for a few steps by Python and by build/bin/model_step."""

from __future__ import annotations

import copy
import os
import re
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Callable

import timm
import torch
import torch.nn.functional as F
import torchvision
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from timm.layers import BatchNormAct2d, FilterResponseNormTlu2d, GroupNormAct, filter_response_norm
from torch import Tensor, nn

CLASSES = 7
MOMENTUM = 0.9
AUXILIARY_WEIGHT = 0.4  # of the auxiliary head's loss, as ModelRow has it
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True)
class Peer:
    name: str  # as `frn convert` knows it
    model: str  # our name for it
    norm: str  # the same layers in our words
    make: Callable[[], nn.Module]
    # Beginnings of the names of parameters whose gradients come through a max pool, or a ReLU without a norm before it.
    before_pools: tuple[str, ...]
    size: int = 64  # of the images: the last maps of a residual network are 2x2

    def __str__(self) -> str:
        return f"{self.name}-{self.norm}"


def in_torchvision(name: str, model: str, before_pools=("conv1.", "bn1."), norm="bn+relu", size=64, **settings) -> Peer:
    make = partial(torchvision.models.get_model, name, weights=None, num_classes=CLASSES, **settings)
    return Peer(f"torchvision:{name}", model, norm, make, before_pools, size)


def in_timm(name: str, model: str, norm: str = "bn+relu", norm_layer: Callable = BatchNormAct2d) -> Peer:
    # zero_init_last would leave every convolution of a block but the last without a gradient.
    settings = {"num_classes": CLASSES, "norm_layer": norm_layer, "zero_init_last": False}
    return Peer(f"timm:{name}", model, norm, partial(timm.create_model, name, pretrained=False, **settings), ("stem.",))


RESNET18 = in_torchvision("resnet18", "resnetv1-18")
RESNET50 = in_torchvision("resnet50", "resnetv1-50")
# Every parameter of it: the hidden linear layers are not normalised.
VGG11 = in_torchvision("vgg11_bn", "vgg11", ("features.", "classifier."), dropout=0.0)
INCEPTION = in_torchvision(
    "inception_v3",
    "inceptionv3",
    ("Conv2d_", "Mixed_5", "Mixed_6"),
    size=299,
    aux_logits=True,
    transform_input=False,
    init_weights=True,
    dropout=0.0,
)
TIMM_BN = in_timm("resnetv2_50", "resnetv2-50")
TIMM_GN = in_timm("resnetv2_50", "resnetv2-50", "gn(groups=32,eps=1e-5)+relu", partial(GroupNormAct, num_groups=32))
TIMM_BIT = in_timm("resnetv2_50x1_bit", "resnetv2-50-bit", "gn(groups=32)+relu", partial(GroupNormAct, num_groups=32))
TIMM_FRN = in_timm("resnetv2_50", "resnetv2-50", "frn(eps=1e-5)+tlu", FilterResponseNormTlu2d)


def make_module(peer: Peer) -> nn.Module:
    """With weights that leave nothing trivial: no scale of 1, no shift of 0, no running statistics of a fresh layer."""
    torch.manual_seed(0)
    module = peer.make()
    for name, tensor in module.state_dict().items():
        if name.endswith("running_var") or (tensor.dim() == 1 and name.endswith(".weight")):
            tensor.uniform_(0.5, 1.5)
        elif name.endswith("num_batches_tracked"):
            tensor.fill_(3)
        elif tensor.dim() == 1:  # biases, thresholds, running means
            tensor.normal_(0, 0.2)
    return module.train()


def keep_clear_of_thresholds(module: nn.Module) -> None:
    """Shifts every channel of every norm far above its threshold or, a quarter of them, far below.

    y = weight*xhat + bias, where xhat has a mean square of 1 at most and stays within 15 in these networks (Inception's
    first maps, at their edges): a weight up to 0.25, a bias of 4 and a threshold up to 0.1 leave a distance.
    """
    for name, norm in module.named_modules():
        if not isinstance(norm, (nn.BatchNorm2d, nn.GroupNorm, FilterResponseNormTlu2d)):
            continue
        channels = norm.weight.numel()
        below = torch.rand(channels) < 0.25
        if re.search(r"layer\d+\.\d+\.(bn2|bn3|downsample\.1)$", name):
            below[:] = False  # a ReLU follows the residual addition: 4 above and 4 below would meet at 0
        with torch.no_grad():
            norm.weight.uniform_(0.15, 0.25)
            norm.bias.copy_(torch.where(below, -4.0, 4.0))
            if getattr(norm, "tau", None) is not None:
                norm.tau.uniform_(-0.1, 0.1)


def make_batches(peer: Peer, steps: int, batch: int = 4) -> dict[str, Tensor]:
    """A batch norm over two values, as Inception's auxiliary head would see of two images, gives +1 and -1 for any."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn((steps, batch, 3, peer.size, peer.size), generator=generator)
    return {"x": x, "target": torch.randint(CLASSES, (steps, batch), generator=generator)}


@dataclass
class Steps:
    """What some steps of SGD computed, by the peer's names."""

    outputs: dict[str, Tensor]  # of the first step: logits, and auxiliary where there is one
    losses: Tensor  # float64 [steps]
    gradients: dict[str, Tensor]  # of the first step
    buffers: dict[str, Tensor]  # after the last step

    def values(self) -> dict[str, Tensor]:
        return {**self.outputs, "loss": self.losses, **self.gradients, **self.buffers}


def inverse_rms(x: Tensor, eps: float) -> Tensor:
    return x.square().mean(dim=(2, 3), keepdim=True).add(eps).rsqrt()


@contextmanager
def timm_frn_in_its_own_type():
    """timm's FRN takes the mean square in float32 even of float64 values; a reference must not."""
    original = filter_response_norm.inv_instance_rms
    filter_response_norm.inv_instance_rms = inverse_rms
    try:
        yield
    finally:
        filter_response_norm.inv_instance_rms = original


def train_in_python(module: nn.Module, batches: dict[str, Tensor], dtype, lr: float) -> Steps:
    torch.set_num_threads(os.cpu_count())  # as model_step does: a fixture of conftest.py has set it to 1
    module = copy.deepcopy(module).to(dtype)
    descent = torch.optim.SGD(module.parameters(), lr=lr, momentum=MOMENTUM)
    losses, outputs, gradients = [], {}, {}
    with timm_frn_in_its_own_type():
        for x, target in zip(batches["x"].to(dtype), batches["target"]):
            descent.zero_grad()
            output = module(x)
            parts = {"logits": output} if isinstance(output, Tensor) else {"logits": output[0], "auxiliary": output[1]}
            loss = F.cross_entropy(parts["logits"], target)
            if "auxiliary" in parts:
                loss = loss + AUXILIARY_WEIGHT * F.cross_entropy(parts["auxiliary"], target)
            loss.backward()
            losses.append(loss.item())
            if len(losses) == 1:
                outputs = {name: part.detach() for name, part in parts.items()}
                gradients = {name: p.grad for name, p in module.named_parameters()}  # zero_grad lets go of it
            descent.step()
    buffers = {name: tensor.detach() for name, tensor in module.named_buffers()}
    return Steps(outputs, torch.tensor(losses, dtype=torch.float64), gradients, buffers)


def run_program(name: str, *arguments) -> None:
    build = Path(os.environ["FRN_LIBRARY"]).resolve().parents[1]
    command = [str(build / "bin" / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)} gave {done.returncode}: {done.stderr.strip()}"


def convert(direction: str, peer: Peer, source: Path, target: Path) -> None:
    """`direction`: --from the peer's names to ours, or --to them."""
    run_program("frn", "convert", direction, peer.name, source, target)


def train_in_cpp(
    peer: Peer, module: nn.Module, batches: dict[str, Tensor], dtype, lr: float, layout: str = "contiguous"
) -> Steps:
    with TemporaryDirectory() as name:  # up to 5 GB for VGG: pytest's own folder would keep that of three runs
        theirs, ours, batch, out, results, back = (Path(name) / f"{i}.safetensors" for i in range(6))
        save_file(module.state_dict(), theirs)
        convert("--from", peer, theirs, ours)
        save_file(batches, batch)
        with safe_open(ours, "pt") as file:  # names the norm of torchvision's Inception, whose eps is unlike the others'
            norm = file.metadata().get("frn.norm", peer.norm)
            standardised = file.metadata().get("frn.weights_standardised", "off")
        settings = {
            "model": peer.model,
            "norm": norm,
            "weights-standardised": standardised,
            "classes": CLASSES,
            "input-channels": 3,
            "weights": ours,
            "batch": batch,
            "out": out,
            "dtype": str(dtype).removeprefix("torch."),
            "layout": layout,
            "lr": lr,
            "momentum": MOMENTUM,
            "dropout": 0,
        }
        run_program("model_step", *(word for key, value in settings.items() for word in (f"--{key}", value)))
        with safe_open(out, framework="pt") as file:
            names = list(file.keys())
            outputs = {n: file.get_tensor(n) for n in ("logits", "auxiliary") if n in names}
            losses = file.get_tensor("loss")
            # A gradient stands where its parameter would: with the buffers they are a whole state again, and convert,
            # which looks at names and shapes, must find a place for each.
            state = {n.removeprefix("grad."): file.get_tensor(n) for n in names if n.startswith("grad.")}
            state |= {n.removeprefix("after."): file.get_tensor(n) for n in names if n.endswith(BUFFERS)}
        save_file(state, results)
        convert("--to", peer, results, back)
        state = load_file(back)
    gradients = {n: t for n, t in state.items() if not n.endswith(BUFFERS)}
    return Steps(outputs, losses, gradients, {n: t for n, t in state.items() if n.endswith(BUFFERS)})
