"""Which box of a distributed tensor the local shard is."""

from __future__ import annotations

import math
import sys
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
    shard = tensor.detach().to_local()
    wait = getattr(shard, "wait", None)  # An AsyncCollectiveTensor is still being filled.
    found: torch.Tensor = wait() if wait is not None else shard
    return found


def pieces(tensor: Any, name: str) -> list[_native.Piece]:
    """What the local shard of a DTensor holds of the whole.

    Args:
        tensor: A DTensor.
        name: Name of the whole, the same on all ranks.

    Raises:
        DsckptError: Unsupported; see box().
    """
    from torch.distributed.tensor import Replicate

    copies = any(
        isinstance(placement, Replicate) and size > 1
        for placement, size in zip(tensor.placements, tensor.device_mesh.shape)
    )
    group = _REPLICAS if copies else 0
    return [_native.Piece(name, list(tensor.shape), box=box(tensor), replica_group=group)]


def box(tensor: Any) -> Box:
    """The part of a DTensor that this rank holds: one range a dimension; empty on no rank of it.

    Raises:
        DsckptError: Unsupported, when the shard is no box, or its elements are partial sums.
    """
    found = [(0, size) for size in tensor.shape]
    coordinate = tensor.device_mesh.get_coordinate()
    if coordinate is None:
        return [(0, 0)] * len(found)
    for mesh_dim in _split_order(tensor.placements):
        placement = tensor.placements[mesh_dim]
        if placement.is_partial():
            raise DsckptError(
                f"a DTensor is placed {tensor.placements}: its elements are partial sums; "
                "redistribute it before saving",
                "Unsupported",
            )
        if hasattr(placement, "dim"):
            parts = tensor.device_mesh.size(mesh_dim)
            begin, end = found[placement.dim]
            found[placement.dim] = _chunk(begin, end, coordinate[mesh_dim], parts)
    shape = tuple(end - begin for begin, end in found)
    if shape != tuple(local(tensor).shape):
        raise DsckptError(
            f"a DTensor placed {tensor.placements} has a local shard of shape "
            f"{tuple(local(tensor).shape)} where {shape} was expected: the shard is no box",
            "Unsupported",
        )
    return found


def _split_order(placements: Any) -> list[int]:
    # A strided shard was split after the plain ones to its right: FSDP over tensor parallel.
    order = range(len(placements))
    strided = [i for i in order if "Strided" in type(placements[i]).__name__]
    return [i for i in order if i not in strided] + strided[::-1]


def _chunk(begin: int, end: int, index: int, count: int) -> tuple[int, int]:
    rows = math.ceil((end - begin) / count)
    return min(begin + index * rows, end), min(begin + (index + 1) * rows, end)
