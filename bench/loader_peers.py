#!/usr/bin/env python3
"""From JPEG files to 224 px floats on one core: `frn bench loader` beside torchvision, with PIL and with its own decoder.

Every round runs each of them once on the same files, so that a slow moment of the machine hits all.

    python bench/loader_peers.py imagenette/train --frn build/bin/frn
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="an image folder: train/CLASS/*.jpg")
    parser.add_argument("--frn", default="build/bin/frn", help="the program (default: %(default)s)")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--resized", metavar="WxH", help="first write the files anew at this size (640x480: a photograph's)")
    parser.add_argument("--images", type=int, default=200, help="per round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="the median counts (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = parse_options()
    os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision.io import ImageReadMode, decode_jpeg, read_file  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LAST = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]


def transforms(size: int) -> dict:
    crop = [v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()]
    colours = [v2.ColorJitter(brightness=32 / 255, saturation=0.5, hue=0.2, contrast=0.5)]
    whole = [v2.Resize((size, size), antialias=True)]
    return {
        "crop, flip": v2.Compose(crop + LAST),
        "crop, flip, colours": v2.Compose(crop + colours + LAST),
        "whole image": v2.Compose(whole + LAST),
    }


def with_pil(path: str, transform) -> torch.Tensor:
    """Crop, flip and resize as PIL does them, then to a tensor: torchvision's classic way."""
    *on_image, to_float, normalise = transform.transforms
    with Image.open(path) as image:
        picture = image.convert("RGB")
    for step in on_image:
        picture = step(picture)
    return normalise(to_float(v2.functional.to_image(picture)))


def with_torchvision(path: str, transform) -> torch.Tensor:
    return transform(decode_jpeg(read_file(path), mode=ImageReadMode.RGB))


def seconds(read, transform, paths: list[str]) -> float:
    start = time.perf_counter()
    for path in paths:
        read(path, transform)
    return time.perf_counter() - start


def ours(options: argparse.Namespace) -> dict[str, float]:
    command = [options.frn, "bench", "loader", "--data", f"imagefolder:{options.folder}", "--size", str(options.size)]
    command += ["--images", str(options.images), "--rounds", "1", "--json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {row["name"]: row["images_per_second"] for row in answer["rows"]}


def write_resized(options: argparse.Namespace, folder: Path) -> Path:
    """A class of files of the size that was asked for. The program wants a validation set too: the same."""
    width, height = (int(word) for word in options.resized.split("x"))
    sources = sorted((options.folder / "train").glob("*/*.[jJ]*"))[: options.images]
    for part in ("train", "val"):
        (folder / part / "all").mkdir(parents=True)
    for i, source in enumerate(sources):
        with Image.open(source) as image:
            picture = image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)
        for part in ("train", "val"):
            picture.save(folder / part / "all" / f"{i:04}.jpg", quality=92)
    return folder


def main(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    if options.resized is None:
        return compare(options)
    with tempfile.TemporaryDirectory() as work:
        options.folder = write_resized(options, Path(work))
        compare(options)


def compare(options: argparse.Namespace) -> None:
    files = sorted(str(p) for p in (options.folder / "train").glob("*/*") if p.suffix.lower() in {".jpg", ".jpeg"})
    count = min(options.images, len(files))
    paths = [files[i * len(files) // count] for i in range(count)]
    subjects = {"torchvision, PIL": with_pil, "torchvision, own decoder": with_torchvision}
    speeds: dict[tuple[str, str], list[float]] = {}
    for _ in range(options.rounds):
        for name, speed in ours(options).items():
            speeds.setdefault((name, "frn"), []).append(speed)
        for name, transform in transforms(options.size).items():
            for subject, read in subjects.items():
                speeds.setdefault((name, subject), []).append(count / seconds(read, transform, paths))
    medians = {key: statistics.median(values) for key, values in speeds.items()}
    if options.json:
        print(json.dumps([{"work": w, "reader": r, "images_per_second": v} for (w, r), v in medians.items()], indent=2))
        return
    print(f"{count} JPEG files to {options.size} px floats, one core, images/s (ratio of frn to it)")
    readers = ["frn", *subjects]
    print(f"{'':<22}" + "".join(f"{reader:>28}" for reader in readers))
    for work in transforms(options.size):
        cells = [f"{medians[work, r]:.0f} ({medians[work, 'frn'] / medians[work, r]:.2f})" for r in readers]
        print(f"{work:<22}" + "".join(f"{cell:>28}" for cell in cells))


if __name__ == "__main__":
    main(OPTIONS)
