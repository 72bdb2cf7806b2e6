"""Inner products of checkpoints, and the directions in which a run is widest."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native, arguments
from .errors import DsckptError

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """What principal_components() found, the widest direction first.

    Attributes:
        coordinates: Where each checkpoint stands: a row each, and a column for each direction. The
            mean of all checkpoints is at 0.
        explained: The share of the variance along each direction.
    """

    coordinates: numpy.ndarray[Any, Any]
    explained: numpy.ndarray[Any, Any]


def principal_components(
    gram: numpy.ndarray[Any, Any], count: int | None = None
) -> PrincipalComponents:
    """The principal components of a run, from the inner products of its checkpoints.

    Args:
        gram: What Trajectory.gram() returns, or `dsckpt gram -o g.npy` writes.
        count: How many directions; None: all, one fewer than checkpoints.

    Example:
        >>> components = dsckpt.principal_components(run.gram("*.weight"), 2)
        >>> pyplot.plot(*components.coordinates.T, marker="o")

    Raises:
        DsckptError: InvalidArgument: `gram` is no square matrix of finite numbers.
    """
    import numpy

    products = numpy.asarray(gram, numpy.float64)
    square = products.ndim == 2 and products.shape[0] == products.shape[1] > 0
    if not square or not numpy.isfinite(products).all():
        raise DsckptError(
            f"gram is a square matrix of finite numbers, not an array of shape {products.shape}",
            "InvalidArgument",
        )
    most = max(1, len(products) - 1)
    kept = most if count is None else min(most, arguments.integer("count", count, 1))
    means = products.mean(axis=0)
    centred = products - means[:, None] - means + means.mean()
    variances, directions = numpy.linalg.eigh((centred + centred.T) / 2)
    # Rounding may leave a little below 0 where there is none.
    variances = variances[::-1].clip(min=0)
    directions = directions[:, ::-1]
    # An eigenvector has either sign: here its largest part is positive.
    largest = numpy.abs(directions).argmax(axis=0)
    signs = numpy.sign(directions[largest, numpy.arange(len(products))])
    total = variances.sum()
    shares = variances / total if total > 0 else variances
    coordinates = directions * signs * numpy.sqrt(variances)
    return PrincipalComponents(coordinates[:, :kept], shares[:kept])


def gram_of(
    run: _native.Trajectory, tensors: list[int], memory: int, threads: int, verify: bool
) -> numpy.ndarray[Any, Any]:
    """Trajectory.gram() of chosen tensors, by position."""
    import numpy

    found = _native.gram(
        run,
        tensors,
        memory=arguments.integer("memory", memory, 0),
        threads=arguments.integer("threads", threads, 0),
        verify=bool(verify),
    )
    nonfinite = sum(found["nonfinite"])
    if nonfinite:
        warnings.warn(f"{nonfinite} elements are NaN or infinite, and counted as 0", stacklevel=3)
    if found["skipped"]:
        name, why = found["skipped"][0]
        warnings.warn(
            f"{len(found['skipped'])} tensors left out, {name!r} among them: it {why}", stacklevel=3
        )
    count = len(found["nonfinite"])
    return numpy.frombuffer(found["products"], numpy.float64).reshape(count, count)
