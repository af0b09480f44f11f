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


def load() -> None:
    path = _find()
    try:
        torch.ops.load_library(str(path))
    except OSError as error:  # most often a library that was built for another version of torch
        raise ImportError(
            f"frn could not load {path} into torch {torch.__version__} ({error}); "
            "rebuild it against this torch with `make build` or install the torch it was built for"
        ) from error
