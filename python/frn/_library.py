"""Finds libfrn_ops.so and loads it into PyTorch."""

import os
from pathlib import Path

import torch

_NAME = "libfrn_ops.so"
_PACKAGE = Path(__file__).resolve().parent


def _find() -> Path:
    """FRN_LIBRARY decides when it is set; else an installed library beside the package, else a checkout's build."""
    if chosen := os.environ.get("FRN_LIBRARY"):
        if not Path(chosen).is_file():
            raise ImportError(f"FRN_LIBRARY must name {_NAME} but there is no file {chosen}; correct it or unset it")
        return Path(chosen)
    for candidate in (_PACKAGE / "lib" / _NAME, _PACKAGE.parents[1] / "build" / "lib" / _NAME):
        if candidate.is_file():
            return candidate
    raise ImportError(
        f"frn needs {_NAME} in {_PACKAGE / 'lib'} or in a checkout's build/lib but found neither; "
        "run `make build` in the checkout or set FRN_LIBRARY to the file"
    )


def _check_torch(library: Path) -> None:
    """A library in another torch than its own may load and then crash."""
    told = library.parent / "torch-version.txt"
    built_for = told.read_text().strip() if told.is_file() else ""
    here = torch.__version__.split("+")[0]
    if built_for and built_for.split(".")[:2] != here.split(".")[:2]:
        raise ImportError(
            f"frn was built for torch {built_for} but this is torch {here}; install torch {built_for} or build frn again "
            "with this one"
        )


def load() -> None:
    path = _find()
    _check_torch(path)
    try:
        torch.ops.load_library(str(path))
    except OSError as error:  # most often a library that was built for another version of torch
        raise ImportError(
            f"frn could not load {path} into torch {torch.__version__} ({error}); "
            "rebuild it against this torch with `make build` or install the torch it was built for"
        ) from error
