#!/usr/bin/env python3
"""COCO's evaluation of 5,000 images with 100 detections each: `frn bench coco-ap` beside pycocotools and faster-coco-eval.

Every round runs each of them once on the same files, so that a slow moment of the machine hits all. All must give the same
twelve numbers.

    pip install pycocotools faster-coco-eval
    python bench/coco_peers.py --frn build/bin/frn
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import faster_coco_eval
import numpy as np
import pycocotools.coco
import pycocotools.cocoeval

KEYS = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]
PEERS = {
    "pycocotools": (pycocotools.coco.COCO, pycocotools.cocoeval.COCOeval),
    "faster-coco-eval": (faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster),
}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frn", default="build/bin/frn", help="the program (default: %(default)s)")
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3, help="the median counts (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def run_json(*command: object) -> dict:
    return json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)


def ours(options: argparse.Namespace, folder: Path) -> dict[str, tuple[float, float]]:
    """Seconds of reading and of evaluating, with one thread and with all."""
    command = [options.frn, "bench", "coco-ap", "--images", options.images, "--rounds", 1, "--write", folder, "--json"]
    seconds = {row["name"]: row["seconds"] for row in run_json(*command)["rows"]}
    reading = seconds["read GT.json"] + seconds["read DETECTIONS.json"]
    return {name.replace("evaluate", "frn"): (reading, s) for name, s in seconds.items() if name.startswith("evaluate")}


def peer(name: str, folder: Path) -> tuple[float, float, np.ndarray]:
    files, evaluator = PEERS[name]
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        truths = files(str(folder / "GT.json"))
        found = truths.loadRes(str(folder / "DETECTIONS.json"))
        read = time.perf_counter()
        evaluation = evaluator(truths, found, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        end = time.perf_counter()
    return read - start, end - read, np.asarray(evaluation.stats[:12])


def measure(options: argparse.Namespace, folder: Path) -> dict[str, list[tuple[float, float]]]:
    times: dict[str, list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        for name, seconds in ours(options, folder).items():
            times.setdefault(name, []).append(seconds)
        answer = run_json(options.frn, "metrics", "coco", folder / "GT.json", folder / "DETECTIONS.json", "--json")
        for name in PEERS:
            *seconds, numbers = peer(name, folder)
            np.testing.assert_allclose(numbers, [answer[key] for key in KEYS], rtol=0, atol=1e-12, err_msg=name)
            times.setdefault(name, []).append((seconds[0], seconds[1]))
    return times


def main(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        times = measure(options, Path(folder))
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in times.items()}
    if options.json:
        rows = [{"name": name, "read_seconds": read, "evaluate_seconds": run} for name, (read, run) in medians.items()]
        print(json.dumps(rows, indent=2))
        return
    first = next(iter(medians.values()))
    print(f"{options.images} images, seconds (ratio to the first row); all give the same twelve numbers to 1e-12")
    print(f"{'':<22}{'read both files':>20}{'evaluate':>20}{'together':>20}")
    for name, (read, run) in medians.items():
        cells = [(read, first[0]), (run, first[1]), (read + run, sum(first))]
        print(f"{name:<22}" + "".join(f"{f'{value:.2f} ({value / of:.1f})':>20}" for value, of in cells))


if __name__ == "__main__":
    main(parse_options())
