#!/usr/bin/env python3
"""The fused layer beside the layers people use from Python, in one run: timm's FRN, the paper's listing under
torch.compile, and batch norm with ReLU, on the maps of ResNetV2-50.

Times mean little on a shared machine, ratios taken side by side do: every round measures all subjects in turn, and the
unit is a copy of the same bytes. `frn bench kernels` is the same from C++.

    python bench/peers.py --quick
"""

from __future__ import annotations

import argparse
import ctypes.util
import json
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 5
QUICK_MAPS = [(32, 64, 56, 56), (32, 256, 28, 28), (32, 256, 14, 14), (32, 512, 7, 7)]
ALLOCATOR_VARIABLE = "FRN_BENCH_ALLOCATOR"


def use_tcmalloc() -> str:
    """Starts the program again under tcmalloc, where there is one, and says which allocator it runs on.

    glibc gives large blocks back to the kernel and pays page faults for them on every step; the program `frn` links
    tcmalloc and keeps freed memory, so a comparison must run on the same.
    """
    if chosen := os.environ.get(ALLOCATOR_VARIABLE):
        return chosen
    library = ctypes.util.find_library("tcmalloc_minimal")
    if library is None:
        return "glibc malloc (no libtcmalloc_minimal found)"
    preload = " ".join(filter(None, [library, os.environ.get("LD_PRELOAD")]))
    os.environ.update(
        {"LD_PRELOAD": preload, "TCMALLOC_RELEASE_RATE": "0", ALLOCATOR_VARIABLE: "tcmalloc, freed memory kept"}
    )
    os.execv(sys.executable, [sys.executable, *sys.argv])


@dataclass
class Subject:
    name: str
    forward: Callable
    parameters: list = field(default_factory=list)


def paper_listing(x, gamma, beta, tau, eps=1e-6):
    """Listing 1 of the paper, for NCHW."""
    nu2 = x.square().mean((2, 3), keepdim=True)
    x = x * torch.rsqrt(nu2 + eps)
    return torch.maximum(gamma.view(1, -1, 1, 1) * x + beta.view(1, -1, 1, 1), tau.view(1, -1, 1, 1))


def make_subjects(channels: int, dtype) -> list[Subject]:
    """Parameters are float32 for 16-bit x, as under autocast; the listing alone needs them in x's type."""

    def parameter(value, kind=torch.float32):
        return torch.full((channels,), value, dtype=kind, requires_grad=True)

    gamma, beta, tau = parameter(1.0), parameter(0.0), parameter(0.0)
    narrow = [parameter(value, dtype) for value in (1.0, 0.0, 0.0)]
    timm_layer = FilterResponseNormTlu2d(channels)
    bn = torch.nn.BatchNorm2d(channels)
    torch._dynamo.reset()  # every map is compiled for its own shape
    compiled = torch.compile(paper_listing, dynamic=False, fullgraph=True)
    return [
        Subject("frn+tlu", lambda x: frn.frn_tlu(x, gamma, beta, tau), [gamma, beta, tau]),
        Subject("timm", timm_layer, list(timm_layer.parameters())),
        Subject("compiled", lambda x: compiled(x, *narrow), narrow),
        Subject("bn+relu", lambda x: F.relu(bn(x)), list(bn.parameters())),
    ]


def forward_only(subject: Subject, x) -> None:
    with torch.no_grad():
        subject.forward(x)


def forward_and_backward(subject: Subject, x, dz) -> None:
    torch.autograd.grad(subject.forward(x), [x, *subject.parameters], dz)


def bytes_kept(subject: Subject, x) -> int:
    """Bytes that stay alive between forward and backward, x included, parameters not."""
    kept = {}
    own = {p.untyped_storage().data_ptr() for p in subject.parameters}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        z = subject.forward(x)
    del z
    return sum(kept.values())


def seconds_of(body: Callable, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        body()
    if OPTIONS.device == "cuda":
        torch.cuda.synchronize()  # a GPU works on while the processor goes on
    return (time.perf_counter() - start) / repeats


def measure(bodies: list[Callable], seconds: float) -> list[float]:
    """The median over rounds of each body's time; rounds interleave the bodies so that a slow moment hits them all."""
    repeats = []
    for body in bodies:
        body()  # warms caches and the allocator, and compiles
        body()
        repeats.append(min(1000, max(1, int(seconds / ROUNDS / seconds_of(body, 1)))))
    times = [[seconds_of(body, count) for body, count in zip(bodies, repeats)] for _ in range(ROUNDS)]
    return [statistics.median(column) for column in zip(*times)]


def measure_map(shape, dtype, layout: str, threads: int, seconds: float) -> dict:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    memory_format = torch.channels_last if layout == "channels-last" else torch.contiguous_format
    x = torch.randn(shape).to(dtype).contiguous(memory_format=memory_format).requires_grad_()
    dz = torch.randn_like(x)
    source, target = x.detach(), torch.empty_like(x)
    subjects = make_subjects(shape[1], dtype)
    bodies = [lambda: target.copy_(source)]
    for subject in subjects:
        bodies.append(lambda s=subject: forward_only(s, x))
        bodies.append(lambda s=subject: forward_and_backward(s, x, dz))
    copy, *rest = measure(bodies, seconds)
    return {
        "type": str(dtype).removeprefix("torch."),
        "layout": layout,
        "threads": threads,
        "map": list(shape),
        "copy_seconds": copy,
        "subjects": {
            subject.name: {
                "forward_copies": rest[2 * i] / copy,
                "forward_backward_copies": rest[2 * i + 1] / copy,
                "kept_activations": bytes_kept(subject, x) / (x.numel() * x.element_size()),
            }
            for i, subject in enumerate(subjects)
        },
    }


def cell(forward: float, both: float) -> str:
    return f"{f'{forward:.2f} | {both:.2f}':>16}"


def print_heading(row: dict) -> None:
    plural = "" if row["threads"] == 1 else "s"
    print(
        f"\n{row['type']} {row['layout']}, {row['threads']} thread{plural}: "
        "time in copies of the same bytes, forward | forward and backward"
    )
    print(f"{'map':<16}{'copy ms':>9}" + "".join(f"{name:>16}" for name in row["subjects"]))


def print_row(row: dict) -> None:
    cells = (cell(s["forward_copies"], s["forward_backward_copies"]) for s in row["subjects"].values())
    print(f"{'x'.join(map(str, row['map'])):<16}{row['copy_seconds'] * 1e3:>9.2f}" + "".join(cells), flush=True)


def mean_of(rows: list[dict], name: str, key: str) -> float:
    return math.exp(statistics.fmean(math.log(row["subjects"][name][key]) for row in rows))


def print_means(rows: list[dict]) -> None:
    """Geometric means over maps of 14x14 and more, and over the smaller ones."""
    groups = {
        "mean, 14x14 and more": [row for row in rows if row["map"][3] >= 14],
        "mean, below 14x14": [row for row in rows if row["map"][3] < 14],
    }
    for title, part in groups.items():
        if part:
            cells = (
                cell(mean_of(part, name, "forward_copies"), mean_of(part, name, "forward_backward_copies"))
                for name in part[0]["subjects"]
            )
            print(f"{title:<25}" + "".join(cells))


def print_kept(rows: list[dict]) -> None:
    kept = (f"{name} {mean_of(rows, name, 'kept_activations'):.2f}" for name in rows[0]["subjects"])
    print("\nKept for backward, in activations (x itself is one): " + ", ".join(kept))


def read_maps() -> list[tuple[int, ...]]:
    lines = (ROOT / "tests" / "cases" / "resnetv2-50-224.txt").read_text().splitlines()
    return [tuple(map(int, line.split())) for line in lines if line and not line.startswith("#")]


def comma_separated(choices: list[str] | None = None, kind=str):
    def parse(text: str) -> list:
        values = [kind(part) for part in text.split(",")]
        for value in values:
            if choices and value not in choices:
                raise argparse.ArgumentTypeError(f"must be of {', '.join(choices)} but is '{value}'")
        return values

    return parse


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--quick", action="store_true", help="four maps in float32 only")
    parser.add_argument("--types", type=comma_separated(["float32", "bfloat16"]), default=["float32", "bfloat16"])
    parser.add_argument(
        "--layouts", type=comma_separated(["contiguous", "channels-last"]), default=["contiguous", "channels-last"]
    )
    parser.add_argument("--threads", type=comma_separated(kind=int), default=[1, 2], help="thread counts, e.g. 1,2")
    parser.add_argument("--map", type=int, nargs=4, metavar=tuple("NCHW"), help="one map instead of the network's")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where to measure")
    parser.add_argument("--seconds", type=float, default=0.15, help="time per subject and map")
    return parser.parse_args()


def main(options: argparse.Namespace, allocator: str) -> None:
    torch.set_default_device(options.device)
    if options.quick:
        options.types, options.threads = ["float32"], [torch.get_num_threads()]
    if options.device == "cuda":
        options.threads = [1]
    maps = [tuple(options.map)] if options.map else QUICK_MAPS if options.quick else read_maps()
    frn.act(torch.zeros(1, 1), activation="relu")
    versions = {"torch": torch.__version__, "timm": timm.__version__}
    header = {"command": "bench peers", "implementation": frn.last_implementation(), "allocator": allocator, **versions}
    if not options.json:
        print("bench peers: " + ", ".join(f"{key} {value}" for key, value in list(header.items())[1:]))
    every = []
    for type_name in options.types:
        for layout in options.layouts:
            for threads in options.threads:
                rows = []
                for shape in maps:
                    rows.append(measure_map(shape, getattr(torch, type_name), layout, threads, options.seconds))
                    if not options.json:
                        if len(rows) == 1:
                            print_heading(rows[0])
                        print_row(rows[-1])
                if not options.json:
                    print_means(rows)
                every += rows
    if options.json:
        print(json.dumps({**header, "rows": every}, indent=2))
    else:
        print_kept(every)


if __name__ == "__main__":
    OPTIONS = parse_options()  # before the restart, so that a wrong option is told at once
    ALLOCATOR = use_tcmalloc()

    import timm
    import torch
    import torch.nn.functional as F
    from timm.layers.filter_response_norm import FilterResponseNormTlu2d

    sys.path.insert(0, str(ROOT / "python"))
    import frn

    main(OPTIONS, ALLOCATOR)
