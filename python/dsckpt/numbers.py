"""What tensors are in numbers, and what tells two checkpoints apart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from . import _native, paths

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class TensorStats:
    """What the elements of one tensor are. Those that are NaN or infinite are counted and have no
    part in anything else; complex elements count by their modulus. Numbers are None where there is
    no finite element, and where they are too great for a float.

    Attributes:
        name: The name of the tensor.
        dtype: Its dtype, as safetensors spells it.
        shape: Its shape.
        count: How many elements it has.
        nan: How many of them are NaN.
        inf: How many are infinities.
        zero: How many are 0 or -0.
        min: The least finite element.
        max: The greatest one.
        mean: Their mean.
        std: Their standard deviation, which divides by their number.
        rms: The root of the mean of their squares.
        norm: The root of the sum of their squares.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    nan: int
    inf: int
    zero: int
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    rms: float | None
    norm: float | None


@dataclass(frozen=True)
class Difference:
    """What the elements of two tensors say, pair by pair; sums are over pairs of finite elements.

    Attributes:
        count: How many elements each tensor has.
        compared: How many were compared: the others are in chunks with equal checksums.
        changed: How many have other bits.
        nan_a: NaN in the first tensor, among those compared.
        nan_b: NaN in the second one, likewise.
        max_abs: The greatest `|b - a|`.
        max_rel: The greatest `|b - a| / max(|a|, |b|)`.
        norm: The norm of the difference.
        ratio: `|b - a| / |a|`. None unless all elements were compared.
        angle: 1 - cos of the angle between both, likewise.
        max_ulp: The most numbers of the dtype between two elements. None after a change of dtype.
    """

    count: int
    compared: int
    changed: int
    nan_a: int
    nan_b: int
    max_abs: float | None
    max_rel: float | None
    norm: float | None
    ratio: float | None
    angle: float | None
    max_ulp: int | None


@dataclass(frozen=True)
class ElementDiff:
    """One element that differs.

    Attributes:
        index: Its place, a number for each dimension.
        a: Its value in the first tensor; of a complex element the modulus.
        b: Its value in the second one, likewise.
        distance: `|b - a|`; infinite where that is no finite number, and 0 of two NaN.
        ulp: How many steps among the numbers of the dtype lie between. None where one of them is
            NaN, and after a change of dtype.
    """

    index: tuple[int, ...]
    a: float
    b: float
    distance: float
    ulp: int | None


@dataclass(frozen=True)
class TensorDiff:
    """How one tensor differs between two checkpoints.

    Attributes:
        state: "equal", "close", "changed", "added", "removed", "reshaped", "retyped" or "moved".
        name_a: Its name in the first checkpoint, or None.
        name_b: Its name in the second one, or None.
        difference: What its elements say; None where they were not compared, as when digests are
            equal.
        elements: With `show`: of the elements with other bits those with the greatest distance, of
            equal distances those with the lowest index.
    """

    state: str
    name_a: str | None
    name_b: str | None
    difference: Difference | None
    elements: tuple[ElementDiff, ...] = ()


def _patterns(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def stats(
    path: StrPath,
    *,
    filter: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    verify: bool = True,
    threads: int = 0,
) -> list[TensorStats]:
    """Reads tensors and says what their elements are, in numbers: the same bits on every machine.

    Args:
        path: What `dsckpt stats` takes: a dsckpt or safetensors file; the directory of a
            checkpoint, a model or a run (its latest checkpoint); or "RUN@STEP", "RUN@latest" or
            "RUN@-2".
        filter: Only tensors whose names match one of these patterns.
        exclude: Not those whose names match one of these.
        verify: Whether checksums are checked.
        threads: 0: one a core, at most 8.

    Returns:
        One entry a tensor, in name order. Packed dtypes are left out.

    Raises:
        DsckptError: NotFound, Corrupt, ...
    """
    rows = _native.stats(
        paths.settle(path),
        filters=_patterns(filter),
        excludes=_patterns(exclude),
        verify=verify,
        threads=threads,
    )
    return [TensorStats(*row) for row in rows]


def diff(
    a: StrPath,
    b: StrPath,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: int | None = None,
    nan_equal: bool = True,
    whole: bool = False,
    show: int = 0,
    filter: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    verify: bool = True,
    threads: int = 0,
) -> list[TensorDiff]:
    """Compares two checkpoints, tensor by tensor. Equal digests decide without reading.

    Args:
        a: As for stats().
        b: What it is compared with.
        rtol: Elements are close when `|b - a| <= atol + rtol * max(|a|, |b|)`. Without a tolerance
            and `ulp`, only equal bits are equal.
        atol: The other part of it.
        ulp: Elements are close when at most so many numbers of the dtype lie between.
        nan_equal: Whether two NaN with other bits are close.
        whole: Read chunks with equal checksums too: for ratio, angle and NaN.
        show: How many elements of each tensor are named, of those that differ most.
        filter: Only tensors whose names match one of these patterns.
        exclude: Not those whose names match one of these.
        verify: Whether checksums are checked.
        threads: 0: one a core, at most 8.

    Returns:
        One entry a tensor of either checkpoint, in name order.

    Raises:
        DsckptError: NotFound, Corrupt, ...
    """
    rows = _native.diff(
        paths.settle(a),
        paths.settle(b),
        rtol=rtol,
        atol=atol,
        ulp=ulp,
        nan_equal=nan_equal,
        whole=whole,
        show=show,
        filters=_patterns(filter),
        excludes=_patterns(exclude),
        verify=verify,
        threads=threads,
    )
    return [
        TensorDiff(
            state,
            name_a,
            name_b,
            Difference(*found) if found else None,
            tuple(ElementDiff(*element) for element in elements),
        )
        for state, name_a, name_b, found, elements in rows
    ]
