#!/usr/bin/env python3
"""CIFAR-10 in plain PyTorch: the network, data and schedule of `frn train --model resnetv2-20`, to compare with.

Images stay in memory and are cropped and flipped a batch at a time; the rest is what torch.nn and torch.optim offer, with
timm's FRN. Progress goes to stderr, the result to stdout as JSON.

    python bench/cifar_peer.py --data cifar-10-batches-bin --norm bn+relu --epochs 30
    python bench/cifar_peer.py --data cifar-10-batches-bin --batch-per-device 1 --devices 128 --measure 20

Virtual devices: batch norm takes its statistics on each device's images, one device after the other, and gradients are
averaged. Norms of single images do not know devices, so their whole batch goes through the network at once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

from peers import use_tcmalloc

NORMS = ["frn+tlu", "bn+relu", "gn+relu"]
LAYOUTS = ["channels-last", "contiguous"]
WARMUP_SHARE = 0.05


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of CIFAR-10's binary files")
    parser.add_argument("--norm", choices=NORMS, default=NORMS[0], help="(default: %(default)s)")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0], help="(default: %(default)s)")
    parser.add_argument("--epochs", type=float, default=30, help="passes over the images (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=0, help="updates, instead of epochs")
    parser.add_argument("--batch-per-device", type=int, default=32, help="images (default: %(default)s)")
    parser.add_argument("--devices", type=int, default=1, help="virtual ones (default: %(default)s)")
    parser.add_argument("--lr-base", type=float, default=0.1, help="rate for 256 images (default: %(default)s)")
    parser.add_argument("--label-smoothing", type=float, default=0, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--measure", type=int, default=0, metavar="STEPS", help="time so many steps instead of training")
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = parse_options()  # before torch, which takes seconds, so that a wrong option is told at once
    # As `frn` does: threads that wait must not hold a processor that others need.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    ALLOCATOR = use_tcmalloc()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from timm.layers import FilterResponseNormTlu2d  # noqa: E402
from torch import Tensor, nn  # noqa: E402

# --- The network: names and shapes are those of our resnetv2-20 and of timm's resnetv2 ---


class BatchNormRelu(nn.BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x), inplace=True)


class GroupNormRelu(nn.GroupNorm):
    def __init__(self, channels: int):
        super().__init__(channels // 32, channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x), inplace=True)


def make_norm(norm: str, channels: int) -> nn.Module:
    if norm == "frn+tlu":
        return FilterResponseNormTlu2d(channels, eps=1e-6)
    return BatchNormRelu(channels) if norm == "bn+relu" else GroupNormRelu(channels)


def conv(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, norm: str, channels_in: int, channels_out: int, stride: int):
        super().__init__()
        self.norm1 = make_norm(norm, channels_in)
        self.conv1 = conv(channels_in, channels_out, 3, stride)
        self.norm2 = make_norm(norm, channels_out)
        self.conv2 = conv(channels_out, channels_out, 3)
        self.downsample = None
        if channels_in != channels_out or stride != 1:
            self.downsample = nn.ModuleDict({"conv": conv(channels_in, channels_out, 1, stride)})

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        shortcut = x if self.downsample is None else self.downsample["conv"](y)
        return self.conv2(self.norm2(self.conv1(y))) + shortcut


class ResNetV2(nn.Module):
    """Pre-activation, three stages of `blocks` blocks, for small images."""

    def __init__(self, norm: str, blocks: int = 3, classes: int = 10):
        super().__init__()
        widths = [16, 32, 64]
        if norm == "gn+relu":  # groups have 32 channels, so widths are rounded up
            widths = [max(32, width) for width in widths]
        channels = widths[0]
        self.stem = nn.ModuleDict({"conv": conv(3, channels, 3)})
        self.stages = nn.ModuleList()
        for index, width in enumerate(widths):
            stage = nn.ModuleList()
            for block in range(blocks):
                stage.append(Block(norm, channels, width, 2 if index > 0 and block == 0 else 1))
                channels = width
            self.stages.append(nn.ModuleDict({"blocks": stage}))
        self.norm = make_norm(norm, channels)
        self.head = nn.ModuleDict({"fc": nn.Linear(channels, classes)})
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem["conv"](x)
        for stage in self.stages:
            for block in stage["blocks"]:
                x = block(x)
        return self.head["fc"](self.norm(x).mean((2, 3)))


def initialise(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    if isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight, std=0.01)
        nn.init.zeros_(layer.bias)


# --- Data ---

PAD = 4


class Cifar10:
    """All images as bytes, padded for training."""

    def __init__(self, folder: Path, memory_format: torch.memory_format):
        images, self.labels = self.read([folder / f"data_batch_{i}.bin" for i in range(1, 6)])
        self.test_images, self.test_labels = self.read([folder / "test_batch.bin"])
        # Of the padded, cropped training images nearly the same, but these are what everybody uses.
        pixels = images.float().div_(255)
        self.mean = pixels.mean((0, 2, 3)).view(1, 3, 1, 1)
        self.deviation = pixels.std((0, 2, 3)).view(1, 3, 1, 1)
        self.padded = F.pad(images, [PAD] * 4)
        self.memory_format = memory_format

    @staticmethod
    def read(paths: list[Path]) -> tuple[Tensor, Tensor]:
        records = torch.cat([torch.frombuffer(bytearray(p.read_bytes()), dtype=torch.uint8) for p in paths])
        records = records.view(-1, 1 + 3 * 32 * 32)
        return records[:, 1:].reshape(-1, 3, 32, 32).contiguous(), records[:, 0].long()

    def normalised(self, images: Tensor) -> Tensor:
        return images.float().div_(255).sub_(self.mean).div_(self.deviation).contiguous(memory_format=self.memory_format)

    def training_batch(self, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Each image cropped at its own place and flipped or not, in one gather."""
        count = len(indices)
        corner = torch.randint(2 * PAD + 1, (2, count, 1), generator=generator)
        rows = corner[0] + torch.arange(32)
        columns = corner[1] + torch.arange(32)
        flipped = torch.rand(count, 1, generator=generator) < 0.5
        columns = torch.where(flipped, columns.flip(1), columns)
        image, channel = indices.view(-1, 1, 1, 1), torch.arange(3).view(1, 3, 1, 1)
        crops = self.padded[image, channel, rows.view(count, 1, 32, 1), columns.view(count, 1, 1, 32)]
        return self.normalised(crops), self.labels[indices]

    def batches(self, batch_global: int, generator: torch.Generator):
        """For ever, epoch after epoch; what an epoch leaves over is dropped."""
        while True:
            order = torch.randperm(len(self.labels), generator=generator)
            for indices in order[: len(order) // batch_global * batch_global].split(batch_global):
                yield self.training_batch(indices, generator)


# --- Training ---


class Trainer:
    def __init__(self, options: argparse.Namespace):
        torch.manual_seed(options.seed)
        self.options = options
        memory_format = torch.channels_last if options.layout == "channels-last" else torch.contiguous_format
        self.data = Cifar10(options.data, memory_format)
        self.model = ResNetV2(options.norm).to(memory_format=memory_format)
        self.batch_norms = [m for m in self.model.modules() if isinstance(m, nn.BatchNorm2d)]
        self.batch_global = options.batch_per_device * options.devices
        steps_per_epoch = len(self.data.labels) // self.batch_global
        self.steps = options.steps or max(1, round(options.epochs * steps_per_epoch))
        self.warmup_steps = round(WARMUP_SHARE * self.steps)
        self.lr_peak = options.lr_base * self.batch_global / 256
        self.descent = torch.optim.SGD(self.parameter_groups(), lr=0, momentum=0.9)
        self.batches = self.data.batches(self.batch_global, torch.Generator().manual_seed(options.seed))

    def parameter_groups(self) -> list[dict]:
        layers = [m for m in self.model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
        decayed = [layer.weight for layer in layers]
        known = {id(p) for p in decayed}
        others = [p for p in self.model.parameters() if id(p) not in known]
        return [{"params": decayed, "weight_decay": 1e-4}, {"params": others, "weight_decay": 0}]

    def rate(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.lr_peak * 0.5 * (1 - math.cos(math.pi * step / self.warmup_steps))
        share = (step - self.warmup_steps) / (self.steps - self.warmup_steps)
        return self.lr_peak * 0.5 * (1 + math.cos(math.pi * share))

    def backward(self, images: Tensor, labels: Tensor, weight: float) -> float:
        loss = F.cross_entropy(self.model(images), labels, label_smoothing=self.options.label_smoothing) * weight
        loss.backward()
        return loss.item()

    def step(self, number: int) -> float:
        images, labels = next(self.batches)
        for group in self.descent.param_groups:
            group["lr"] = self.rate(number)
        self.descent.zero_grad()
        if not self.batch_norms or self.options.devices == 1:
            loss = self.backward(images, labels, 1)
        else:
            loss = 0.0
            pieces = zip(images.split(self.options.batch_per_device), labels.split(self.options.batch_per_device))
            for device, piece in enumerate(pieces):
                for norm in self.batch_norms:  # the saved model has the first device's statistics, as under DDP
                    norm.momentum = 0.1 if device == 0 else 0.0
                loss += self.backward(*piece, 1 / self.options.devices)
        self.descent.step()
        return loss

    @torch.inference_mode()
    def precision_at_1(self) -> float:
        self.model.eval()
        right = 0
        for images, labels in zip(self.data.test_images.split(500), self.data.test_labels.split(500)):
            right += (self.model(self.data.normalised(images)).argmax(1) == labels).sum().item()
        self.model.train()
        return right / len(self.data.test_labels)


def train(trainer: Trainer) -> dict:
    every = max(1, trainer.steps // 20)
    losses, start, seconds = [], time.perf_counter(), 0.0
    for number in range(1, trainer.steps + 1):
        losses.append(trainer.step(number - 1))
        if not math.isfinite(losses[-1]):
            sys.exit(f"the loss is {losses[-1]} at step {number}: lower --lr-base")
        last = number == trainer.steps
        if number % every != 0 and not last:
            continue
        seconds += time.perf_counter() - start  # validation is not training
        speed, loss = number * trainer.batch_global / seconds, statistics.fmean(losses[-every:])
        text = f"step {number}/{trainer.steps}  loss {loss:.4f}  {speed:.0f} images/s"
        if last or number % (5 * every) == 0:
            precision = trainer.precision_at_1()
            text += f"  P@1 {precision:.4f}"
        print(text, file=sys.stderr, flush=True)
        start = time.perf_counter()
    result = {"steps": trainer.steps, "loss": loss, "precision_at_1": precision}
    return {**result, "images_per_second": speed, "seconds": seconds}


def measure(trainer: Trainer, steps: int) -> dict:
    for number in range(2):  # warms caches and the allocator, and makes the optimiser's memory
        trainer.step(number)
    times = []
    for number in range(steps):
        start = time.perf_counter()
        trainer.step(number)
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    return {"measured_steps": steps, "steps_per_second": 1 / median, "images_per_second": trainer.batch_global / median}


def main(options: argparse.Namespace, allocator: str) -> None:
    torch.set_num_threads(options.threads)
    trainer = Trainer(options)
    result = measure(trainer, options.measure) if options.measure else train(trainer)
    keys = ("norm", "layout", "batch_per_device", "devices", "lr_base", "label_smoothing", "seed", "threads")
    settings = {key: getattr(options, key) for key in keys}
    print(
        json.dumps(
            {
                "command": "bench cifar_peer",
                **settings,
                "batch_global": trainer.batch_global,
                "parameters": sum(p.numel() for p in trainer.model.parameters()),
                "torch": torch.__version__,
                "allocator": allocator,
                **result,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main(OPTIONS, ALLOCATOR)
