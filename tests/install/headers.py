#!/usr/bin/env python3
"""Every header that `cmake --install` copies compiles by itself, and includes no header of ours that is not copied.

    python tests/install/headers.py CMAKE BUILD_FOLDER COMPILER LIBTORCH_INCLUDE

Headers that need no torch are compiled without it in reach. The others are compiled together, and each by itself with
FRN_ALL_CASES=1: torch takes twenty seconds, and five in every header although it is then precompiled. Nothing has to be
built before. Headers that compiled with this compiler and LibTorch are not compiled again: the build folder keeps a checksum
of all three.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CMAKE, BUILD, COMPILER, TORCH = "", "", "", Path()
OURS = re.compile(r'^\s*#\s*include\s*[<"](frn/[^>"]+)[>"]', re.MULTILINE)
OF_TORCH = re.compile(r"^\s*#\s*include\s*<(torch|ATen|c10)/", re.MULTILINE)
TORCH_HEADERS = ["torch/nn/cloneable.h", "torch/nn/pimpl.h", "torch/nn/module.h", "ATen/core/Tensor.h"]
# What nobody outside may come to depend on.
PRIVATE = ["core/safetensors_header.h", "data/kinds.h", "data/pixel_loops.h", "dist/engines.h", "metrics/coco_groups.h", "train/loop.h", "train/update_loops.h"]


def run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr or "it failed"


class Headers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="frn's headers ")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.prefix = Path(cls.folder.name)
        wrong = run(CMAKE, "--install", BUILD, "--prefix", cls.prefix, "--component", "headers")
        assert not wrong, wrong
        cls.include = cls.prefix / "include"
        cls.texts = {str(p.relative_to(cls.include)): p.read_text() for p in sorted(cls.include.rglob("*.h"))}

        told = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout
        told += (TORCH / "torch/csrc/api/include/torch/version.h").read_text() + str(sorted(cls.texts.items()))
        cls.checksum = hashlib.sha256(told.encode()).hexdigest()
        cls.kept = Path(BUILD) / "tests" / "headers-that-compiled.txt"
        known = cls.kept.exists() and cls.kept.read_text() == cls.checksum
        cls.compiled_before = known and not os.environ.get("FRN_ALL_CASES")
        cls.compiled = set()

    @classmethod
    def tearDownClass(cls):
        if cls.compiled == set(cls.texts):
            cls.kept.parent.mkdir(exist_ok=True)
            cls.kept.write_text(cls.checksum)

    def needs_torch(self, name: str) -> bool:
        text = self.texts[name]
        return bool(OF_TORCH.search(text)) or any(self.needs_torch(other) for other in OURS.findall(text))

    def compile(self, name: str, *options: object) -> str:
        source = self.prefix / "alone.cpp"
        source.write_text(f"#include <{name}>\n#include <{name}>\n")
        return run(COMPILER, "-std=c++20", "-fsyntax-only", "-I", self.include, *options, source)

    def test_what_is_needed_is_there_and_what_is_private_is_not(self):
        for name in ["frn/version.h", "frn/core/error.h", "frn/ops/ops.h", "frn/nn/norm_act.h", "frn/models/model.h"]:
            self.assertIn(name, self.texts)
        for name in PRIVATE:
            self.assertNotIn(f"frn/{name}", self.texts)
        self.assertEqual({name.split("/")[1] for name in self.texts} & {"cli", "fetch", "kernels", "report"}, set())

    def test_they_include_installed_ones_alone(self):
        for name, text in self.texts.items():
            for other in OURS.findall(text):
                self.assertIn(other, self.texts, f"{name} is installed and includes {other}, which is not")

    def test_each_compiles_by_itself(self):
        if self.compiled_before:
            return
        for name in self.texts:
            if self.needs_torch(name):
                continue
            with self.subTest(name):
                wrong = self.compile(name)
                self.assertFalse(wrong, wrong)
                self.compiled.add(name)

    def test_those_with_torch_compile(self):
        if self.compiled_before:
            return
        torch = ["-isystem", TORCH, "-isystem", TORCH / "torch/csrc/api/include"]
        names = [name for name in self.texts if self.needs_torch(name)]
        common = self.prefix / "torch.h"
        if not os.environ.get("FRN_ALL_CASES"):
            common.write_text("".join(f"#include <{name}>\n" for name in names))
            wrong = run(COMPILER, "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", self.include, *torch, common)
            self.assertFalse(wrong, wrong)
            self.compiled.update(names)
            return
        common.write_text("".join(f"#include <{name}>\n" for name in TORCH_HEADERS))
        wrong = run(COMPILER, "-std=c++20", "-x", "c++-header", *torch, common, "-o", f"{common}.gch")
        self.assertFalse(wrong, wrong)
        for name in names:
            with self.subTest(name):
                wrong = self.compile(name, *torch, "-include", common)
                self.assertFalse(wrong, wrong)
                self.compiled.add(name)


if __name__ == "__main__":
    CMAKE, BUILD, COMPILER, TORCH = *sys.argv[1:4], Path(sys.argv[4])
    unittest.main(argv=sys.argv[:1])
