"""Saves that are durable when they return, with an engine that the whole process shares."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _native, arguments, lifetime, object_tensors, tree
from .errors import DsckptError
from .own import marked
from .prepared import Encoding, Shard, walker_of


def save(
    state: Any,
    path: str | os.PathLike[str],
    *,
    attributes: dict[str, Any] | None = None,
    encoding: Encoding = "raw",
    metadata: dict[str, str] | None = None,
    statistics: bool = False,
    vendor: dict[str, bytes] | None = None,
) -> None:
    """Saves a nested state as one file and returns when it is durable. Thread-safe; other threads
    must not change the state meanwhile. Arguments and errors as AsyncWriter.save()."""
    shard = Shard("", state, attributes)
    _save_now(
        shard,
        path,
        encoding,
        metadata=arguments.metadata(metadata),
        statistics=arguments.flag("statistics", statistics),
        vendor=arguments.vendor(vendor),
    )


def save_safetensors(
    tensors: Mapping[str, Any],
    path: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Saves tensors as a plain safetensors file, and returns when it is durable.

    What load() makes of a safetensors file comes back to one of the same names. The file holds
    nothing of this library: no index and no checksums. Names that are tied share their bytes: one
    of them is stored, and the metadata maps the others to it, as Transformers does. Thread-safe;
    other threads must not change the tensors meanwhile.

    Args:
        tensors: torch tensors or NumPy arrays by their names in the file.
        path: The file; an existing one is replaced when the new one is durable.
        metadata: Members of `__metadata__`; "format" is "pt" unless it is given.

    Raises:
        DsckptError: InvalidArgument: a value is no tensor. Unsupported: a layout or dtype that
            safetensors lack, or of a name that this library cannot write. Others as save().
    """
    shard = Shard("", _by_segments(tensors))
    _save_now(shard, path, metadata=arguments.metadata(metadata), safetensors=True)


def _by_segments(tensors: Mapping[str, Any]) -> dict[Any, Any]:
    """The nested dict whose items have these names."""
    root: dict[Any, Any] = {}
    for name, tensor in tensors.items():
        if not marked(tensor) and not object_tensors.is_array(tensor):
            raise DsckptError(
                f"tensors[{name!r}] is of type {type(tensor).__name__}: safetensors hold "
                "tensors and arrays only; dsckpt.save() keeps other values",
                "InvalidArgument",
            )
        *around, last = map(_key, arguments.text("a name of tensors", name).split("/"))
        holder = root
        for key in around:
            holder = holder.setdefault(key, {})
            if type(holder) is not dict:
                break
        if type(holder) is not dict or last in holder:
            raise DsckptError(
                f"the names of tensors cannot all be written: {name!r} begins with another one and "
                "'/', or is the beginning of one: give one of them another name",
                "Unsupported",
            )
        holder[last] = tensor
    return root


def _key(segment: str) -> str | int:
    """The key in a state that leads to a segment of a name."""
    if tree.item_name([segment]) == segment:
        return segment
    unmarked = segment.removeprefix("~s").replace("~1", "/").replace("~0", "~")
    key = int(segment) if tree.item_name([segment]) == f"~s{segment}" else unmarked
    if tree.item_name([key]) != segment:
        raise DsckptError(
            f"{segment!r} cannot be part of a name: '~' is followed by 0, 1 or s in names that "
            "this library writes",
            "Unsupported",
        )
    return key


def _save_now(
    shard: Shard, path: str | os.PathLike[str], encoding: Encoding = "raw", **options: Any
) -> None:
    tensors_only = bool(options.get("safetensors"))
    walker = walker_of(
        shard,
        borrowed=True,
        tensors_only=tensors_only,
        tensor_capture=_native.UNTIL_FENCE,
        encoding=arguments.text("encoding", encoding),
        rank=None if tensors_only else 0,  # Plain safetensors cannot say whose it is.
    )
    lifetime.shared_engine().save_durably(arguments.destination(path), walker, **options)
