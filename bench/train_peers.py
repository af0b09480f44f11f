#!/usr/bin/env python3
"""Training steps of timm's ResNetV2 under batch norm, group norm, timm's FRN and no norm at all, in one run.

Times mean little on a shared machine, ratios taken side by side do: every round makes one step of each subject in turn.
`frn bench train` is the same for our networks, from C++.

    python bench/train_peers.py --layouts contiguous --rounds 3
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

from peers import comma_separated, use_tcmalloc

NORMS = ["frn+tlu", "bn+relu", "gn+relu", "none+relu"]  # ratios are to the first that is asked for
LAYOUTS = ["contiguous", "channels-last"]
# So small that the numbers, and with them the time of denormals or infinities, stay as at the start.
LEARNING_RATE = 1e-6


def relu_alone(_channels: int, apply_act: bool = True, **_settings):
    return nn.ReLU() if apply_act else nn.Identity()  # not in place: the shortcut needs what comes in


def norm_layer_of(norm: str):
    return {
        "frn+tlu": FilterResponseNormTlu2d,
        "bn+relu": BatchNormAct2d,
        "gn+relu": GroupNormAct,
        "none+relu": relu_alone,
    }[norm]


class Subject:
    """A network with its optimiser, which trains on the same random batch again and again."""

    def __init__(self, options: argparse.Namespace, norm: str, layout: str):
        torch.manual_seed(0)
        memory_format = torch.channels_last if layout == "channels-last" else torch.contiguous_format
        self.model = timm.create_model(options.model, num_classes=options.classes, norm_layer=norm_layer_of(norm))
        self.model = self.model.to(memory_format=memory_format).train()
        shape = (options.batch_per_device, 3, options.size, options.size)
        self.x = torch.randn(shape).contiguous(memory_format=memory_format)
        self.target = torch.randint(options.classes, shape[:1])
        self.descent = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE, momentum=0.9)

    def step(self) -> None:
        F.cross_entropy(self.model(self.x), self.target).backward()
        self.descent.step()
        self.descent.zero_grad()

    def seconds(self) -> float:
        start = time.perf_counter()
        self.step()
        return time.perf_counter() - start

    def peak_megabytes(self) -> float:
        """What a step allocates beyond the weights, gradients included, at its highest point."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            self.step()
        # Each allocation is an event of as many bytes, each release one of as many less.
        events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
        live = peak = 0
        for event in sorted(events, key=lambda e: e.start_ns()):
            live += event.nbytes()
            peak = max(peak, live)
        return peak / 1e6


def measure(options: argparse.Namespace, layout: str) -> list[dict]:
    subjects = {norm: Subject(options, norm, layout) for norm in options.norms}
    for subject in subjects.values():
        subject.step()  # warms caches and the allocator, and makes the optimiser's memory
    peaks = {norm: subject.peak_megabytes() for norm, subject in subjects.items()}
    rounds = [[subject.seconds() for subject in subjects.values()] for _ in range(options.rounds)]
    medians = [statistics.median(column) for column in zip(*rounds)]
    return [
        {
            "norm": norm,
            "layout": layout,
            "images_per_second": options.batch_per_device / seconds,
            "peak_megabytes": peaks[norm],
        }
        for norm, seconds in zip(subjects, medians)
    ]


def print_rows(rows: list[dict]) -> None:
    print(f"\n{rows[0]['layout']}\n{'norm':<22}{'images/s':>10}{'ratio':>12}{'peak of a step, MB':>20}")
    for row in rows:
        speed, ratio = row["images_per_second"], row["images_per_second"] / rows[0]["images_per_second"]
        print(f"{row['norm']:<22}{speed:>10.1f}{ratio:>12.2f}{row['peak_megabytes']:>20.0f}", flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--model", default="resnetv2_50", help="a ResNetV2 of timm (default: %(default)s)")
    parser.add_argument("--norms", type=comma_separated(NORMS), default=NORMS, help=f"of {','.join(NORMS)}")
    parser.add_argument("--layouts", type=comma_separated(LAYOUTS), default=LAYOUTS, help=f"of {','.join(LAYOUTS)}")
    parser.add_argument(
        "--allocator",
        choices=["tcmalloc", "system"],
        default="tcmalloc",
        help="that of frn, or the one Python comes with (default: %(default)s)",
    )
    for name, value, text in [
        ("--batch-per-device", 16, "images per step"),
        ("--size", 96, "height and width"),
        ("--classes", 1000, "classes"),
        ("--threads", 2, "threads"),
        ("--rounds", 7, "steps per norm; the median counts"),
    ]:
        parser.add_argument(name, type=int, default=value, help=f"{text} (default: %(default)s)")
    return parser.parse_args()


def main(options: argparse.Namespace, allocator: str) -> None:
    torch.set_num_threads(options.threads)
    if not options.json:
        print(
            f"bench train_peers: timm {timm.__version__} {options.model}, {options.size} px, "
            f"{options.batch_per_device} images per step, float32, "
            f"{options.threads} thread{'' if options.threads == 1 else 's'}, "
            f"torch {torch.__version__}, {allocator}"
        )
    every = []
    for layout in options.layouts:
        rows = measure(options, layout)
        if not options.json:
            print_rows(rows)
        every += rows
    if options.json:
        settings = {key: getattr(options, key) for key in ("model", "size", "batch_per_device", "threads", "rounds")}
        versions = {"torch": torch.__version__, "timm": timm.__version__}
        header = {"command": "bench train_peers", **settings, "allocator": allocator, **versions}
        print(json.dumps({**header, "rows": every}, indent=2))


if __name__ == "__main__":
    OPTIONS = parse_options()  # before the restart, so that a wrong option is told at once
    ALLOCATOR = use_tcmalloc() if OPTIONS.allocator == "tcmalloc" else "the system's malloc"
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler tells of its starts, and of GPUs it did not find

    import timm
    import torch
    import torch.nn.functional as F
    from timm.layers import BatchNormAct2d, FilterResponseNormTlu2d, GroupNormAct
    from torch import nn

    main(OPTIONS, ALLOCATOR)
