"""Directories of models as Hugging Face tools write them: one file, or several with an index."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

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
        with open(index, encoding="utf-8-sig") as file:
            found = dict(json.load(file)["weight_map"].items())
        for text in (*found, *found.values()):
            text.encode()  # Text, and no half of a surrogate pair.
    except FileNotFoundError as error:
        raise DsckptError(f"{index}: no such file", "NotFound", index) from error
    except OSError as error:
        raise DsckptError(f"cannot read {index}: {error}", "IoError", index) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DsckptError(
            f"{index} is no index of files: {type(error).__name__}: {error}", "NotCheckpoint", index
        ) from error
    if not found:
        raise DsckptError(
            f"{index} is no index of files: its weight_map is empty", "NotCheckpoint", index
        )
    for name in found.values():
        if os.path.basename(name) != name or name in ("", ".", "..") or "\0" in name:
            raise DsckptError(
                f"{index} names the file {name!r}, which is no file beside it", "Corrupt", index
            )
    return {tensor: os.path.join(os.path.dirname(index), name) for tensor, name in found.items()}


def load_all(index: str, load: Callable[[str], Any]) -> dict[str, Any]:
    """The states of all files that an index names, in one.

    Args:
        index: The index.
        load: Gives the state of one file.

    Raises:
        DsckptError: As files_of(); Incomplete: a file, or a tensor in its file, is missing;
            Mismatch: a name is in two files; NotCheckpoint: a file holds no dict.
    """
    state: dict[str, Any] = {}
    places = weight_map(index)
    for file in files_of(index):
        if not os.path.exists(file):
            raise DsckptError(f"a file that {index} names is missing: {file}", "Incomplete", file)
        part = load(file)
        if not isinstance(part, dict):
            raise DsckptError(f"{file} of {index} holds no dict", "NotCheckpoint", file)
        twice = state.keys() & part.keys()
        if twice:
            raise DsckptError(
                f"{file}: {min(twice, key=str)!r} is in another file of {index} too",
                "Mismatch",
                file,
            )
        lacking = [name for name, place in places.items() if place == file and name not in part]
        if lacking:
            raise DsckptError(
                f"{index} says that {min(lacking)!r} is in {os.path.basename(file)}, "
                "which lacks it",
                "Incomplete",
                index,
            )
        state.update(part)
    return state


def _ambiguous(directory: str, names: list[str]) -> DsckptError:
    return DsckptError(
        f"{directory} holds both {names[0]} and {names[1]}: name the one that is meant",
        "InvalidArgument",
        directory,
    )
