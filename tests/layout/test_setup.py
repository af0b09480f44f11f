"""tools/setup.sh says in one sentence what is too old, before anything is fetched or compiled."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Package, header, and what an old one says of its version.
OLD = [
    ("libhwy-dev", "hwy/highway.h", "#define HWY_MAJOR 0"),
    ("libtomlplusplus-dev", "toml++/toml.h", "#define TOML_LIB_MAJOR 2"),
    ("libfmt-dev", "fmt/core.h", "#define FMT_VERSION 70103"),
]


def set_up(folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """In a copy of tools/ alone, so that nothing of this checkout is touched."""
    shutil.copytree(ROOT / "tools", folder / "tools", dirs_exist_ok=True)
    command = ["bash", "tools/setup.sh", "run"]
    # A Python that cannot be: set-up ends there at the latest, and fetches nothing.
    environment = {**os.environ, "FRN_PYTHON": str(folder / "no-python"), **environment}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=120)


@pytest.mark.parametrize("package, header, line", OLD, ids=[package for package, _, _ in OLD])
def test_a_library_that_is_too_old_is_named(tmp_path, package, header, line):
    path = tmp_path / "include" / header
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    ended = set_up(tmp_path, CPLUS_INCLUDE_PATH=str(tmp_path / "include"))
    assert ended.returncode != 0
    assert f"setup: {package} is too old here: <{header}> must have " in ended.stderr, ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


def test_probes_ask_the_compiler_that_will_compile(tmp_path):
    """A compiler of the user's own has its own headers."""
    log = tmp_path / "asked"
    compiler = tmp_path / "my-compiler"
    compiler.write_text(f'#!/bin/sh\necho "$@" >>"{log}"\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    ended = set_up(tmp_path, CXX=str(compiler))
    assert "no-python is not a Python" in ended.stderr, ended.stderr
    assert log.read_text().count("-E") > 10
