"""Files in torch's own format: what DeepSpeed wrote before, and exports for other programs."""

from __future__ import annotations

from typing import Any

from dsckpt.errors import PickleRefused
from dsckpt.saving import save_safetensors

from .config import KEY
from .pickle_allowlist import resolve
from .replacing import replacing

_ZIP = b"PK\x03\x04"
_PICKLE = b"\x80"


def is_torch_file(path: str) -> bool:
    """Whether a file begins as those of torch.save do, old and new, and not as safetensors do."""
    begin = _begin(path)
    return begin[:4] == _ZIP or (begin[:1] == _PICKLE and begin[8:] != b"{")


def _begin(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(9)


def load(
    path: str, map_location: Any, allow_pickle: bool, allow: tuple[str, ...], mmap: bool = False
) -> Any:
    """Loads a file of torch.save.

    Args:
        path: The file.
        map_location: As for torch.load.
        allow_pickle: Whether it may run code.
        allow: "module.Class" of what it may hold otherwise, beside tensors and plain values.
        mmap: Maps the file where its kind allows that.

    Raises:
        dsckpt.PickleRefused: It holds something else.
        dsckpt.DsckptError: Corrupt.
    """
    from dsckpt import torch_saved  # It needs torch.

    classes = () if allow_pickle else resolve(allow)
    try:
        return torch_saved.load(path, allow_pickle, classes, map_location=map_location, mmap=mmap)
    except PickleRefused as error:
        raise PickleRefused(
            f"{path} is a file of torch.save that holds more than tensors and plain values "
            f"({', '.join(error.classes)}), and loading it may run code. If you trust it, set "
            f'"{KEY}": {{"allow_pickle": true}}, or name the classes under "allow"',
            path,
            error.classes,
        ) from error


def export(state: Any, path: str) -> None:
    """Writes one file for other programs, durably; an existing one is replaced when it is whole.

    Args:
        state: What to write; for ".safetensors" a dict of names to tensors.
        path: The file.
    """
    if path.endswith(".safetensors"):
        save_safetensors(state, path)
        return
    import torch

    with replacing(path) as file:
        torch.save(state, file)
