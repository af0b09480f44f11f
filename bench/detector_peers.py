#!/usr/bin/env python3
"""Training and detection of a RetinaNet with ResNet-50: `frn bench detector` beside torchvision's, on the same weights,
images and boxes, in one run.

Times mean little on a shared machine, ratios taken side by side do: every round runs each of them. torchvision's own
resizing and normalising of images is left out, since `frn` does that while it loads them: both sides go from a batch of
images to losses, gradients and one step of SGD, and from a batch to boxes. torchvision finds them in eval mode under
inference_mode. It is measured in both memory layouts.

    python bench/detector_peers.py --frn build/bin/frn
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from peers import use_tcmalloc

CLASSES = 80
BATCH_NORM = "bn(eps=1e-5,momentum=0.9)+relu"  # torchvision's; it knows the images' statistics after one step
LAYOUTS = ["contiguous", "channels-last"]


class Batched:
    """Takes the place of torchvision's transform: the images are there, in their size."""

    def __init__(self, images):
        self.images = ImageList(images, [tuple(images.shape[-2:])] * len(images))

    def __call__(self, _images, targets=None):
        return self.images, targets

    def postprocess(self, result, _shapes, _original):
        return result


def torchvisions_name(name: str) -> str:
    name = name.replace("downsample.conv.", "downsample.0.").replace("downsample.norm.", "downsample.1.")
    return re.sub(r"\.norm(\d)\.", r".bn\1.", name)


class Peer:
    def __init__(self, tensors: dict, layout: str):
        memory_format = torch.channels_last if layout == "channels-last" else torch.contiguous_format
        images = tensors.pop("bench.images").contiguous(memory_format=memory_format)
        boxes = tensors.pop("bench.boxes")
        self.model = retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=CLASSES)
        self.model.load_state_dict({torchvisions_name(name): tensor for name, tensor in tensors.items()})
        self.model = self.model.to(memory_format=memory_format)
        del self.model.transform  # a module; nothing else may take its place
        self.model.transform = Batched(images)
        self.images = list(images)
        self.targets = [{"boxes": one[:, :4].contiguous(), "labels": one[:, 4].long()} for one in boxes]
        self.descent = torch.optim.SGD(self.model.parameters(), lr=1e-9, momentum=0.9, weight_decay=1e-4)

    def train(self) -> None:
        self.model.train()
        sum(self.model(self.images, self.targets).values()).backward()
        torch.nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])  # as frn's trainer does
        self.descent.step()
        self.descent.zero_grad()

    def detect(self) -> int:
        self.model.eval()
        with torch.inference_mode():
            return sum(len(one["scores"]) for one in self.model(self.images))


def seconds_of(body) -> float:
    start = time.perf_counter()
    body()
    return time.perf_counter() - start


def ours(options: argparse.Namespace, file: Path, layout: str, norm: str) -> dict:
    command = [options.frn, "bench", "detector", "--model", "retinanet-r50", "--style", "torchvision", "--norm", norm]
    command += ["--layout", layout, "--size", str(options.size), "--batch-per-device", str(options.batch_per_device)]
    command += ["--classes", str(CLASSES), "--threads", str(options.threads), "--rounds", "2", "--write", str(file), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frn", default="build/bin/frn", help="the program (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    for name, value, text in [
        ("--batch-per-device", 2, "images per step"),
        ("--size", 512, "height and width"),
        ("--threads", 2, "threads"),
        ("--rounds", 5, "two steps of each subject; the median counts"),
    ]:
        parser.add_argument(name, type=int, default=value, help=f"{text} (default: %(default)s)")
    return parser.parse_args()


def main(options: argparse.Namespace, allocator: str) -> None:
    torch.set_num_threads(options.threads)
    times: dict[str, dict[str, list[float]]] = {}

    def add(name: str, training: float, detecting: float) -> None:
        row = times.setdefault(name, {"training": [], "detecting": []})
        row["training"].append(training)
        row["detecting"].append(detecting)

    boxes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "detector.safetensors"
        ours(options, file, "channels-last", BATCH_NORM)
        peers = {f"torchvision, {layout}": Peer(load_file(file), layout) for layout in LAYOUTS}
        for name, peer in peers.items():
            boxes[name] = peer.detect()
            peer.train()
        for _ in range(options.rounds):
            for norm, title in [(BATCH_NORM, "frn, BN"), ("frn+tlu", "frn, FRN")]:
                for layout in LAYOUTS:
                    row = ours(options, file, layout, norm)
                    name = f"{title}, {layout}"
                    boxes[name] = row["detections"]
                    for training, detecting in zip(row["training_rounds"], row["detecting_rounds"], strict=True):
                        add(name, training, detecting)
            for name, peer in peers.items():
                for _ in range(2):
                    add(name, seconds_of(peer.train), seconds_of(peer.detect))
    images = options.batch_per_device
    rows = {
        name: {
            "training_images_per_second": images / statistics.median(row["training"]),
            "detecting_images_per_second": images / statistics.median(row["detecting"]),
            "boxes": boxes[name],
        }
        for name, row in times.items()
    }
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(
        f"bench detector_peers: RetinaNet with ResNet-50, {CLASSES} classes, {options.size} px, {images} images per step, "
        f"{options.threads} threads, torchvision {torchvision.__version__}, {allocator}"
    )
    best = {
        key: max(row[key] for name, row in rows.items() if name.startswith("torchvision"))
        for key in ("training_images_per_second", "detecting_images_per_second")
    }
    print(f"{'':<28}{'training, images/s':>20}{'ratio':>8}{'finding boxes, images/s':>26}{'ratio':>8}{'boxes':>8}")
    for name, row in rows.items():
        cells = "".join(f"{row[key]:>{width}.2f}{row[key] / best[key]:>8.2f}" for key, width in zip(best, (20, 26)))
        print(f"{name:<28}{cells}{row['boxes']:>8}")
    print("ratios: to the faster layout of torchvision")


if __name__ == "__main__":
    OPTIONS = parse_options()  # before the restart, so that a wrong option is told at once
    ALLOCATOR = use_tcmalloc()
    os.environ.setdefault("OMP_NUM_THREADS", str(OPTIONS.threads))

    import torch
    import torchvision
    from safetensors.torch import load_file
    from torchvision.models.detection import retinanet_resnet50_fpn
    from torchvision.models.detection.image_list import ImageList

    main(OPTIONS, ALLOCATOR)
