#!/usr/bin/env python3
"""How much of two processes' speed survives that they train as one: `frn train --processes 2`, one thread each, beside

  alone    one process with one thread, nothing beside it, twice its images per second being the ideal
  apart    two processes with one thread each at the same time, which share memory and caches but no gradients

What lies between `alone` and `apart` is the machine's; between `apart` and `together` the reduction's part that backward
does not hide. Rounds take turns, so that a slow moment of the machine hits all.

    python bench/scaling.py --frn build/bin/frn --model resnetv2-50 --size 96
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frn", default="build/bin/frn", help="the program (default: %(default)s)")
    parser.add_argument("--model", default="resnetv2-50", help="(default: %(default)s)")
    parser.add_argument("--norm", default="frn+tlu", help="(default: %(default)s)")
    parser.add_argument("--size", type=int, default=96, help="height and width (default: %(default)s)")
    parser.add_argument("--batch-per-device", type=int, default=16, help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=12, help="per run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="the median counts (default: %(default)s)")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def command(options: argparse.Namespace, folder: Path, *extra: str) -> list[str]:
    # One line of the log per step; the loader is kept out of the way; no validation to speak of.
    words = [options.frn, "train", "--out", str(folder), "--model", options.model, "--norm", options.norm]
    words += ["--data", f"random:{options.size}x3x100", "--image-size", str(options.size), "--threads", "1"]
    words += ["--batch-per-device", str(options.batch_per_device), "--steps", str(options.steps + 1)]
    words += ["--max-steps", str(options.steps), "--validate-every", "1000000", "--log-every", "1", "--lr-base", "0"]
    return words + ["--workers", "0", *extra]


def images_per_second(folder: Path) -> float:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    speeds = [line["images_per_second"] for line in lines if line["event"] == "train"]
    return statistics.median(speeds[2:])  # the first steps warm caches and the allocator


def run_all(commands: list[list[str]]) -> None:
    processes = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for c in commands]
    for process in processes:
        errors = process.communicate()[1]
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(process.args)}: {errors.strip()}")


def one_round(options: argparse.Namespace, work: Path) -> dict[str, float]:
    run_all([command(options, work / "alone")])
    run_all([command(options, work / "apart-0"), command(options, work / "apart-1")])
    run_all([command(options, work / "together", "--processes", "2")])
    return {
        "alone": 2 * images_per_second(work / "alone"),
        "apart": images_per_second(work / "apart-0") + images_per_second(work / "apart-1"),
        "together": images_per_second(work / "together"),
    }


def main() -> None:
    options = parse_options()
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as work:
            rounds.append(one_round(options, Path(work)))
    speed = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
    if options.json:
        print(json.dumps(speed, indent=2))
        return
    print(f"{options.model}, {options.norm}, {options.size} px, {options.batch_per_device} images per process, images/s")
    print(f"  2 x one process alone         {speed['alone']:8.1f}   1.00")
    print(f"  two processes apart           {speed['apart']:8.1f}   {speed['apart'] / speed['alone']:.2f}")
    print(f"  two processes that reduce     {speed['together']:8.1f}   {speed['together'] / speed['alone']:.2f}")
    hidden = speed["together"] / speed["apart"]
    print(f"of the speed apart, {100 * hidden:.0f} % is left when gradients are reduced")


if __name__ == "__main__":
    main()
