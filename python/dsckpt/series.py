"""One tensor in all checkpoints of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _native, arguments, dtypes
from .tensor_info import TensorStatistics

if TYPE_CHECKING:
    import numpy


def position_of(step: int, steps: Sequence[int | None]) -> int:
    """The position of the checkpoint of a step; of several the last one. KeyError."""
    if step not in steps:
        raise KeyError(f"no checkpoint of step {step}: `steps` has those there are")
    return len(steps) - 1 - steps[::-1].index(step)


class TensorSeries:
    """One tensor in all checkpoints of a run, read when it is used. Thread-safe.

    Iterating gives (step, array) for each checkpoint that has the tensor.

    Attributes:
        name: Its name.
        dtype: In the spelling of safetensors, in the last checkpoint that has it.
        shape: In that checkpoint.
        forms: How many different pairs of dtype and shape it has.
    """

    def __init__(
        self,
        native: _native.Trajectory,
        checkpoints: Sequence[tuple[int | None, str, str, dict[str, Any], str | None]],
        ordinal: int,
        row: _native._TensorRow,
    ) -> None:
        self._native = native
        self._checkpoints = checkpoints
        self._ordinal = ordinal
        self.name: str = row[0]
        self.dtype: str = row[1]
        self.shape: tuple[int, ...] = row[2]
        self.forms: int = row[6]

    @property
    def steps(self) -> list[int | None]:
        """The step of each checkpoint of the run, whether it has the tensor or not."""
        return [row[0] for row in self._checkpoints]

    def __len__(self) -> int:
        return len(self._checkpoints)

    def at(self, *, step: int) -> numpy.ndarray[Any, Any]:
        """The tensor in the checkpoint of a step.

        Args:
            step: Of several checkpoints of this step the last one counts.

        Raises:
            KeyError: There is none, or it lacks the tensor.
        """
        return self._read(position_of(arguments.integer("step", step), self.steps))

    def statistics(self, t: int) -> TensorStatistics | None:
        """What its elements are, in numbers, without reading them.

        Args:
            t: The position of the checkpoint.

        Returns:
            None where the checkpoint does not say; see Checkpoint.statistics().
        """
        found = self._native.statistics(self._position(t), self._ordinal)
        return TensorStatistics(*found) if found else None

    def __getitem__(self, index: Any) -> numpy.ndarray[Any, Any]:
        """weight[5], weight[-1, :64], weight[10:20, 0]: checkpoints, then elements.

        Returns:
            For one checkpoint that holds the tensor whole and raw, the mapped file itself, read
            only: nothing is copied, read or checked before it is used. Of all others checksums are
            checked. For a slice of checkpoints a new array, the checkpoints first.

        Raises:
            KeyError: A checkpoint lacks the tensor.
            DsckptError: Errors of reading.
        """
        import numpy

        first, *rest = index if isinstance(index, tuple) else (index,)
        if not isinstance(first, slice):
            found = self._read(self._position(first))
            return found[tuple(rest)] if rest else found
        positions = range(*first.indices(len(self)))
        taken = [self._read(t)[tuple(rest)] for t in positions]
        if not taken:
            raise IndexError("the slice holds no checkpoint")
        return numpy.stack(taken)

    def __iter__(self) -> Iterator[tuple[int | None, numpy.ndarray[Any, Any]]]:
        for t, step in enumerate(self.steps):
            if self._native.form(t, self._ordinal) is not None:
                yield step, self._read(t)

    def _position(self, t: Any) -> int:
        position = arguments.integer("the position of a checkpoint", t)
        if not -len(self) <= position < len(self):
            raise IndexError(f"no checkpoint {position}: there are {len(self)}")
        return position % len(self)

    def _read(self, t: int) -> numpy.ndarray[Any, Any]:
        import numpy

        form = self._native.form(t, self._ordinal)
        if form is None:
            raise KeyError(f"{self._checkpoints[t][1]} has no tensor {self.name!r}")
        dtype, shape, nbytes = form
        elements = self._native.view(t, self._ordinal)
        if elements is None:
            own = bytearray(nbytes)
            if nbytes:
                self._native.read(t, self._ordinal, own)
            elements = memoryview(own)
        if dtype in dtypes.PACKED_BITS:
            return dtypes.unpack(numpy.frombuffer(elements, numpy.uint8), dtype, shape)
        return numpy.frombuffer(elements, dtypes.numpy_dtype(dtype)).reshape(shape)

    def __repr__(self) -> str:
        form = f"{self.dtype}, {list(self.shape)}"
        return f"TensorSeries({self.name!r}, {len(self)} checkpoints, {form})"
