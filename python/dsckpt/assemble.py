"""Assembles the state of one rank: its tensors are put together from the files of all ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _native, dtensor, mapped, memory, overlaps, rebuild, tree
from .errors import half_filled
from .file_state import finish, load_objects, warn_unverifiable
from .filling import Fills, count_versions, fence_writers, stored_own
from .map_location import MapLocation, where_to
from .materialize import Info
from .pickles import Permission
from .state_diff import Match, Path, Stored, Target, target_of
from .tensor_info import TensorInfo, TensorTable, allocate, buffer_at

Box = list[tuple[int, int]]
Read = tuple[str, Box | None, Any]


def only_piece(native: _native.File, ordinal: int, info: Info) -> _native.Piece | None:
    """The part of a larger tensor that a stored tensor is; None: it is whole, or holds several."""
    pieces = native.pieces(ordinal)
    if len(pieces) != 1 or pieces[0].element_offset != 0:
        return None
    piece = pieces[0]
    if tuple(piece.logical_shape) == info[3] and piece.box is not None:
        return None
    held = (
        piece.flat[1] - piece.flat[0]
        if piece.flat is not None
        else math.prod(end - begin for begin, end in piece.box or [])
    )
    return piece if held == math.prod(info[3]) else None


def load_shard(
    table: TensorTable,
    at: int,
    map_location: MapLocation,
    mmap: bool,
    permission: Permission,
    verify: bool | None,
    shared_only: bool,
) -> Any:
    """Checkpoint.load() of the file at a position in its shards; with `shared_only` without what
    is the own of the rank that wrote it."""
    place = where_to(map_location)
    native = table.native.open_shard(at)
    mapping = None
    if mmap and not verify:
        native, mapping = mapped.open_mapped(native.path)
    if verify is not False:
        warn_unverifiable(native)
    objects = load_objects(native, permission, shared_only)
    infos = native.tensors()
    parts = {i: piece for i, info in enumerate(infos) if (piece := only_piece(native, i, info))}
    whole = _read_whole(table, parts)
    tensors = place.tensors(native, mapping, infos, verify is not False, whole)
    return finish(native, tensors, objects, shared_only)


def _read_whole(table: TensorTable, parts: dict[int, _native.Piece]) -> dict[int, Any]:
    made: dict[int, Any] = {}
    reads: list[Read] = []
    for ordinal, piece in parts.items():
        info = table.infos[piece.logical_name]
        made[ordinal], buffer = allocate(info, info.shape)
        if buffer is not None:
            reads.append((info.name, None, buffer))
    if reads:
        table.native.read(reads)
    return made


@dataclass
class Assembly:
    """Fills a state from a checkpoint; see Checkpoint.load_into().

    Args:
        table: The tensors of the checkpoint.
        shard: The file with values and objects.
        rank: Whose own is wanted. Where another rank wrote the file, that rank's is not taken.
        ranks: How many load.
    """

    table: TensorTable
    shard: int
    rank: int
    ranks: int

    def load_into(self, state: Any, permission: Permission, strict: bool) -> Any:
        """Compares, then fills."""
        self.checkpoint = self.table.native
        self.native = self.checkpoint.open_shard(self.shard)
        warn_unverifiable(self.native)
        self.infos = self.native.tensors()
        self.strict = strict
        self.fills = Fills(self.native, self.infos)
        self.reads: list[Read] = []
        self.finish: list[Callable[[], Any]] = []
        self.tensors: list[Any] = []
        anothers = self.checkpoint.shards()[self.shard][1] != self.rank
        own = stored_own(self.native, permission, state, self.rank, anothers)
        if anothers and not own.merged:
            own.unshared = unshared(self.checkpoint, self.shard)
        # Of other numbers of ranks, what only the file has may be another rank's by now.
        whole_file = self.checkpoint.ranks == self.ranks
        match = Match(self._accept, strict, whole_file=whole_file, own=own)
        new = match.walk(state, own.stored)
        match.differences += overlaps.lines(self.fills.extents)
        match.check(self.checkpoint.path)
        fence_writers()
        with half_filled():
            self.fills.load(True)
            if self.reads:
                self.checkpoint.read(self.reads)
        for done in (*self.finish, *match.updates):
            done()
        count_versions(self.tensors)
        return new

    def _accept(self, tensor: Any, stored: Stored | None, path: Path) -> str | None:
        name = self._logical_name(stored, path)
        info = self.table.infos.get(name) if name is not None else None
        if dtensor.is_dtensor(tensor):
            if info is None:
                return "in the state only" if self.strict else None
            box = dtensor.box(tensor)
            return self._add(tensor, target_of(tensor), info, tuple(tensor.shape), box, path)
        if stored is not None and (info is None or self._is_local(tensor, stored)):
            return self.fills.add(tensor, stored, path)
        if info is None:
            return "in the state only" if self.strict else None
        target = target_of(tensor)
        return self._add(tensor, target, info, target.found.shape, None, path)

    def _logical_name(self, stored: Stored | None, path: Path) -> str | None:
        if stored is not None:
            pieces = self.native.pieces(stored.ordinal)
            if len(pieces) > 1:
                return None
            return pieces[0].logical_name if pieces else self.infos[stored.ordinal][0]
        known = all(type(key) in (str, int) for key in path)
        return tree.item_name(path) if known else None

    def _is_local(self, tensor: Any, stored: Stored) -> bool:
        """Whether this rank's own file has what the state wants, a part or the whole."""
        return target_of(tensor).found.shape == self.infos[stored.ordinal][3]

    def _read(self, info: TensorInfo, box: Box | None) -> bytes:
        shape = info.shape if box is None else [end - begin for begin, end in box]
        held = bytearray(info.nbytes * math.prod(shape) // math.prod(info.shape))
        self.checkpoint.read([(info.name, box, held)])
        return bytes(held)

    def _add(
        self,
        tensor: Any,
        target: Target,
        info: TensorInfo,
        shape: tuple[int, ...],
        box: Box | None,
        path: Path,
    ) -> str | None:
        if (target.found.dtype, shape) != (info.dtype, info.shape):
            return (
                f"{target.found.dtype} {list(shape)} in the state, {info.dtype} "
                f"{list(info.shape)} in the checkpoint"
            )
        found = target.found
        part = found.shape
        if math.prod(part) == 0:
            return None
        self.tensors.append(tensor)
        nbytes = info.nbytes * math.prod(part) // math.prod(info.shape)
        if target.finish is None and not found.copied:
            item = info.name, box
            extent = overlaps.Extent(path, item, target, nbytes, lambda: self._read(info, box))
            self.fills.extents.append(extent)
        if found.device == -1 and found.strides is None:
            self.reads.append((info.name, box, buffer_at(found.address, nbytes)))
            if target.finish is not None:
                self.finish.append(target.finish)
        else:
            made, buffer = allocate(info, part)
            self.reads.append((info.name, box, buffer))
            self.finish.append(lambda: copy_into(tensor, made))
        return None


def unshared(checkpoint: _native.Checkpoint, at: int) -> list[Path]:
    """Places of values and objects in a file that another rank's file has otherwise, unmarked.

    Two ranks stand for all: what differs between them is not what all share.
    """
    shards = checkpoint.shards()
    others = [i for i, shard in enumerate(shards) if shard[1] != shards[at][1]]
    if not others:
        return []
    found: list[Path] = []
    _compare(_values(checkpoint, at), _values(checkpoint, others[0]), (), found)
    return found


class _Tensor:
    """Stands for any tensor: those were compared when the checkpoint was made."""

    def __eq__(self, other: object) -> bool:
        return type(other) is _Tensor

    def __hash__(self) -> int:
        return 0


def _values(checkpoint: _native.Checkpoint, at: int) -> Any:
    native = checkpoint.open_shard(at)
    objects = native.objects()
    return rebuild.state(
        native,
        [_Tensor()] * len(native.tensors()),
        lambda ordinal, _tag, _path: ("object", objects[ordinal][1], native.object_digest(ordinal)),
        lambda _tag, value, _path: value,
        shared_only=True,
    )


def _compare(one: Any, other: Any, path: Path, found: list[Path]) -> None:
    if isinstance(one, dict) and isinstance(other, dict):
        for key, value in one.items():
            if key in other:
                _compare(value, other[key], (*path, key), found)
            elif type(value) is not _Tensor:
                found.append((*path, key))
    elif isinstance(one, (list, tuple)) and type(one) is type(other) and len(one) == len(other):
        for position, value in enumerate(one):
            _compare(value, other[position], (*path, position), found)
    elif type(one) is not type(other) or not (one == other or _both_nan(one, other)):
        found.append(path)


def _both_nan(one: Any, other: Any) -> bool:
    return type(one) is float and math.isnan(one) and math.isnan(other)


def copy_into(tensor: Any, made: Any) -> None:
    """Copies host elements into a tensor, the local shard of a DTensor, or an array."""
    if isinstance(made, memory.Packed):
        made = made.array()
    if hasattr(tensor, "detach"):
        own = dtensor.local(tensor) if dtensor.is_dtensor(tensor) else tensor.detach()
        own.copy_(made)
    else:
        tensor[...] = memory.as_array(made)
