"""Tensors of a state that share memory: what is loaded into one must not change another."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import place
from .state_diff import Path, Target

_TRIES = 1 << 16
"""of numpy.shares_memory(), and pairs of tensors to ask it about"""


@dataclass(eq=False)
class Extent:
    """Where a tensor is loaded to.

    Args:
        path: Its place in the state.
        item: What is loaded; equal for equal elements, where that is known.
        target: The memory.
        nbytes: Of all elements.
        read: The stored bytes of all elements.
    """

    path: Path
    item: object
    target: Target
    nbytes: int
    read: Callable[[], bytes]
    begin: int = field(init=False)
    end: int = field(init=False)

    def __post_init__(self) -> None:
        found = self.target.found
        self.begin = found.address
        reach = self.nbytes
        if found.strides is not None:
            steps = sum((n - 1) * stride for n, stride in zip(found.shape, found.strides))
            reach = self.element * (1 + steps)
        self.end = self.begin + reach

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return self.nbytes // math.prod(self.target.found.shape)


def lines(extents: Sequence[Extent]) -> list[str]:
    """Says which tensors share memory with another one that has other elements in the file.

    Costs next to nothing where none share memory; else what these hold is read once more.
    """
    found: list[str] = []
    alive: list[Extent] = []
    read: dict[Extent, bytes] = {}
    tries = _TRIES
    for one in sorted(extents, key=lambda each: (each.target.found.device, each.begin, each.end)):
        device = one.target.found.device
        alive = [
            each for each in alive if each.end > one.begin and each.target.found.device == device
        ]
        if not alive:
            read.clear()
        for other in alive:
            tries -= 1
            if tries < 0 or not _fit(other, one, read):
                found.append(
                    f"{place(one.path)}: shares memory in the state with {place(other.path)}, but "
                    "not what the file has for both"
                )
                break
        alive.append(one)
    return found


def _fit(one: Extent, other: Extent, read: dict[Extent, bytes]) -> bool:
    """Whether both can be loaded. `other` begins inside of `one`, or where that does."""
    if one.item == other.item and _place(one) == _place(other):
        return True
    if one.target.found.strides is not None or other.target.found.strides is not None:
        return not _share(one, other)
    for each in (one, other):
        if each not in read:
            read[each] = each.read()
    end = min(one.end, other.end)
    part = memoryview(read[one])[other.begin - one.begin : end - one.begin]
    return part == memoryview(read[other])[: end - other.begin]


def _place(each: Extent) -> tuple[Any, ...]:
    found = each.target.found
    return found.address, found.shape, found.strides


def _share(one: Extent, other: Extent) -> bool:
    """Whether views with gaps have an element in common, such as columns of one matrix."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return True
    try:
        return bool(numpy.shares_memory(_view(one), _view(other), max_work=_TRIES))
    except Exception:  # Too hard a question.
        return True


def _view(each: Extent) -> Any:
    """An array that stands for the memory, and is never looked into: it may lie on a device."""
    import numpy

    found, element = each.target.found, each.element
    strides = None if found.strides is None else tuple(s * element for s in found.strides)
    shown = {
        "data": (found.address, False),
        "shape": found.shape,
        "strides": strides,
        "typestr": f"|V{element}",
        "version": 3,
    }
    holder = type("Shown", (), {"__array_interface__": shown})()
    return numpy.asarray(holder)
