"""What one rank stores of a save plan, and under which names."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.checkpoint import SavePlan, SavePlanner
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.planner import WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from .. import _native, memory, tree
from ..errors import DsckptError

MEDIA_TYPE = "application/x-torch-save"
"""Of objects that the planner serialized with torch.save()."""

_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes})
_MAX_DEPTH = 100


@dataclass(frozen=True)
class Stored:
    """Where an item of the plan lies: the storage data of this package in DCP's metadata."""

    shard: str
    """file name in the checkpoint's directory"""
    name: str
    """of the tensor, object or leaf in that file"""


@dataclass(frozen=True)
class TensorItem:
    """A tensor of the plan, with the part of the whole that it is."""

    tensor: torch.Tensor
    pieces: tuple[_native.Piece, ...]


@dataclass(frozen=True)
class BytesItem:
    """An object of the plan, as the planner serialized it."""

    payload: memoryview


def key_of(fqn: str, offsets: Sequence[int], sizes: Sequence[int], shape: Sequence[int]) -> str:
    """Key of a chunk in its rank's state: the name alone of a whole tensor, else with its box.

    A chunk of rows 2 and 3 of a tensor "w" of shape [8, 3] is "w[2:4,0:3]".
    """
    if tuple(sizes) == tuple(shape):
        return fqn
    box = ",".join(f"{begin}:{begin + size}" for begin, size in zip(offsets, sizes))
    return f"{fqn}[{box}]"


def fqn_of(name: str) -> str:
    """What DCP's planners call the tensor of a nested state that is stored under `name`."""
    segments = (segment.removeprefix("~s") for segment in name.split("/"))
    return ".".join(segment.replace("~1", "/").replace("~0", "~") for segment in segments)


def resolve(
    plan: SavePlan, planner: SavePlanner, shard: str
) -> tuple[dict[str, Any], list[WriteResult]]:
    """Looks up everything that the plan gives this rank to write.

    Args:
        plan: This rank's final plan.
        planner: Gives the data of its items.
        shard: Name of the file that they go into.

    Returns:
        The rank's state, of TensorItem, BytesItem and plain values, and what DCP wants to know of
        each item.

    Raises:
        DsckptError: InvalidArgument, when two items have one name, or a tensor is not strided.
    """
    state: dict[str, Any] = {}
    results = []
    for item in plan.items:
        key, value, size = _resolve_item(item, planner)
        if key in state:
            raise DsckptError(
                f"the plan has two items called {key!r}: give them different names",
                "InvalidArgument",
            )
        state[key] = value
        results.append(WriteResult(item.index, size, Stored(shard, tree.item_name([key]))))
    return state, results


def _resolve_item(item: WriteItem, planner: SavePlanner) -> tuple[str, Any, int]:
    fqn = item.index.fqn
    if item.type == WriteItemType.BYTE_IO:
        value = _plain_value(item, planner)
        if value is not _NOTHING:
            return fqn, value, 0
        stream = planner.resolve_data(item)
        assert isinstance(stream, io.BytesIO)
        payload = stream.getbuffer()
        return fqn, BytesItem(payload), payload.nbytes
    tensor = planner.resolve_data(item)
    data = item.tensor_data
    assert isinstance(tensor, torch.Tensor)
    assert data is not None
    if not memory.is_plain_strided(tensor):
        raise DsckptError(
            f"{fqn} is a {type(tensor).__name__} of layout {tensor.layout}: only strided tensors, "
            "and DTensors of these, can be stored; make it dense before saving",
            "InvalidArgument",
        )
    offsets, sizes, shape = data.chunk.offsets, data.chunk.sizes, data.size
    if tuple(tensor.shape) != tuple(sizes):
        raise DsckptError(
            f"{fqn}: the plan says that this rank has a part of shape {list(sizes)}, but it is "
            f"{list(tensor.shape)}",
            "InvalidArgument",
        )
    if tensor.device.type == "cuda":
        tensor = tensor.contiguous()  # The engine reads no strides on devices.
    key = key_of(fqn, offsets, sizes, shape)
    pieces: tuple[_native.Piece, ...] = ()
    if key != fqn:
        box = [(begin, begin + size) for begin, size in zip(offsets, sizes)]
        pieces = (_native.Piece(tree.item_name([fqn]), list(shape), box=box),)
    return key, TensorItem(tensor, pieces), math.prod(sizes) * tensor.element_size()


_NOTHING = object()


def _plain_value(item: WriteItem, planner: SavePlanner) -> Any:
    """The value of an item, where the state tree holds it as it is, else _NOTHING."""
    if not isinstance(planner, DefaultSavePlanner):
        return _NOTHING
    if type(planner).transform_object is not DefaultSavePlanner.transform_object:
        return _NOTHING
    value = planner.lookup_object(item.index)
    return value if is_plain(value) else _NOTHING


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether the state tree holds a value as it is: scalars, and plain containers of these."""
    kind = type(value)
    if kind is str:
        return _is_utf8(value)
    if kind in _SCALARS:
        return True
    if depth == _MAX_DEPTH:
        return False
    if kind is list or kind is tuple:
        return all(is_plain(element, depth + 1) for element in value)
    if kind is dict:
        return _native.plain_keys(value) and all(is_plain(v, depth + 1) for v in value.values())
    return False


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def classify(value: Any, path: list[Any]) -> tuple[Any, ...]:
    """tree.classify(), for states that resolve() made."""
    if isinstance(value, BytesItem):
        return ("object", MEDIA_TYPE, value.payload, "torch.save")
    if not isinstance(value, TensorItem):
        return tree.classify(value, path)
    found = memory.of_tensor(value.tensor)
    if value.pieces and found.shape != tuple(value.tensor.shape):
        raise DsckptError(
            f"{path[0]}: a part of a tensor of {value.tensor.dtype} cannot be stored: the format "
            "has no such dtype",
            "Unsupported",
        )
    return ("tensor", tree.spec(found, value.pieces))
