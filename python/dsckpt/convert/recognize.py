"""What kind of checkpoint a path is."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass

from .. import _native, models
from ..checkpoint import MANIFEST
from ..errors import DsckptError

_TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
_ZIP = b"PK\x03\x04"


class Kind(enum.Enum):
    """Kinds of checkpoints; the values are for messages."""

    DSCKPT = "a checkpoint of dsckpt"
    SAFETENSORS = "safetensors"
    TORCH = "of torch.save"
    DCP = "of torch.distributed.checkpoint"
    DEEPSPEED = "a checkpoint of DeepSpeed"


@dataclass(frozen=True)
class Found:
    """What was found: its kind, and the file or directory to read."""

    kind: Kind
    path: str


def recognize(path: str) -> Found:
    """Looks at names and first bytes only.

    Raises:
        DsckptError: NotCheckpoint, NotFound, or the error of opening a damaged file.
    """
    if os.path.isdir(path):
        return _directory(path)
    if path.endswith(".json"):
        kind = Kind.TORCH if path.endswith(".bin.index.json") else Kind.SAFETENSORS
        return Found(kind, path)
    if _is_torch_file(path):
        return Found(Kind.TORCH, path)
    native = _native.File(path, map=False)
    return Found(Kind.DSCKPT if native.format == "dsckpt" else Kind.SAFETENSORS, path)


def _directory(path: str) -> Found:
    names = set(os.listdir(path))
    if MANIFEST in names:
        return Found(Kind.DSCKPT, path)
    model = models.find(path)
    if model is not None:
        return Found(Kind.SAFETENSORS, model)
    model = models.find_torch(path)
    if model is not None:
        return Found(Kind.TORCH, model)
    if ".metadata" in names:
        return Found(Kind.DCP, path)
    if any(name.endswith("_model_states.pt") for name in names):
        return Found(Kind.DEEPSPEED, path)
    if _native.RunDirectory(path).checkpoints():
        return Found(Kind.DSCKPT, path)  # A run: its latest.
    raise DsckptError(
        f"{path} is no checkpoint that can be converted: it has no {MANIFEST} (dsckpt), "
        "model.safetensors or pytorch_model.bin, nor an index of them or what adapters and "
        "diffusers call them, no .metadata (torch.distributed.checkpoint) and no "
        "*_model_states.pt (DeepSpeed: give save_dir/tag)",
        "NotCheckpoint",
        path,
    )


def _is_torch_file(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            is_zip = file.read(len(_ZIP)) == _ZIP
    except OSError:
        return False  # Opening it says what is wrong.
    return is_zip or path.endswith(_TORCH_SUFFIXES)
