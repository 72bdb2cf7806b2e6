"""Fills tensors from the parts of a checkpoint that a load plan names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from .. import _native, dtypes, streams
from ..checkpoint import Checkpoint
from ..errors import text_of
from ..tensor_info import buffer_at
from .items import Stored

_BATCH_BYTES = 256 << 20
Box = list[tuple[int, int]]


@dataclass(frozen=True)
class Part:
    """A box of a stored tensor, and where it goes.

    Attributes:
        name: Of the logical tensor.
        box: In the logical tensor.
        dtype: Of the stored elements.
        stored: Where it lies, when it is all of one stored tensor; else None.
        target: Tensor of the box's shape, of any dtype, on any device.
    """

    name: str
    box: Box
    dtype: torch.dtype
    stored: Stored | None
    target: torch.Tensor

    @property
    def nbytes(self) -> int:
        """Of the elements as stored."""
        return math.prod(end - begin for begin, end in self.box) * self.dtype.itemsize

    @property
    def fits(self) -> bool:
        """Whether the elements can be read to where they go."""
        device = self.target.device.type
        where = device == "cpu" or (device == "cuda" and self.stored is not None)
        return where and self.target.dtype == self.dtype and self.target.is_contiguous()


class Reading:
    """Collects parts and reads them in few large calls. Not thread-safe."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._shards: dict[str, _native.File] = {}
        self._whole: dict[str, list[Any]] = {}
        self._boxes: list[tuple[str, Box | None, Any]] = []
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._copy_bytes = 0

    def shard(self, name: str) -> _native.File:
        """Opens a file of the checkpoint, once.

        Raises:
            DsckptError: Incomplete, Mismatch, ...
        """
        if name not in self._shards:
            names = [shard[0] for shard in self._checkpoint.shards]
            self._shards[name] = self._checkpoint.native.open_shard(names.index(name))
        return self._shards[name]

    def add(self, part: Part) -> None:
        """Reads a part, now or at finish()."""
        if part.nbytes == 0:
            return
        if part.stored is not None and (part.fits or not dtypes.torch_name(part.dtype)):
            self._add_whole(part, part.stored)
        elif part.fits:
            self._add_box(part, part.target)
        else:
            copy = torch.empty(part.target.shape, dtype=part.dtype)
            self._add_box(part, copy)
            self._later(copy, part)

    def finish(self) -> None:
        """Reads what is left.

        Raises:
            DsckptError: Incomplete, Mismatch, Corrupt, ...
        """
        for shard, requests in self._whole.items():
            self.shard(shard).load(requests)
        if self._boxes:
            self._checkpoint.native.read(self._boxes)
        for target, copy in self._copies:
            target.copy_(copy)
        self._whole, self._boxes, self._copies, self._copy_bytes = {}, [], [], 0

    def _add_whole(self, part: Part, stored: Stored) -> None:
        target = part.target
        if not part.fits:
            target = torch.empty(part.target.shape, dtype=part.dtype)
            self._later(target, part)
        device, stream = -1, 0
        if target.device.type == "cuda":
            device = target.device.index
            stream = streams.current(device)
        request = (stored.name, target.data_ptr(), target.nbytes, None, device, stream)
        self._whole.setdefault(stored.shard, []).append(request)

    def _add_box(self, part: Part, target: torch.Tensor) -> None:
        self._boxes.append((part.name, part.box, buffer_at(target.data_ptr(), target.nbytes)))

    def _later(self, copy: torch.Tensor, part: Part) -> None:
        self._copies.append((part.target, copy))
        self._copy_bytes += copy.nbytes
        if self._copy_bytes >= _BATCH_BYTES:
            self.finish()


def values_of(native: _native.File) -> dict[Any, Any]:
    """The plain values of a file, at their keys. Tensors and objects are None; nothing is run."""
    if not native.has_tree():
        return {}
    nothing = [None] * len(native.tensors())
    with text_of(native.path):
        root: dict[Any, Any] = native.build(
            nothing, lambda _ordinal, _tag, _path: None, lambda _tag, value, _path: value
        )
    return root
