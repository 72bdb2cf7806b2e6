"""Converts files of torch.save()."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .. import models
from ..saving import save
from ..torch_saved import load


def from_torch(source: str, target: Path, allow_pickle: bool, allow: Iterable[type | str]) -> None:
    """Converts a file, or the files of an index (pytorch_model.bin.index.json)."""
    allowed = list(allow)
    if not source.endswith(".json"):
        save(load(source, allow_pickle, allowed), target)
        return
    save(models.load_all(source, lambda file: load(file, allow_pickle, allowed)), target)
