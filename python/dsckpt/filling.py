"""Fills the tensors of a state that is there already from one file."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _native, capture, merged, overlaps, rebuild, streams
from .errors import half_filled, text_of
from .file_state import load_objects, warn_unverifiable
from .materialize import Info, Request
from .own import RANKS, own_rank
from .pickles import Permission
from .state_diff import Match, Own, Path, Stored, Target, target_of


def fill_from_file(
    native: _native.File, state: Any, permission: Permission, strict: bool, verify: bool
) -> Any:
    """Loads one file into a state. Arguments as for dsckpt.load_into(), of which this is a part."""
    if verify:
        warn_unverifiable(native)
    own = stored_own(native, permission, state, own_rank())
    fills = Fills(native, native.tensors())

    def accept(tensor: Any, stored: Stored | None, path: Path) -> str | None:
        if stored is not None:
            return fills.add(tensor, stored, path)
        return "in the state only" if strict else None

    match = Match(accept, strict, own=own)
    new = match.walk(state, own.stored)
    match.differences += overlaps.lines(fills.extents)
    match.check(native.path)
    fence_writers()
    with half_filled():
        fills.load(verify)
    for update in match.updates:
        update()
    return new


def stored_own(
    native: _native.File,
    permission: Permission,
    state: Any,
    rank: int,
    of_another: bool = False,
) -> Own:
    """What a file has for a rank, with a Stored in the place of each tensor.

    Args:
        native: The file.
        permission: What may be unpickled.
        state: What is to be loaded into: if it has "ranks" itself, that means nothing particular.
        rank: Which.
        of_another: Whether another rank wrote the file.
    """
    objects = load_objects(native, permission, of_another)
    tensors = [Stored(ordinal) for ordinal in range(len(native.tensors()))]

    def make_object(ordinal: int, _tag: str, _path: list[Any]) -> Any:
        return objects[ordinal]

    attributes = rebuild.attributes_of(native)
    own = Own(rank, None, of_another)
    own.root = ("",) if attributes.get(rebuild.ROOT_ATTRIBUTE) == "value" else ()
    own.anothers = frozenset(native.rank_own()) if of_another else frozenset()
    if not _holds_ranks(native, state):
        own.stored = rebuild.state(native, tensors, make_object, _tagged, of_another)
        return own
    root = native.build(
        tensors,
        make_object,
        lambda tag, value, _: merged.Tagged(tag, value),
        shared_only=of_another,
    )
    found = merged.of_rank(root, rank)
    own.stored = rebuild.unwrap(merged.resolve(found.root, (), _tagged), attributes)
    if not own.root and found.root.keys() == {""} and not (isinstance(state, dict) and "" in state):
        own.stored, own.root = own.stored[""], ("",)  # Beside "ranks" a root was a dict.
    own.merged = True
    own.of_another = not found.saved
    if found.saved:
        own.anothers = frozenset()
    own.lacked = frozenset(path[len(own.root) :] for path in found.own)
    own.unshared = [path[len(own.root) :] for path in found.unshared]
    return own


def _holds_ranks(native: _native.File, state: Any) -> bool:
    if not native.has_tree() or (isinstance(state, dict) and RANKS in state):
        return False
    nothing = [None] * len(native.tensors())
    with text_of(native.path):
        return merged.has_ranks(native.build(nothing, lambda *_: None, lambda *_: None))


def _tagged(tag: str, value: Any, path: list[Any]) -> Any:
    if isinstance(value, Stored):
        return Stored(value.ordinal, tag)
    return rebuild.rebuild(tag, value, path)


@dataclass
class Fills:
    """Tensors of a state that are filled from one file, in one call."""

    native: _native.File
    infos: Sequence[Info]
    requests: dict[tuple[int, int], Request] = field(default_factory=dict)
    filled: dict[tuple[Any, ...], int] = field(default_factory=dict)
    finish: list[Callable[[], Any]] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    extents: list[overlaps.Extent] = field(default_factory=list)

    def add(self, tensor: Any, stored: Stored, path: Path) -> str | None:
        """Notes one tensor, or returns how it differs from the stored one."""
        target = target_of(tensor)
        info, found = self.infos[stored.ordinal], target.found
        if (found.dtype, found.shape) != (info[1], info[3]):
            return (
                f"{found.dtype} {list(found.shape)} in the state, {info[1]} {list(info[3])} in "
                "the file"
            )
        if found.tag.partition(":")[2] != stored.tag.partition(":")[2]:
            return f"{found.tag} in the state, {stored.tag or info[1]} in the file"
        if info[5] == 0:
            return None
        place = (found.address, found.shape, found.strides)
        before = self.filled.setdefault(place, stored.ordinal)
        if before != stored.ordinal and not self._equal(before, stored.ordinal):
            return f"shares memory in the state with what {self.infos[before][0]!r} is in the file"
        self.requests[found.address, stored.ordinal] = _request(info, target)
        self.tensors.append(tensor)
        if target.finish is not None:
            self.finish.append(target.finish)
        elif not found.copied:
            extent = overlaps.Extent(path, before, target, info[5], lambda: self._read(info))
            self.extents.append(extent)
        return None

    def _read(self, info: Info) -> bytes:
        held = bytearray(info[5])
        address = ctypes.addressof((ctypes.c_char * len(held)).from_buffer(held))
        self.native.load([(info[0], address, len(held), None, -1, 0)], verify=False)
        return bytes(held)

    def _equal(self, one: int, other: int) -> bool:
        digest = self.native.digest(one)
        return digest is not None and digest == self.native.digest(other)

    def load(self, verify: bool) -> None:
        """Fills all of them."""
        if self.requests:
            self.native.load(list(self.requests.values()), verify=verify)
        for finish in self.finish:
            finish()
        count_versions(self.tensors)


def _request(info: Info, target: Target) -> Request:
    found = target.found
    stream = streams.current(found.device) if found.device >= 0 else 0
    room = info[5]
    if found.strides is not None:
        count = math.prod(found.shape)
        reach = 1 + sum((n - 1) * stride for n, stride in zip(found.shape, found.strides))
        room = room // count * reach
    return (info[0], found.address, room, found.strides, found.device, stream)


def fence_writers() -> None:
    """Loading into a tensor is an update: saves under way have to have read it."""
    capture.fence_all()


def count_versions(tensors: Sequence[Any]) -> None:
    """Tells autograd, and the tripwire of saves under way, that these tensors changed."""
    torch: Any = sys.modules.get("torch")
    count = getattr(torch.autograd.graph, "increment_version", None) if torch else None
    if count is None:
        return
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and not tensor.is_inference():
            count(tensor)
