"""The tensors of a checkpoint as the job has them, whole, and host memory for parts of them."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

from . import _native
from .materialize import Info, backend_for


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of the job, whole.

    Attributes:
        name: The path of keys in the state, joined by "/".
        dtype: In the spelling of safetensors.
        shape: In elements.
        nbytes: Of all elements.
        pieces: In how many parts and copies it is stored.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    pieces: int

    def as_info(self, shape: tuple[int, ...], nbytes: int) -> Info:
        """As a file lists a tensor of that shape."""
        return (self.name, self.dtype, 0, shape, 0, nbytes, nbytes, "raw")


@dataclass(frozen=True)
class TensorStatistics:
    """What the elements of a tensor are, in numbers. Complex elements count by their modulus.

    Attributes:
        nan: How many are NaN.
        inf: How many are infinities.
        zero: How many are 0 or -0.
        min: The least of the finite elements; NaN where there is none.
        max: The greatest of them.
        sum: Their sum.
        sum_squares: The sum of their squares.
    """

    nan: int
    inf: int
    zero: int
    min: float
    max: float
    sum: float
    sum_squares: float


class TensorTable:
    """The tensors of a checkpoint by name, listed when they are first asked for. Thread-safe.

    Attributes:
        native: The checkpoint.
    """

    def __init__(self, native: _native.Checkpoint) -> None:
        self.native = native
        self._listed: tuple[dict[str, TensorInfo], dict[str, int]] | None = None

    @property
    def infos(self) -> dict[str, TensorInfo]:
        """All of them, in the order of their names."""
        return self._list()[0]

    def ordinal(self, name: str) -> int:
        """How the compiled part calls a tensor. Raises KeyError."""
        return self._list()[1][name]

    def _list(self) -> tuple[dict[str, TensorInfo], dict[str, int]]:
        if self._listed is None:
            rows = self.native.tensors()
            infos = {row[0]: TensorInfo(*row) for row in rows}
            self._listed = infos, {row[0]: ordinal for ordinal, row in enumerate(rows)}
        return self._listed


def allocate(info: TensorInfo, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Host memory for a part of a tensor: the tensor or array, and its bytes (None: no bytes)."""
    nbytes = info.nbytes * math.prod(shape) // max(1, math.prod(info.shape))
    made, address = backend_for(None).empty(info.as_info(shape, nbytes))
    return made, buffer_at(address, nbytes)


def buffer_at(address: int, nbytes: int) -> Any:
    """Writable memory that somebody else owns; None where there is none."""
    return (ctypes.c_char * nbytes).from_address(address) if nbytes else None
