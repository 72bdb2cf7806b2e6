"""Directories of models as Hugging Face tools write them: one file, or several with an index."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator

from .errors import DsckptError

BASES = (
    "model",
    "diffusion_pytorch_model",
    "adapter_model",
    "pytorch_lora_weights",
    "pytorch_model",
)
"""What their files are called, before ".safetensors" and the like: the list of the program."""


def find(directory: str) -> str | None:
    """The index or the single file of safetensors that a directory is about, or None.

    Raises:
        DsckptError: InvalidArgument (two models), Incomplete (parts without their index).
    """
    names = sorted(os.listdir(directory))
    for base in BASES:
        file = f"{base}.safetensors"
        found = [name for name in (file, f"{file}.index.json") if name in names]
        if len(found) > 1:
            raise _ambiguous(directory, found)
        if found:
            return os.path.join(directory, found[0])
        for name in names:
            if name.startswith(f"{base}-0") and "-of-" in name and name.endswith(".safetensors"):
                raise DsckptError(
                    f"{directory} holds {name}, but not the index {file}.index.json of all its "
                    "files",
                    "Incomplete",
                    directory,
                )
    others = [name for name in names if name.endswith(".safetensors.index.json")]
    if len(others) > 1:
        raise _ambiguous(directory, others)
    return os.path.join(directory, others[0]) if others else None


def find_torch(directory: str) -> str | None:
    """The same of files of torch.save: the index before the single file."""
    names = set(os.listdir(directory))
    for base in BASES:
        for name in (f"{base}.bin.index.json", f"{base}.bin"):
            if name in names:
                return os.path.join(directory, name)
    return None


@contextlib.contextmanager
def of_torch(directory: str) -> Iterator[None]:
    """Around what finds no checkpoint in a directory: where a model of torch.save lies there, the
    error says what makes one of it."""
    try:
        yield
    except DsckptError as error:
        found = find_torch(directory) if os.path.isdir(directory) else None
        if found is None:
            raise
        raise DsckptError(
            f"{directory} holds no checkpoint, but {os.path.basename(found)}, which torch.save "
            "wrote: dsckpt.convert.convert() makes one of it",
            "NotCheckpoint",
            directory,
        ) from error


def files_of(index: str) -> list[str]:
    """The files that an index names, beside it, each once.

    Raises:
        DsckptError: NotFound; NotCheckpoint, for what is no index; Corrupt, where a name leads out
            of the directory.
    """
    return sorted(set(weight_map(index).values()))


def weight_map(index: str) -> dict[str, str]:
    """The file of each tensor, with its directory. Raises as files_of()."""
    try:
        with open(index, encoding="utf-8") as file:
            found = dict(json.load(file)["weight_map"].items())
    except FileNotFoundError as error:
        raise DsckptError(f"{index}: no such file", "NotFound", index) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DsckptError(
            f"{index} is no index of files: {type(error).__name__}: {error}", "NotCheckpoint", index
        ) from error
    for name in found.values():
        if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
            raise DsckptError(
                f"{index} names the file {name!r}, which is no file beside it", "Corrupt", index
            )
    return {tensor: os.path.join(os.path.dirname(index), name) for tensor, name in found.items()}


def _ambiguous(directory: str, names: list[str]) -> DsckptError:
    return DsckptError(
        f"{directory} holds both {names[0]} and {names[1]}: name the one that is meant",
        "InvalidArgument",
        directory,
    )
