"""Which box of a distributed tensor the local shard is."""

from __future__ import annotations

import functools
import math
import sys
import weakref
from typing import TYPE_CHECKING, Any

from . import _native
from .errors import DsckptError

if TYPE_CHECKING:
    import torch

Box = list[tuple[int, int]]
_REPLICAS = 1


def is_dtensor(tensor: torch.Tensor) -> bool:
    """Whether it is a torch.distributed.tensor.DTensor. Imports nothing: one that exists has."""
    module: Any = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Any) -> torch.Tensor:
    """The local shard of a DTensor, without autograd."""
    # States have hundreds: to_local() asks autograd, and takes longer than all else of a save.
    shard = getattr(tensor, "_local_tensor", None)
    if shard is None:
        shard = tensor.detach().to_local()
    wait = getattr(shard, "wait", None)  # An AsyncCollectiveTensor is still being filled.
    found: torch.Tensor = (wait() if wait is not None else shard).detach()
    return found


def pieces(tensor: Any, name: str) -> list[_native.Piece]:
    """What the local shard of a DTensor holds of the whole.

    Args:
        tensor: A DTensor.
        name: Name of the whole, the same on all ranks.

    Raises:
        DsckptError: Unsupported; see box().
    """
    copies = _has_copies(tensor.placements, _shape_of(tensor.device_mesh))
    group = _REPLICAS if copies else 0
    return [_native.Piece(name, tuple(tensor.shape), box=box(tensor), replica_group=group)]


def box(tensor: Any) -> Box:
    """The part of a DTensor that this rank holds: one range a dimension; empty on no rank of it.

    Raises:
        DsckptError: Unsupported, when the shard is no box, or its elements are partial sums.
    """
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return [(0, 0)] * len(tensor.shape)
    placements = tensor.placements
    found, shape = _box(tuple(tensor.shape), _shape_of(mesh), tuple(coordinate), placements)
    held = tuple(local(tensor).shape)
    if shape != held:
        raise DsckptError(
            f"a DTensor placed {placements} has a local shard of shape {held} where {shape} was "
            "expected: the shard is no box",
            "Unsupported",
        )
    return list(found)


_shapes: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = weakref.WeakKeyDictionary()


def _shape_of(mesh: Any) -> tuple[int, ...]:
    """A mesh's shape, which takes it longer to say than all else that is asked here."""
    found = _shapes.get(mesh)
    if found is None:
        found = _shapes[mesh] = tuple(mesh.shape)
    return found


@functools.lru_cache(maxsize=4096)
def _box(
    whole: tuple[int, ...], mesh: tuple[int, ...], coordinate: tuple[int, ...], placements: Any
) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """A rank's box of a tensor, and its shape. Depends on nothing else, so it is made once."""
    found = [(0, size) for size in whole]
    for mesh_dim in _split_order(placements):
        placement = placements[mesh_dim]
        if placement.is_partial():
            raise DsckptError(
                f"a DTensor is placed {placements}: its elements are partial sums; "
                "redistribute it before saving",
                "Unsupported",
            )
        if hasattr(placement, "dim"):
            begin, end = found[placement.dim]
            found[placement.dim] = _chunk(begin, end, coordinate[mesh_dim], mesh[mesh_dim])
    return tuple(found), tuple(end - begin for begin, end in found)


@functools.lru_cache(maxsize=4096)
def _has_copies(placements: Any, mesh: tuple[int, ...]) -> bool:
    from torch.distributed.tensor import Replicate

    return any(
        isinstance(placement, Replicate) and size > 1 for placement, size in zip(placements, mesh)
    )


def _split_order(placements: Any) -> list[int]:
    # A strided shard was split after the plain ones to its right: FSDP over tensor parallel.
    order = range(len(placements))
    strided = [i for i in order if "Strided" in type(placements[i]).__name__]
    return [i for i in order if i not in strided] + strided[::-1]


def _chunk(begin: int, end: int, index: int, count: int) -> tuple[int, int]:
    rows = math.ceil((end - begin) / count)
    return min(begin + index * rows, end), min(begin + (index + 1) * rows, end)
