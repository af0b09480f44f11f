"""The console script `frn`: becomes the program that the package frn carries.

Apart from it, because importing frn imports torch, which takes seconds.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[1]
_PROGRAM = _PACKAGES / "frn" / "bin" / "frn"


def _folder_of_torch() -> Path | None:
    """Where torch's libraries are, without the seconds that an import takes."""
    spec = importlib.util.find_spec("torch")
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) / "lib" if places else None


def main() -> int:
    if not _PROGRAM.is_file():
        print(
            "frn: this package was installed without the program; run `pip install .` without "
            "-C cmake.define.FRN_BUILD_PROGRAM=OFF in a checkout to have both",
            file=sys.stderr,
        )
        return 1
    torch = _folder_of_torch()
    if torch is None:
        print("frn: the program needs PyTorch's libraries, but torch is not installed; pip install torch", file=sys.stderr)
        return 1
    environment = dict(os.environ)
    # The program looks for torch beside the package. In an environment that inherits torch from another one it is elsewhere.
    if not (_PACKAGES / "torch" / "lib").is_dir():
        before = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{torch}:{before}" if before else str(torch)
    # In place of this process: signals, terminal and exit code are the program's own.
    os.execve(_PROGRAM, ["frn", *sys.argv[1:]], environment)
