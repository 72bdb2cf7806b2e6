"""Averages of checkpoints, as checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import _native, arguments, tools
from .errors import DsckptError
from .paths import settle

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class AverageReport:
    """What average() has written.

    Attributes:
        path: The file.
        checkpoints: (path, step, weight) of each checkpoint; the weights have the sum 1.
        averaged: How many tensors were averaged.
        copied: The names of tensors whose dtype has no average, and that are those of the last
            checkpoint: integers, booleans, packed dtypes.
        nonfinite: (NaN, infinities) of each averaged tensor that has some, by name.
        became_infinite: How many elements are too large for the dtype of the output.
        bytes: The size of the tensors in the output.
        read_bytes: How much was read.
    """

    path: str
    checkpoints: tuple[tuple[str, int | None, float], ...]
    averaged: int
    copied: tuple[str, ...]
    nonfinite: dict[str, tuple[int, int]]
    became_infinite: int
    bytes: int
    read_bytes: int


def average(
    path: StrPath | Sequence[StrPath],
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
) -> AverageReport:
    """Writes the weighted average of checkpoints as one file.

    Elements are added up in doubles, in the order of the checkpoints, and rounded once. NaN and
    infinities go through. State tree, objects and attributes are those of the last checkpoint; the
    attribute "averaged_from" is JSON that lists all. Memory is some 256 MiB for any number of
    checkpoints.

    Args:
        path: A run, a checkpoint ("RUN@STEP", "RUN@latest" and "RUN@-2" are some of a run), or
            several of both.
        output: The file to write.
        last: Only so many of the last checkpoints.
        weights: How much each checkpoint counts, in relation to their sum, in the order in which
            they are named; those of a run in the order of steps. None: all the same.
        ema: A moving average that begins with the first checkpoint, in the order of steps, and at
            each further one keeps this share of itself: from 0 to below 1.
        dtype: "BF16", "F16", "F32" or "F64"; None: as in the last checkpoint.
        filter: Only tensors whose names match one of these patterns. With it or with `exclude`
            only tensors and attributes are written.
        exclude: Not those whose names match one of these.
        format: "safetensors": as Hugging Face tools load it.
        verify: Whether checksums are checked.
        force: Replace an existing output.
        progress: progress(done bytes, total bytes) from another thread, now and then.

    Example:
        >>> dsckpt.average("runs/a", "average.dsckpt", last=5)
        >>> dsckpt.average(["a.safetensors", "b.safetensors"], "soup.dsckpt", weights=[0.7, 0.3])

    Raises:
        DsckptError: Mismatch (checkpoints do not have the same tensors: the message lists them, and
            `exclude` leaves them out), InvalidArgument, AlreadyExists, Corrupt, ...; nothing was
            written.
    """
    named = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    paths = [settle(each) for each in named]
    run = _native.Trajectory(paths)
    order = list(range(len(run.checkpoints())))
    if weights is not None and len(paths) > 1:
        positions: dict[str, int] = {}
        for t, row in enumerate(run.checkpoints()):
            positions.setdefault(row[1], t)
        order = [
            positions[row[1]] for each in paths for row in _native.Trajectory([each]).checkpoints()
        ]
    return of_run(
        run,
        output,
        order,
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


def of_run(
    run: _native.Trajectory,
    output: StrPath,
    order: list[int],
    *,
    last: int | None,
    weights: Sequence[float] | None,
    ema: float | None,
    dtype: str | None,
    filter: str | Sequence[str],
    exclude: str | Sequence[str],
    format: str,
    verify: bool,
    force: bool,
    progress: Callable[[int, int], None] | None,
) -> AverageReport:
    """average() of checkpoints of a run, by position."""
    if format not in ("dsckpt", "safetensors"):
        raise _invalid(f"format {format!r} is neither dsckpt nor safetensors")
    if last is not None:
        order = order[-arguments.integer("last", last, 1) :]
    target = arguments.destination(output)
    if not force:
        tools.refuse_existing(target, "force=True replaces it")
    found = _native.average(
        run,
        order,
        _weights(len(order), weights, ema),
        target,
        filters=tools._texts(filter),
        excludes=tools._texts(exclude),
        dtype=None if dtype is None else tools._cast_dtype(dtype),
        safetensors=format == "safetensors",
        verify=bool(verify),
        replace=bool(force),
        progress=progress,
    )
    return _report(run, target, found)


def _weights(count: int, weights: Sequence[float] | None, ema: float | None) -> list[float]:
    if weights is not None and ema is not None:
        raise _invalid("weights and ema both say how much checkpoints count: give one of them")
    if ema is not None:
        if not 0 <= ema < 1:
            raise _invalid(f"ema is a number from 0 to below 1, not {ema!r}")
        return _native.ema_weights(count, ema)
    if weights is None:
        return [1.0] * count
    given = [float(weight) for weight in weights]
    if len(given) != count:
        raise _invalid(f"weights has {len(given)} numbers for {count} checkpoints")
    return given


def _report(run: _native.Trajectory, path: str, found: dict[str, Any]) -> AverageReport:
    rows = run.checkpoints()
    return AverageReport(
        path=path,
        checkpoints=tuple((rows[t][1], rows[t][0], weight) for t, weight in found["terms"]),
        averaged=found["averaged"],
        copied=tuple(name for name, _ in found["copied"]),
        nonfinite={name: (nan, inf) for name, nan, inf in found["nonfinite"]},
        became_infinite=found["became_infinite"],
        bytes=found["bytes"],
        read_bytes=found["read_bytes"],
    )


def _invalid(message: str) -> DsckptError:
    return DsckptError(message, "InvalidArgument")
