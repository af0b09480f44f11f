#!/usr/bin/env python3
"""From scores of 130,944 anchors x 80 classes to an image's 100 detections: `frn bench nms` beside torchvision, one thread.

Every round runs each of them once on the same boxes and scores. torchvision's batched_nms takes every pair above the
threshold, as ours does, and must give the same detections; its RetinaNet first cuts to the best 1,000 of each level, which is
not exact.

    python bench/nms_peers.py --frn build/bin/frn
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
    parser.add_argument("--frn", default="build/bin/frn", help="the program (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="the median counts (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = parse_options()
    os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torchvision.ops import batched_nms  # noqa: E402

SCORE, IOU, MOST = 0.05, 0.5, 100
# Anchors of the levels P3 to P7 of an image of 1024 px.
LEVELS = [6 * (1024 // stride) ** 2 for stride in (8, 16, 32, 64, 128)]


def all_pairs(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    anchor, category = torch.where(scores > SCORE)
    kept = batched_nms(boxes[anchor], scores[anchor, category], category, IOU)[:MOST]
    return torch.stack([anchor[kept], category[kept]], dim=1)


def best_of_levels(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """As torchvision.models.detection.RetinaNet.postprocess_detections."""
    anchors, chosen = [], []
    start = 0
    for count, level in zip(LEVELS, scores.split(LEVELS)):
        flat = level.flatten()
        above = torch.where(flat > SCORE)[0]
        best = above[flat[above].topk(min(1000, len(above)))[1]]
        anchors.append(start + torch.div(best, scores.shape[1], rounding_mode="floor"))
        chosen.append(best % scores.shape[1])
        start += count
    anchor, category = torch.cat(anchors), torch.cat(chosen)
    kept = batched_nms(boxes[anchor], scores[anchor, category], category, IOU)[:MOST]
    return torch.stack([anchor[kept], category[kept]], dim=1)


PEERS = {"torchvision, all pairs": all_pairs, "torchvision, best 1,000 of each level": best_of_levels}


def ours(options: argparse.Namespace, file: Path) -> list[dict]:
    command = [options.frn, "bench", "nms", "--rounds", "1", "--write", str(file), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"]


def main(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "image.safetensors"
        for _ in range(options.rounds):
            rows = ours(options, file)
            for row in rows:
                name = f"frn, scores above {row['score_threshold']:.2g} ({row['pairs']} pairs)"
                seconds.setdefault(name, []).append(row["seconds"])
            tensors = load_file(file)
            for name, detect in PEERS.items():
                start = time.perf_counter()
                found = detect(tensors["boxes"], tensors["scores"])
                seconds.setdefault(name, []).append(time.perf_counter() - start)
                if detect is all_pairs:
                    assert set(map(tuple, found.tolist())) == set(map(tuple, rows[0]["detections"])), "they differ"
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    if options.json:
        print(json.dumps(medians, indent=2))
        return
    first = next(iter(medians.values()))
    print("milliseconds, one thread (ratio to the first row)")
    for name, value in medians.items():
        print(f"{name:<48}{value * 1e3:>10.2f} ({value / first:.1f})")


if __name__ == "__main__":
    main(OPTIONS)
