"""The storage reader for torch.distributed.checkpoint."""

from __future__ import annotations

import io
import os
import uuid
from typing import Any

import torch
from torch.distributed.checkpoint import LoadPlan, LoadPlanner, Metadata, StorageReader
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, ReadItem
from torch.futures import Future

from .. import dtypes, pickle_rules, tree
from ..checkpoint import Checkpoint
from ..errors import DsckptError, PickleRefused, text_of
from ..filling import count_versions, fence_writers
from ..pickles import named_in_torch_file, refused_by_torch
from . import metadata as encoding
from .items import MEDIA_TYPE, Stored, fqn_of
from .reading import Part, Reading, values_of

_SHOWN_CASTS = 20


class DcpReader(StorageReader):
    """Reads dsckpt checkpoints for torch.distributed.checkpoint.

        dcp.load(state, storage_reader=DcpReader(), checkpoint_id="run/step-100")

    Any number of ranks load what any other number saved; each reads the parts of tensors that it
    needs, to where they go if these are contiguous. Checksums are checked. Also reads the tensors
    of checkpoints that were written otherwise (`dsckpt.Run`, `dsckpt merge`, `dsckpt convert`): of
    nested states under their keys joined by ".", as DCP's planners call them.

    Tensors may be loaded into those of another dtype where that changes no value (float16 into
    float32); what would round or overflow is refused, unless `lossy_casts` is given.

    Objects that DCP serialized with torch.save() are looked at before the planner gets them: what
    torch.load(weights_only=True) refuses is refused, unless `allow_pickle` is given.

    Not thread-safe.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        allow_pickle: bool = False,
        lossy_casts: bool = False,
    ) -> None:
        """Opens nothing yet.

        Args:
            path: Directory of the checkpoint, or one dsckpt file. `checkpoint_id` of dcp.load()
                goes before it.
            allow_pickle: Whether objects of any class are unpickled. That may run code that the
                checkpoint's author chose.
            lossy_casts: Whether elements are rounded, or overflow, to fit tensors of other dtypes.
        """
        super().__init__()
        self._path = None if path is None else os.fspath(path)
        self._allow_pickle = allow_pickle
        self._lossy_casts = lossy_casts
        self._checkpoint: Checkpoint | None = None
        self._metadata: Metadata | None = None
        self._names: dict[str, str] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Called at the beginning of a load, with its directory (`checkpoint_id`)."""
        if checkpoint_id is not None:
            self._path = os.fspath(checkpoint_id)
        self._checkpoint = None
        self._metadata = None

    def read_metadata(self, *_args: Any, **_options: Any) -> Metadata:
        """Called on every rank. Runs nothing of what is stored.

        Raises:
            DsckptError: NotFound, Incomplete, Corrupt, Unsupported, ...
        """
        checkpoint = self._open()
        found = _stored_metadata(checkpoint)
        if found is None:
            found, self._names = _made_metadata(checkpoint)
        else:
            self._names = {fqn: tree.item_name([fqn]) for fqn in found.state_dict_metadata}
        found.storage_meta = found.storage_meta or StorageMeta()
        found.storage_meta.load_id = str(uuid.uuid4())
        return found

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *_args: Any, **_options: Any
    ) -> None:
        """Called on every rank."""
        self._metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Called on every rank. Changes nothing."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Called on the coordinating rank. Changes nothing."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Called on every rank: fills the tensors of its plan and hands over its values.

        Raises:
            DsckptError: Corrupt, Incomplete, Mismatch (of dtypes too: then nothing was loaded), ...
            PickleRefused: An object names classes, and `allow_pickle` was not given.
        """
        reading = Reading(self._open())
        tensors: list[tuple[ReadItem, torch.Tensor]] = []
        for item in plan.items:
            if item.type != LoadItemType.BYTE_IO:
                tensors.append((item, planner.resolve_tensor(item).detach()))
        parts = [self._part(item, target) for item, target in tensors]
        self._check_casts(parts)
        fence_writers()
        for part in parts:
            reading.add(part)
        reading.finish()
        count_versions([target for _, target in tensors])
        for item, target in tensors:
            planner.commit_tensor(item, target)
        self._read_values(reading, plan, planner)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    @property
    def checkpoint_id(self) -> str | None:
        """Directory of the checkpoint."""
        return self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a path."""
        return "://" not in os.fspath(checkpoint_id)

    def _open(self) -> Checkpoint:
        if self._path is None:
            raise DsckptError(
                "no path: give one to DcpReader, or a checkpoint_id to dcp.load()",
                "InvalidArgument",
            )
        if self._checkpoint is None:
            self._checkpoint = Checkpoint(self._path)
        return self._checkpoint

    def _entry(self, index: MetadataIndex) -> Any:
        assert self._metadata is not None
        return self._metadata.state_dict_metadata[index.fqn]

    def _stored(self, index: MetadataIndex) -> Stored | None:
        assert self._metadata is not None
        found: Stored | None = self._metadata.storage_data.get(index)
        return found

    def _part(self, item: ReadItem, target: torch.Tensor) -> Part:
        index = item.storage_index
        entry = self._entry(index)
        chunk = _chunk_at(entry, index)
        lengths = tuple(item.lengths)
        if tuple(target.shape) != lengths:
            raise DsckptError(
                f"{index.fqn}: a part of shape {list(lengths)} cannot go into a tensor of shape "
                f"{list(target.shape)}",
                "Mismatch",
            )
        begins = [at + more for at, more in zip(chunk.offsets, item.storage_offsets)]
        return Part(
            self._names[index.fqn],
            [(begin, begin + length) for begin, length in zip(begins, lengths)],
            entry.properties.dtype,
            self._stored(index) if lengths == tuple(chunk.sizes) else None,
            target,
        )

    def _check_casts(self, parts: list[Part]) -> None:
        lossy = {
            f"{part.name}: {part.dtype} in the checkpoint, {part.target.dtype} to load into"
            for part in parts
            if not self._lossy_casts and not dtypes.widens(part.dtype, part.target.dtype)
        }
        if lossy:
            shown = sorted(lossy)[:_SHOWN_CASTS]
            more = f"\n  and {len(lossy) - len(shown)} more" if len(lossy) > len(shown) else ""
            raise DsckptError(
                f"{self._path} does not fit the state, so nothing was loaded: values would be "
                "rounded or overflow. Load into tensors of the stored dtypes, or give "
                "DcpReader(lossy_casts=True):\n  " + "\n  ".join(shown) + more,
                "Mismatch",
                self._path,
            )

    def _read_values(self, reading: Reading, plan: LoadPlan, planner: LoadPlanner) -> None:
        values: dict[str, dict[Any, Any]] = {}
        payloads: list[tuple[ReadItem, bytes]] = []
        for item in plan.items:
            if item.type != LoadItemType.BYTE_IO:
                continue
            stored = self._stored(item.storage_index)
            assert stored is not None
            native = reading.shard(stored.shard)
            with text_of(native.path):
                objects = {info[0]: info[1] for info in native.objects()}
            if stored.name in objects:
                self._check_type(item.storage_index.fqn, objects[stored.name])
                payloads.append((item, native.read_object(stored.name)))
                continue
            if stored.shard not in values:
                values[stored.shard] = values_of(native)
            stream = io.BytesIO()
            torch.save(values[stored.shard][item.storage_index.fqn], stream)
            stream.seek(0)
            planner.load_bytes(item, stream)
        if not self._allow_pickle:
            self._check_objects(payloads)
        for item, payload in payloads:
            planner.load_bytes(item, io.BytesIO(payload))

    def _check_type(self, fqn: str, media_type: str) -> None:
        if media_type != MEDIA_TYPE:
            raise DsckptError(
                f"{self._path}: {fqn} is an object of type {media_type!r}, expected {MEDIA_TYPE!r}",
                "Unsupported",
                self._path,
            )

    def _check_objects(self, payloads: list[tuple[ReadItem, bytes]]) -> None:
        """Raises PickleRefused, of all objects that torch.load(weights_only=True) refuses."""
        reasons: list[str] = []
        names: set[str] = set()
        cause: Exception | None = None
        for item, payload in payloads:
            try:
                torch.load(io.BytesIO(payload), map_location="meta", weights_only=True)
            except Exception as error:
                named = named_in_torch_file(payload) or refused_by_torch(error)
                what = f"names {', '.join(sorted(named))}" if named else str(error)
                reasons.append(f"{item.storage_index.fqn} is an object that {what}")
                names.update(named)
                cause = cause or error
        if cause is None:
            return
        classes, never = pickle_rules.split(names)
        advice = "DcpReader(allow_pickle=True)"
        if not never:
            advice += ", or torch.serialization.add_safe_globals()"
        raise PickleRefused(
            f"{self._path}: {'; '.join(reasons)}: torch.load(weights_only=True) refuses that, for "
            f"loading it may run code. If you trust the checkpoint, use {advice}",
            self._path,
            classes,
            never,
        ) from cause


def _chunk_at(entry: TensorStorageMetadata, index: MetadataIndex) -> ChunkStorageMetadata:
    at = index.index
    if at is not None and at < len(entry.chunks) and entry.chunks[at].offsets == index.offset:
        return entry.chunks[at]
    return next(chunk for chunk in entry.chunks if chunk.offsets == index.offset)


def _stored_metadata(checkpoint: Checkpoint) -> Metadata | None:
    """DCP's metadata where DcpWriter wrote the checkpoint; None: something else did."""
    names = [shard[0] for shard in checkpoint.shards]
    first = "shard-00000.dsckpt"
    if first not in names:
        return None
    native = checkpoint.native.open_shard(names.index(first))
    state = values_of(native).get(encoding.KEY)
    if not isinstance(state, dict):
        return None
    found = encoding.decode(state, native.path)
    # A merged checkpoint keeps the value, but lies otherwise.
    written = {stored.shard for stored in found.storage_data.values()}
    return found if written <= set(names) else None


def _made_metadata(checkpoint: Checkpoint) -> tuple[Metadata, dict[str, str]]:
    """Metadata of a checkpoint of whole tensors, and their names there."""
    entries: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    names: dict[str, str] = {}
    for name, info in checkpoint.tensors.items():
        dtype = dtypes.torch_dtype(info.dtype)
        if dtype is None:
            continue
        fqn = fqn_of(name)
        size = torch.Size(info.shape)
        chunk = ChunkStorageMetadata(torch.Size([0] * len(size)), size)
        entries[fqn] = TensorStorageMetadata(TensorProperties(dtype=dtype), size, [chunk])
        names[fqn] = name
    return Metadata(entries, storage_data={}), names
