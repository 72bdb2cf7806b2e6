"""Many checkpoints of a training run as one thing."""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union

from . import _native, arguments, averaging, components, grouping, tiles
from .errors import DsckptError
from .parts import TracePart
from .paths import settle
from .series import TensorSeries, position_of
from .table import Table
from .tiles import Tile

if TYPE_CHECKING:
    import numpy

StrPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class TrajectoryEvent:
    """One thing that happened in a run.

    Attributes:
        kind: "nan", "inf", "jump", "duplicate", "frozen", "dead", "reshaped", "retyped", "added",
            "removed", "coarse" or "missing_step": what `dsckpt trace` prints.
        checkpoint: The checkpoint in which it shows, by position.
        step: Its step; of "missing_step" the first that is missing.
        other: The checkpoint to compare with, by position: the one before, or the one that holds
            the same.
        name: The tensor, where it is about one.
        value: How many elements are NaN or infinite; of "jump" the norm, or where elements were
            read that of the update by step; of "coarse" the root mean square of the update; or how
            many steps are missing.
        threshold: What `value` would have had to stay below to be no jump.
        element: The first element that is NaN, in row-major order, where elements were read.
    """

    kind: str
    checkpoint: int
    step: int | None
    other: int | None
    name: str | None
    value: float | None
    threshold: float | None
    element: int | None = None


class Trajectory:
    """The checkpoints of a run in the order of their steps. Thread-safe.

    Opening reads their indexes, once: names, dtypes, shapes, digests and statistics are then known
    without reading. Tensor data is read when it is used, or measured. Checkpoints whose step nobody
    knows come last; those that cannot be read are among `skipped`.

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
        self._read_indexes(
            found,
            steps,
            arguments.text("step_from", step_from),
            arguments.integer("max_open_files", max_open_files, 1),
        )

    @classmethod
    def _open(
        cls, paths: list[str], steps: list[int] | None, step_from: str, max_open_files: int
    ) -> Trajectory:
        """As the constructor, of paths that stand for themselves."""
        run = cls.__new__(cls)
        run._read_indexes(paths, steps, step_from, max_open_files)
        return run

    def _read_indexes(
        self, paths: list[str], steps: list[int] | None, step_from: str, max_open_files: int
    ) -> None:
        self._native = _native.Trajectory(
            paths, steps=steps, step_from=step_from, max_open_files=max_open_files
        )
        self._step_from = step_from
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
        return [self._rows[ordinal][0] for ordinal in self._matching(pattern)]

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

        ordinals = self._matching(pattern)
        found = self._native.digests(ordinals)
        shape = len(self._checkpoints), len(ordinals)
        return numpy.frombuffer(found, "V16").reshape(shape)

    def events(
        self,
        pattern: str = "*",
        *,
        read: bool = False,
        memory: int = 256 << 20,
        threads: int = 0,
        verify: bool = True,
        cache: StrPath | None = None,
    ) -> list[TrajectoryEvent]:
        """What happened, as `dsckpt trace` finds it.

        Args:
            pattern: Only of tensors whose names match; whether checkpoints are duplicates is told
                from all.
            read: Whether tensors are read. From indexes alone NaN, infinities and norms are known
                where saves recorded statistics, and "coarse" never.
            memory: As in updates(); likewise those below.
            threads: How many; 0: one a core, at most 8.
            verify: Whether checksums are checked.
            cache: A file that keeps measures.

        Raises:
            DsckptError: Errors of reading.
        """
        reading = self._reading(None, memory, threads, verify, cache) if read else None
        rows = _native.events(self._native, self._matching(pattern), reading)
        return [TrajectoryEvent(*row) for row in rows]

    def stats(
        self,
        pattern: str = "*",
        *,
        by: str = "tensor",
        memory: int = 256 << 20,
        threads: int = 0,
        verify: bool = True,
        cache: StrPath | None = None,
    ) -> Table:
        """Reads tensors and says what they are in each checkpoint: a table with the columns of
        updates() that are about one checkpoint.

        Args:
            pattern: As in updates(); likewise those below.
            by: What a row is.
            memory: How many bytes hold elements at a time.
            threads: How many; 0: one a core, at most 8.
            verify: Whether checksums are checked.
            cache: A file that keeps measures.

        Raises:
            DsckptError: Errors of reading.
        """
        reading = self._reading(None, memory, threads, verify, cache)
        return self._measure(self._matching(pattern), by, False, reading)

    def updates(
        self,
        pattern: str = "*",
        *,
        by: str = "tensor",
        against: str | int = "prev",
        memory: int = 256 << 20,
        threads: int = 0,
        verify: bool = True,
        cache: StrPath | None = None,
    ) -> Table:
        """Reads tensors, each byte once, and says what they are and how they move.

        Content that indexes show to be that of the checkpoint before is not read again. Numbers
        have the same bits whatever the machine, the threads, the memory and the cache are.

        Args:
            pattern: Only tensors whose names match, as for matching().
            by: What a row is, in each checkpoint: "tensor", or all tensors of one "pattern" (a name
                with # for numbers), "layer", "module" or "dtype" as if they were one, or "all".
            against: What each checkpoint is compared with: "prev", "init", "final", or a step.
            memory: How many bytes hold elements at a time; at least 64 MiB are taken.
            threads: How many; 0: one a core, at most 8.
            verify: Whether checksums are checked.
            cache: A file that keeps measures by content: what it holds is not read again, and what
                is measured is added.

        Returns:
            The table that `dsckpt trace` writes, by name, then by checkpoint: step, prev_step (that
            it is compared with), name, group, layer, dtype, n, n_finite, nan, inf, zero, min, max,
            absmax, mean, std, rms, norm; upd_norm, upd_rms, upd_ratio (to the norm before),
            upd_per_step, cos_prev (of this update and the one before), angle_prev (1 - cos of the
            angle to what it is compared with), dist_init, changed (the share of elements with other
            bits); digest, same_as_step (the first with this content), and flags: 1 coarse, 2 jump,
            4 content as in prev_step, 8 another dtype or shape than there. Tensors of packed or
            unknown dtypes have rows without numbers.

        Raises:
            KeyError: `against` is a step of no checkpoint.
            DsckptError: Errors of reading.
        """
        reading = self._reading(self._against(against), memory, threads, verify, cache)
        return self._measure(self._matching(pattern), by, True, reading)

    def parts(
        self,
        n: int,
        pattern: str = "*",
        *,
        against: str | int = "prev",
        memory: int = 256 << 20,
        threads: int = 1,
        verify: bool = True,
    ) -> list[TracePart]:
        """Divides tensors into parts of nearly equal bytes, for as many processes or machines:
        `combine([trace_part(part) for part in run.parts(n)])` is `updates()`.

        A part opens the checkpoints again, and reads only its own tensors. One part for each
        process is enough: each opens all indexes.

        Args:
            n: How many. Some are empty where there are fewer tensors.
            pattern: As in updates(); likewise those below.
            against: What each checkpoint is compared with.
            memory: How many bytes hold elements at a time, in each process.
            threads: How many in each process.
            verify: Whether checksums are checked.
        """
        n = arguments.integer("n", n, 1)
        divided = _native.divide(self._native, self._matching(pattern), n)
        compared = self._against(against)
        return [
            TracePart(
                paths=tuple(os.path.abspath(path) for path in self.paths),
                steps=tuple(self.steps),
                step_from=self._step_from,
                names=tuple(self._rows[ordinal][0] for ordinal in ordinals),
                against=compared,
                memory=arguments.integer("memory", memory, 0),
                threads=arguments.integer("threads", threads, 0),
                verify=bool(verify),
            )
            for ordinals in divided
        ]

    def gram(
        self, pattern: str = "*", *, memory: int = 256 << 20, threads: int = 0, verify: bool = True
    ) -> numpy.ndarray[Any, Any]:
        """The inner product of each checkpoint with each one, in doubles: each is one long vector.

        Each tensor is read once; an element that is not finite counts as 0. Tensors that do not
        have the same dtype and shape in all checkpoints are left out. Both is a UserWarning.

        Args:
            pattern: Only tensors whose names match, as for matching().
            memory: About how many bytes hold elements at a time.
            threads: How many; 0: one a core, at most 8. They change no bit.
            verify: Whether checksums are checked.

        Returns:
            A symmetric matrix; see principal_components().

        Raises:
            DsckptError: Errors of reading.
        """
        return components.gram_of(self._native, self._matching(pattern), memory, threads, verify)

    def average(
        self,
        output: StrPath,
        *,
        last: int | None = None,
        weights: Sequence[float] | None = None,
        ema: float | None = None,
        dtype: str | None = None,
        filter: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        format: Literal["dsckpt", "safetensors"] = "dsckpt",
        verify: bool = True,
        force: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> averaging.AverageReport:
        """As dsckpt.average(), of these checkpoints in their order.

        Args:
            output: The file to write.
            last: Only so many of the last checkpoints.
            weights: How much each checkpoint counts.
            ema: The share that a moving average keeps.
            dtype: Of the output.
            filter: Only tensors whose names match.
            exclude: Not those whose names match.
            format: "dsckpt" or "safetensors".
            verify: Whether checksums are checked.
            force: Replace an existing output.
            progress: progress(done bytes, total bytes).

        Raises:
            DsckptError: As dsckpt.average().
        """
        return averaging.of_run(
            self._native,
            output,
            list(range(len(self._checkpoints))),
            last=last,
            weights=weights,
            ema=ema,
            dtype=dtype,
            filter=filter,
            exclude=exclude,
            format=format,
            verify=verify,
            force=force,
            progress=progress,
        )

    def _matching(self, pattern: str) -> list[int]:
        return self._native.matching(arguments.text("pattern", pattern))

    def _against(self, against: str | int) -> int | None:
        """The position of the checkpoint; None: each is compared with the one before."""
        if isinstance(against, str):
            choices = {"prev": None, "init": 0, "final": len(self._checkpoints) - 1}
            if against not in choices:
                raise DsckptError(
                    f"against is 'prev', 'init', 'final' or a step, not {against!r}",
                    "InvalidArgument",
                )
            return choices[against]
        return position_of(arguments.integer("against", against), self.steps)

    def _reading(
        self,
        against: int | None,
        memory: int,
        threads: int,
        verify: bool,
        cache: StrPath | None,
    ) -> _native.Reading:
        return _native.Reading(
            against=against,
            memory=arguments.integer("memory", memory, 0),
            threads=arguments.integer("threads", threads, 0),
            verify=bool(verify),
            cache=None if cache is None else os.fspath(cache),
        )

    def _measure(
        self, ordinals: list[int], by: str, updates: bool, reading: _native.Reading
    ) -> Table:
        if by not in grouping.RULES:
            raise DsckptError(
                f"by is one of {', '.join(grouping.RULES)}, not {by!r}", "InvalidArgument"
            )
        names = [self._rows[ordinal][0] for ordinal in ordinals]
        table = _native.measure(
            self._native,
            ordinals,
            [grouping.group_of(by, name) for name in names],
            [grouping.layer_of(name) for name in names],
            by=by,
            updates=updates,
            reading=reading,
        )
        return Table(table)

    def _measure_part(self, part: TracePart) -> Table:
        reading = self._reading(part.against, part.memory, part.threads, part.verify, None)
        return self._measure([self._ordinal(name) for name in part.names], "tensor", True, reading)

    def _ordinal(self, name: str) -> int:
        if name not in self._ordinals:
            raise KeyError(f"no tensor {name!r} in {len(self._checkpoints)} checkpoints")
        return self._ordinals[name]

    def tiles(self, pattern: str = "*", *, memory: int = 256 << 20) -> Iterator[Tile]:
        """Stretches of tensors, each with the checkpoints that have it: for what takes all steps of
        an element at once and does not fit memory for whole tensors.

        Example:
            >>> for tile in run.tiles("*.weight"):
            ...     spread = tile.f32.std(axis=0)

        Args:
            pattern: Of names, as for matching(). Packed dtypes are left out.
            memory: How many bytes the `f32` of a tile takes at most; tiles are not smaller than
                4,096 elements.

        Returns:
            Tiles in the order of names, then of elements.
        """
        memory = arguments.integer("memory", memory, 1)
        count = len(self._checkpoints)
        return itertools.chain.from_iterable(
            tiles.of_tensor(self._native, count, ordinal, self._rows[ordinal], memory)
            for ordinal in self._matching(pattern)
        )

    def __contains__(self, name: object) -> bool:
        return name in self._ordinals

    def __getitem__(self, name: str) -> TensorSeries:
        """A tensor in all checkpoints. KeyError."""
        ordinal = self._ordinal(name)
        return TensorSeries(self._native, self._checkpoints, ordinal, self._rows[ordinal])

    def __repr__(self) -> str:
        return f"Trajectory({len(self._checkpoints)} checkpoints, {len(self._rows)} tensors)"


def _expand(path: str) -> list[str]:
    """What a pattern of the shell matches; a path that exists stands for itself."""
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    found = sorted(glob.glob(path))
    if not found:
        raise DsckptError(f"no path matches {path!r}", "NotFound", path)
    return found
