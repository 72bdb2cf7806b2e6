"""DCP's metadata as a plain state: encoded without pickle, decoded without running anything.

The state has these members; all numbers are int64.

    format          1
    version         DCP's own, or None
    shards          file names
    tensors         {fqn: {dtype, size, chunks (how many), and properties that are not the default}}
    chunks          {str(D): N rows of 2 D + 1 numbers}: offsets, sizes and shard of the chunks of
                    all tensors of D dimensions, in the order of `tensors`; bytes, little-endian
    bytes           {fqn: shard}
    planner_data    as it is: for DCP's planners {fqn: path in the state}
    storage_meta    {checkpoint_id, save_id, modules}, or None
"""

from __future__ import annotations

import array
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from .. import tree
from ..errors import DsckptError
from .items import Stored, is_plain, key_of

KEY = "dcp.metadata"
"""Its key in the state of rank 0. No tensors are in it: tools would take them for the model's."""

_FORMAT = 1
_DEFAULTS: dict[str, Any] = {
    "layout": "strided",
    "requires_grad": False,
    "memory_format": "contiguous_format",
    "pin_memory": False,
    "strides": None,
}


def encode(metadata: Metadata) -> dict[str, Any]:
    """Makes a state of DCP's metadata.

    Args:
        metadata: With storage data of this package: a dict of MetadataIndex to Stored.

    Raises:
        DsckptError: Unsupported, when a planner put objects into `planner_data` that only pickle
            could store.
    """
    if not is_plain(metadata.planner_data):
        raise DsckptError(
            "the planner's planner_data holds objects that only pickle can store: use dicts, "
            "lists, tuples, strings and numbers",
            "Unsupported",
        )
    shards = sorted({stored.shard for stored in metadata.storage_data.values()})
    number = {shard: i for i, shard in enumerate(shards)}
    tensors: dict[str, Any] = {}
    objects: dict[str, int] = {}
    rows: dict[int, array.array[int]] = {}
    for fqn, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, BytesStorageMetadata):
            objects[fqn] = number[metadata.storage_data[MetadataIndex(fqn)].shard]
            continue
        tensors[fqn] = _encode_tensor(entry)
        for chunk in entry.chunks:
            stored = metadata.storage_data[MetadataIndex(fqn, chunk.offsets)]
            row = [*chunk.offsets, *chunk.sizes, number[stored.shard]]
            rows.setdefault(len(entry.size), array.array("q")).extend(row)
    return {
        "format": _FORMAT,
        "version": getattr(metadata, "version", None),
        "shards": shards,
        "tensors": tensors,
        "chunks": {str(dims): _to_bytes(table) for dims, table in sorted(rows.items())},
        "bytes": objects,
        "planner_data": metadata.planner_data,
        "storage_meta": _encode_storage_meta(metadata.storage_meta),
    }


def _to_bytes(numbers: array.array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _from_bytes(encoded: bytes) -> array.array[int]:
    numbers = array.array("q", encoded)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _encode_tensor(entry: TensorStorageMetadata) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "dtype": _name(entry.properties.dtype),
        "size": tuple(entry.size),
        "chunks": len(entry.chunks),
    }
    for name, default in _DEFAULTS.items():
        value = getattr(entry.properties, name, default)
        if isinstance(value, (torch.layout, torch.memory_format)):
            value = _name(value)
        if value != default:
            encoded[name] = tuple(value) if name == "strides" else value
    return encoded


def _encode_storage_meta(meta: StorageMeta | None) -> dict[str, Any] | None:
    if meta is None:
        return None
    checkpoint_id = None if meta.checkpoint_id is None else str(meta.checkpoint_id)
    return {"checkpoint_id": checkpoint_id, "save_id": meta.save_id, "modules": list(meta.modules)}


def _name(constant: torch.dtype | torch.layout | torch.memory_format) -> str:
    return str(constant).removeprefix("torch.")


def decode(state: Mapping[str, Any], path: str) -> Metadata:
    """Makes DCP's metadata of a state that encode() made.

    Args:
        state: The state.
        path: Of the file it came from, for errors.

    Raises:
        DsckptError: Unsupported, when a later version wrote it; Corrupt, when it cannot be meant.
    """
    if state.get("format") != _FORMAT:
        raise DsckptError(
            f"{path}: DCP metadata of format {state.get('format')!r}, expected {_FORMAT}: it needs "
            "another version of this package",
            "Unsupported",
            path,
        )
    try:
        return _decode(state)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration) as error:
        raise DsckptError(
            f"{path} holds no DCP metadata that can be meant: {type(error).__name__}: {error}",
            "Corrupt",
            path,
        ) from error


def _decode(state: Mapping[str, Any]) -> Metadata:
    shards: list[str] = state["shards"]
    entries: dict[str, Any] = {}
    storage: dict[MetadataIndex, Stored] = {}
    tables = {dims: iter(_from_bytes(table)) for dims, table in state["chunks"].items()}
    for fqn, encoded in state["tensors"].items():
        size = torch.Size(encoded["size"])
        chunks = list(_chunks(tables.get(str(len(size)), iter(())), encoded["chunks"], len(size)))
        for i, (chunk, shard) in enumerate(chunks):
            name = tree.item_name([key_of(fqn, chunk.offsets, chunk.sizes, size)])
            storage[MetadataIndex(fqn, chunk.offsets, i)] = Stored(shards[shard], name)
        entries[fqn] = TensorStorageMetadata(
            _decode_properties(encoded), size, [chunk for chunk, _ in chunks]
        )
    for fqn, shard in state["bytes"].items():
        entries[fqn] = BytesStorageMetadata()
        storage[MetadataIndex(fqn)] = Stored(shards[shard], tree.item_name([fqn]))
    metadata = Metadata(entries, state["planner_data"], storage)
    if state["storage_meta"] is not None:
        metadata.storage_meta = StorageMeta(**state["storage_meta"])
    metadata.version = state["version"]
    return metadata


def _chunks(
    numbers: Iterator[int], count: int, dims: int
) -> Iterable[tuple[ChunkStorageMetadata, int]]:
    for _ in range(count):
        row = list(itertools.islice(numbers, 2 * dims + 1))
        if len(row) != 2 * dims + 1:
            raise ValueError("the table of chunks is too small")
        offsets, sizes = torch.Size(row[:dims]), torch.Size(row[dims : 2 * dims])
        yield ChunkStorageMetadata(offsets, sizes), row[-1]


def _decode_properties(encoded: Mapping[str, Any]) -> TensorProperties:
    known: dict[str, Any] = {
        name: encoded.get(name, default) for name, default in _DEFAULTS.items()
    }
    if not hasattr(TensorProperties(), "strides"):
        del known["strides"]  # Older versions of PyTorch do not have them.
    known["layout"] = _constant(known["layout"], torch.layout)
    known["memory_format"] = _constant(known["memory_format"], torch.memory_format)
    return TensorProperties(dtype=_constant(encoded["dtype"], torch.dtype), **known)


def _constant(name: str, kind: type) -> Any:
    found = getattr(torch, name)
    if not isinstance(found, kind):
        raise ValueError(f"torch.{name} is no {kind.__name__}")
    return found
