"""Many checkpoints of a training run as one thing, by their indexes."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from . import _native, arguments, dtypes
from .errors import DsckptError
from .paths import settle
from .tensor_info import TensorStatistics

if TYPE_CHECKING:
    import numpy

StrPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class TrajectoryEvent:
    """One thing that happened in a run, as far as indexes tell it.

    Attributes:
        kind: "nan", "inf", "jump", "duplicate", "frozen", "dead", "reshaped", "retyped", "added",
            "removed" or "missing_step": what `dsckpt trace` prints.
        checkpoint: The checkpoint in which it shows, by position.
        step: Its step; of "missing_step" the first that is missing.
        other: The checkpoint to compare with, by position: the one before, or the one that holds
            the same.
        name: The tensor, where it is about one.
        value: How many elements are NaN or infinite, or the norm, or how many steps are missing.
        threshold: What the norm would have had to stay below.
    """

    kind: str
    checkpoint: int
    step: int | None
    other: int | None
    name: str | None
    value: float | None
    threshold: float | None


class Trajectory:
    """The checkpoints of a run in the order of their steps. Thread-safe.

    Opening reads their indexes, once: names, dtypes, shapes, digests and statistics are then known
    without reading. Tensor data is read when it is used. Checkpoints whose step nobody knows come
    last; those that cannot be read are among `skipped`.

    Example:
        >>> run = dsckpt.Trajectory("runs/a")
        >>> weight = run["layers.3.mlp.up.weight"]
        >>> (weight.at(step=2000) - weight[0]).std()
    """

    def __init__(
        self,
        paths: StrPath | Sequence[StrPath] | Mapping[int, StrPath],
        *,
        step_from: str = "auto",
        max_open_files: int = 256,
    ) -> None:
        """Reads the indexes.

        Args:
            paths: A run: a directory of checkpoints, whatever wrote them; a pattern such as
                "models/step*.safetensors"; a list of checkpoints and runs, among which "RUN@STEP",
                "RUN@latest" and "RUN@-2" are checkpoints of a run; or single checkpoints by step.
            step_from: What tells the step: "auto" (the manifest, the attribute "step", the metadata
                "step", or the name), "attr:KEY", "meta:KEY" or "name:REGEX", whose first group it
                is.
            max_open_files: How many files are open at a time, at most.

        Raises:
            DsckptError: NotFound, where there is no checkpoint; InvalidArgument; what is wrong with
                a checkpoint that was named.
        """
        steps = None
        if isinstance(paths, Mapping):
            steps = arguments.integers("the steps of paths", list(paths.keys()))
            found = [os.fsdecode(path) for path in paths.values()]
        elif isinstance(paths, (str, os.PathLike)):
            found = _expand(os.fsdecode(paths))
        else:
            found = [os.fsdecode(path) for path in paths]
        for path in found:
            settle(path)
        self._native = _native.Trajectory(
            found,
            steps=steps,
            step_from=arguments.text("step_from", step_from),
            max_open_files=arguments.integer("max_open_files", max_open_files, 1),
        )
        self._checkpoints = self._native.checkpoints()
        self._rows = self._native.tensors()
        self._ordinals = {row[0]: ordinal for ordinal, row in enumerate(self._rows)}

    @property
    def steps(self) -> list[int | None]:
        """The step of each checkpoint; None: nothing tells it."""
        return [row[0] for row in self._checkpoints]

    @property
    def paths(self) -> list[str]:
        """The path of each checkpoint."""
        return [row[1] for row in self._checkpoints]

    @property
    def attributes(self) -> list[dict[str, Any]]:
        """The attributes of each checkpoint that are single values; of plain safetensors the
        metadata."""
        return [dict(row[3]) for row in self._checkpoints]

    @property
    def tree_digests(self) -> list[str | None]:
        """One digest of all tensors of each checkpoint; None where one of them has none."""
        return [row[4] for row in self._checkpoints]

    @property
    def names(self) -> list[str]:
        """The names of all tensors, in order."""
        return list(self._ordinals)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """(path, reason) of what lies in a run and was left out."""
        return self._native.skipped()

    @property
    def index_bytes(self) -> int:
        """The size of the indexes, headers and manifests that were gone through."""
        return self._native.index_bytes

    def matching(self, pattern: str) -> list[str]:
        """The names that a pattern matches.

        Args:
            pattern: As for `dsckpt inspect --filter`: "layers.*.{weight,bias}".
        """
        found = self._native.matching(arguments.text("pattern", pattern))
        return [self._rows[ordinal][0] for ordinal in found]

    def digests(self, pattern: str = "*") -> numpy.ndarray[Any, Any]:
        """The digests of tensors, without reading them: equal for equal content, dtype and shape.

        Args:
            pattern: Of names, as for matching(), which gives those of the columns.

        Returns:
            An array of 16 bytes an element (V16), a row for each checkpoint and a column for each
            name. `[t, i].tobytes().hex()` is the digest as `dsckpt hash` prints it; zeros stand for
            none: the checkpoint lacks the tensor, is plain safetensors, or holds it in parts.
        """
        import numpy

        ordinals = self._native.matching(arguments.text("pattern", pattern))
        found = self._native.digests(ordinals)
        shape = len(self._checkpoints), len(ordinals)
        return numpy.frombuffer(found, "V16").reshape(shape)

    def events(self) -> list[TrajectoryEvent]:
        """What happened, as `dsckpt trace --quick` finds it. Nothing is read."""
        return [TrajectoryEvent(*row) for row in self._native.events()]

    def __contains__(self, name: object) -> bool:
        return name in self._ordinals

    def __getitem__(self, name: str) -> TensorSeries:
        """A tensor in all checkpoints. KeyError."""
        if name not in self._ordinals:
            raise KeyError(f"no tensor {name!r} in {len(self._checkpoints)} checkpoints")
        ordinal = self._ordinals[name]
        return TensorSeries(self, self._native, ordinal, self._rows[ordinal])

    def __repr__(self) -> str:
        return f"Trajectory({len(self._checkpoints)} checkpoints, {len(self._rows)} tensors)"


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
        self, run: Trajectory, native: _native.Trajectory, ordinal: int, row: _native._TensorRow
    ) -> None:
        self._run = run
        self._native = native
        self._ordinal = ordinal
        self.name: str = row[0]
        self.dtype: str = row[1]
        self.shape: tuple[int, ...] = row[2]
        self.forms: int = row[6]

    @property
    def steps(self) -> list[int | None]:
        """The step of each checkpoint of the run, whether it has the tensor or not."""
        return self._run.steps

    def __len__(self) -> int:
        return len(self._run.paths)

    def at(self, *, step: int) -> numpy.ndarray[Any, Any]:
        """The tensor in the checkpoint of a step.

        Args:
            step: Of several checkpoints of this step the last one counts.

        Raises:
            KeyError: There is none, or it lacks the tensor.
        """
        steps = self.steps
        step = arguments.integer("step", step)
        if step not in steps:
            raise KeyError(f"no checkpoint of step {step}: `steps` has those there are")
        return self._read(len(steps) - 1 - steps[::-1].index(step))

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
            raise KeyError(f"{self._run.paths[t]} has no tensor {self.name!r}")
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


def _expand(path: str) -> list[str]:
    """What a pattern of the shell matches; a path that exists stands for itself."""
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    found = sorted(glob.glob(path))
    if not found:
        raise DsckptError(f"no path matches {path!r}", "NotFound", path)
    return found
