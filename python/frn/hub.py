"""Trained networks in folders to share, as `frn export --to hub:DIR` writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from torch import Tensor


def load(folder: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights by name, bit for bit as they were trained, and config.json.

        weights, config = frn.load("DIR")
        config["architecture"], config["norm"], config["label_names"], config["pretrained_cfg"]["mean"]

    Names are those of the program's networks (`frn info models`); `frn convert` turns them into torchvision's and timm's.
    """
    from safetensors.torch import load_file  # the layers do not need it

    folder = Path(folder)
    missing = [name for name in ("config.json", "model.safetensors") if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"[load] {folder} must be a folder that `frn export --to hub:DIR` wrote but has no {' and no '.join(missing)}"
        )
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"[load] {folder}/config.json must be JSON but is not: {error}") from error
    if not isinstance(config, dict) or config.get("library_name") != "frn":
        raise ValueError(f"[load] {folder}/config.json must be frn's but is not; `frn export --to hub:DIR` writes such folders")
    return load_file(folder / "model.safetensors"), config
