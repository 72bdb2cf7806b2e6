"""Directories of torch.distributed.checkpoint."""

from __future__ import annotations

import contextlib
import io
import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemReader, Metadata
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.planner import ReadItem
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from .. import pickles
from ..saving import save
from ..torch_saved import refusal

_METADATA = "torch.distributed.checkpoint.metadata."
_ALLOWED = (
    *(
        _METADATA + name
        for name in (
            "BytesStorageMetadata",
            "ChunkStorageMetadata",
            "Metadata",
            "MetadataIndex",
            "StorageMeta",
            "TensorProperties",
            "TensorStorageMetadata",
            "_MEM_FORMAT_ENCODING",
        )
    ),
    "torch.distributed.checkpoint.filesystem._StorageInfo",
    "torch.serialization._get_layout",
    "pathlib.PosixPath",
    "pathlib._local.PosixPath",
)
_ALIGNMENT = 64


def from_dcp(source: str, target: Path, allow_pickle: bool, allow: Iterable[type | str]) -> None:
    """Converts a directory of FileSystemWriter into one dsckpt file of the nested state.

    The tensors are put together in an unlinked file beside the target, as large as they are: memory
    holds one stored part at a time.
    """
    permission = pickles.Permission(allow_pickle, (*_ALLOWED, *allow), source)
    reader = _Reader(source, permission)
    with _room(reader.read_metadata(), target) as room:
        state: dict[str, Any] = {}
        planner = _Planner(room, source, allow_pickle)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is")
            try:
                _load_state_dict(state, reader, planner=planner, no_dist=True)
            except CheckpointException as error:
                raise next(iter(error.failures.values()))[0] from error
        save(state, target)


class _Reader(FileSystemReader):
    """DCP's reader, but its metadata is unpickled with nothing allowed that it does not need."""

    def __init__(self, path: str, permission: pickles.Permission) -> None:
        super().__init__(path)
        self._permission = permission

    def read_metadata(self, *_args: Any, **_options: Any) -> Metadata:
        payload = Path(self.path, ".metadata").read_bytes()
        tag = pickles.TAG + _METADATA + "Metadata"
        metadata: Metadata = self._permission.loads(payload, tag, [".metadata"])
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        return metadata


class _Planner(DefaultLoadPlanner):
    """Makes the state of the metadata, its tensors in `room`."""

    def __init__(self, room: _Room, source: str, allow_pickle: bool) -> None:
        super().__init__()
        self._room = room
        self._source = source
        self._allow_pickle = allow_pickle

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, *more: Any, **named: Any
    ) -> None:
        assert metadata is not None
        paths = metadata.planner_data or {}
        for fqn, entry in metadata.state_dict_metadata.items():
            value: Any = None
            if isinstance(entry, TensorStorageMetadata):
                value = self._room.tensor(entry)
            if fqn in paths:
                set_element(state_dict, paths[fqn], value)
            else:
                state_dict[fqn] = value
        super().set_up_planner(state_dict, metadata, *more, **named)

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        fqn = read_item.dest_index.fqn
        try:
            loaded = torch.load(value, map_location="cpu", weights_only=not self._allow_pickle)
        except Exception as error:
            refused = refusal(f"{self._source}: {fqn}", self._source, error)
            raise refused or error from error
        if fqn in self.mappings:
            set_element(self.original_state_dict, self.mappings[fqn], loaded)
        else:
            self.original_state_dict[fqn] = loaded


class _Room:
    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._storage = storage
        self._used = 0

    def tensor(self, entry: TensorStorageMetadata) -> torch.Tensor:
        dtype = entry.properties.dtype
        tensor = torch.empty(0, dtype=dtype)
        strides = torch.empty(entry.size, device="meta").stride()
        tensor.set_(self._storage, self._used // dtype.itemsize, entry.size, strides)
        self._used += _padded_bytes(entry)
        return tensor


def _padded_bytes(entry: TensorStorageMetadata) -> int:
    used = math.prod(entry.size) * entry.properties.dtype.itemsize
    return (used + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


@contextlib.contextmanager
def _room(metadata: Metadata, target: Path) -> Iterator[_Room]:
    """Room for all tensors, in a file without a name."""
    entries = metadata.state_dict_metadata.values()
    total = sum(_padded_bytes(e) for e in entries if isinstance(e, TensorStorageMetadata))
    with tempfile.NamedTemporaryFile(dir=target.absolute().parent, prefix=".convert-") as file:
        os.truncate(file.name, max(total, 1))
        storage = torch.UntypedStorage.from_file(file.name, shared=True, nbytes=max(total, 1))
    assert isinstance(storage, torch.UntypedStorage)
    yield _Room(storage)
