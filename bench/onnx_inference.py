#!/usr/bin/env python3
"""What FRN costs where a network is only used: ONNX Runtime on our ONNX files with FRN and with batch norm, and our own networks.

    build/bin/onnx_case must be built (make test builds it).
    .deps/venv/bin/python bench/onnx_inference.py --model resnetv1-50 --size 224 --threads 2

Batch norm's statistics are constants by then and go into the convolutions' weights (resnetv1-*, vgg*, inceptionv3), so it costs
nothing. FRN's statistics are those of each image: nothing of it can go into weights. All subjects take turns within a round, so
that a slow minute of the machine hits all of them alike; what counts are the ratios of the last column, medians over rounds.
"""

import argparse
import ctypes.util
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[1]
NORMS = {"frn": "frn+tlu", "bn": "bn+relu"}


class Network:
    """One of our networks in a process of its own, which also writes its ONNX file."""

    def __init__(self, options: argparse.Namespace, norm: str, folder: Path) -> None:
        allocator = ctypes.util.find_library("tcmalloc_minimal")  # the program `frn` brings it too
        words = ["--model", options.model, "--size", options.size, "--norm", norm, "--threads", options.threads, "--out", folder]
        self.process = subprocess.Popen(
            [str(ROOT / "build/bin/onnx_case"), *map(str, words), "--serve", "--channels-last"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ({"LD_PRELOAD": allocator} if allocator else {}),
        )
        self.seconds(1, 1)  # the file is there once it answers

    def seconds(self, samples: int, repeats: int) -> float:
        self.process.stdin.write(f"{samples} {repeats}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Session:
    """ONNX Runtime on a file, with all of its optimisations."""

    def __init__(self, options: argparse.Namespace, path: Path) -> None:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        # Its threads would spin while the others have their turn.
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        self.shape = self.session.get_inputs()[0].shape[1:]

    def seconds(self, samples: int, repeats: int) -> float:
        x = np.random.default_rng(0).standard_normal((samples, *self.shape), np.float32)
        begin = time.perf_counter()
        for _ in range(repeats):
            self.session.run(None, {"images": x})
        return (time.perf_counter() - begin) / repeats


def main(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folders = {key: Path(name) / key for key in NORMS}
        for folder in folders.values():
            folder.mkdir()
        networks = {key: Network(options, norm, folders[key]) for key, norm in NORMS.items()}
        subjects = {f"ONNX Runtime, {NORMS[key]}": Session(options, folders[key] / "model.onnx") for key in NORMS}
        subjects |= {f"frn itself, {NORMS[key]}": network for key, network in networks.items()}
        rows = []
        for samples in options.batch:
            rounds: dict[str, list[float]] = {title: [] for title in subjects}
            for _ in range(options.rounds + 1):  # the first one warms up
                for title, subject in subjects.items():
                    rounds[title].append(subject.seconds(samples, options.repeats))
            first = f"ONNX Runtime, {NORMS['bn']}"
            for title, seconds in rounds.items():
                ratio = statistics.median(a / b for a, b in zip(seconds[1:], rounds[first][1:], strict=True))
                rows.append({"subject": title, "batch": samples, "seconds": statistics.median(seconds[1:]), "to_bn": ratio})
        for network in networks.values():
            network.close()
    if options.json:
        print(json.dumps({"model": options.model, "size": options.size, "threads": options.threads, "rows": rows}, indent=1))
        return
    print(f"{options.model}, {options.size} px, {options.threads} threads, {options.rounds} rounds, onnxruntime {onnxruntime.__version__}")
    print(f"{'':28} {'batch':>5} {'ms/batch':>9} {'to ONNX Runtime with BN':>24}")
    for row in rows:
        print(f"{row['subject']:28} {row['batch']:5} {1e3 * row['seconds']:9.2f} {row['to_bn']:24.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnetv1-50")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    main(parser.parse_args())
