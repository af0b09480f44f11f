"""The Python package's annotations agree with its code, as a user's type checker sees them (py.typed)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_mypy_finds_nothing():
    # With what it knows of PyTorch's annotations from the last time: reading those is nearly all of its work.
    cache = ROOT / "build" / "mypy"
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", str(cache)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no issues found" in done.stdout, done.stdout
