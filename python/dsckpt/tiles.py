"""Stretches of tensors in all checkpoints of a run: all steps of some elements fit memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _native, dtypes
from .errors import DsckptError

if TYPE_CHECKING:
    import numpy

_LEAST_ELEMENTS = 4096
"""So that a thousand small reads of one tensor are not the rule."""


class Tile:
    """Some elements of one tensor, in the checkpoints that have it in its last dtype and shape.

    Attributes:
        name: The name of the tensor.
        dtype: In the spelling of safetensors.
        range: The first element and the one behind the last, in row-major order.
        checkpoints: The positions of those checkpoints in the run.
        same: For each of them, whether its index says that the tensor is that of the one before.
    """

    def __init__(
        self,
        native: _native.Trajectory,
        ordinal: int,
        row: _native._TensorRow,
        range: tuple[int, int],
        checkpoints: tuple[int, ...],
        same: tuple[bool, ...],
    ) -> None:
        self._native = native
        self._ordinal = ordinal
        self.name: str = row[0]
        self.dtype: str = row[1]
        self.range = range
        self.checkpoints = checkpoints
        self.same = same

    def step(self, t: int) -> numpy.ndarray[Any, Any]:
        """The elements in one checkpoint, one after the other.

        Args:
            t: The position among `checkpoints`.

        Returns:
            The mapped file itself where it holds the tensor whole and raw; else what was read, its
            checksums checked.

        Raises:
            DsckptError: Errors of reading.
        """
        import numpy

        dtype = dtypes.numpy_dtype(self.dtype)
        begin, end = (each * dtype.itemsize for each in self.range)
        checkpoint = self.checkpoints[t]
        view = self._native.mapped(checkpoint, self._ordinal)
        if view is not None:
            return numpy.frombuffer(view, dtype, (end - begin) // dtype.itemsize, begin)
        own = bytearray(end - begin)
        self._native.read(checkpoint, self._ordinal, own, offset=begin)
        return numpy.frombuffer(own, dtype)

    @property
    def f32(self) -> numpy.ndarray[Any, Any]:
        """All steps as one new array of float32: a row a checkpoint, a column an element.

        What is `same` is not read again.

        Raises:
            DsckptError: Unsupported, for complex elements; errors of reading.
        """
        import numpy

        if dtypes.numpy_dtype(self.dtype).kind == "c":
            raise DsckptError(
                f"{self.name!r} is {self.dtype}, which float32 does not hold: use step()",
                "Unsupported",
            )
        rows = numpy.empty((len(self.checkpoints), self.range[1] - self.range[0]), numpy.float32)
        for t, same in enumerate(self.same):
            rows[t] = rows[t - 1] if same else self.step(t)
        return rows

    def __repr__(self) -> str:
        begin, end = self.range
        steps = len(self.checkpoints)
        return f"Tile({self.name!r}, {self.dtype}, [{begin}:{end}], {steps} checkpoints)"


def of_tensor(
    native: _native.Trajectory,
    count: int,
    ordinal: int,
    row: _native._TensorRow,
    memory: int,
) -> Iterator[Tile]:
    """The tiles of one tensor, none of a packed dtype.

    Args:
        native: The trajectory.
        count: How many checkpoints it has.
        ordinal: The tensor.
        row: What is known of it.
        memory: How many bytes the `f32` of a tile takes at most.
    """
    form = row[1], row[2]
    if row[1] in dtypes.PACKED_BITS:
        return
    digests = native.digests([ordinal])
    checkpoints: list[int] = []
    same: list[bool] = []
    for t in range(count):
        found = native.form(t, ordinal)
        if found is None or found[:2] != form:
            continue
        here = digests[16 * t : 16 * (t + 1)]
        before = digests[16 * checkpoints[-1] :][:16] if checkpoints else b""
        same.append(any(here) and here == before)
        checkpoints.append(t)
    total = math.prod(row[2])
    elements = max(_LEAST_ELEMENTS, memory // (4 * len(checkpoints)))
    for begin in range(0, total, elements):
        extent = begin, min(begin + elements, total)
        yield Tile(native, ordinal, row, extent, tuple(checkpoints), tuple(same))
