"""Turns an index expression into the box of a tensor that has to be read."""

from __future__ import annotations

import operator
from typing import Any

Box = list[tuple[int, int]]


def to_box(index: Any, shape: tuple[int, ...]) -> tuple[Box, tuple[Any, ...]]:
    """Splits an index in two.

    Args:
        index: Ints, slices and at most one Ellipsis, alone or in a tuple.
        shape: Of the tensor.

    Returns:
        The smallest box that holds what is asked for, one range a dimension; and the index that
        takes it out of the box.

    Raises:
        IndexError: Out of range, or more indices than dimensions.
        TypeError: Something else than ints, slices and Ellipsis.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can have one '...' only")
    given = len([part for part in parts if part is not Ellipsis])
    if given > len(shape):
        raise IndexError(f"{given} indices for a tensor of {len(shape)} dimensions")
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[at : at + 1] = [slice(None)] * (len(shape) - given)
    box: Box = []
    rest: list[Any] = []
    for dim, (part, size) in enumerate(zip(parts, shape)):
        begin, end, inner = _range(part, dim, size)
        box.append((begin, end))
        rest.append(inner)
    return box, tuple(rest)


def _range(part: Any, dim: int, size: int) -> tuple[int, int, Any]:
    if isinstance(part, slice):
        positions = range(*part.indices(size))
        if positions.step < 0:
            raise IndexError("slices with a negative step are not supported: flip the result")
        if not positions:
            return 0, 0, slice(None)
        return positions[0], positions[-1] + 1, slice(None, None, positions.step)
    if isinstance(part, bool) or not hasattr(part, "__index__"):
        raise TypeError(f"a stored tensor is indexed by ints, slices and '...', not by {part!r}")
    position = operator.index(part)
    if not -size <= position < size:
        raise IndexError(f"index {position} is out of range for dimension {dim} of size {size}")
    position %= size
    return position, position + 1, 0
