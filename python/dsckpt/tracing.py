"""One run measured by several processes, or machines."""

from __future__ import annotations

from .errors import DsckptError
from .parts import TracePart
from .table import Table
from .trajectory import Trajectory


def _open(part: TracePart) -> Trajectory:
    """The run as the process that made the part saw it."""
    known = [step for step in part.steps if step is not None]
    steps = known if len(known) == len(part.steps) else None
    run = Trajectory._open(list(part.paths), steps, part.step_from, 256)
    if tuple(run.steps) != part.steps or tuple(run.paths) != part.paths:
        raise DsckptError(
            f"{part.paths[0]} and the checkpoints after it are not those of the part: make the "
            "parts again",
            "Mismatch",
            part.paths[0],
        )
    return run


def trace_part(part: TracePart) -> Table:
    """Measures one part of a run, as Trajectory.updates() does the whole.

    Args:
        part: One of those that Trajectory.parts() gave, here or in another process.

    Returns:
        The rows of its tensors: combine() puts those of all parts together.

    Raises:
        KeyError: The run has no such tensor any more.
        DsckptError: Errors of opening and of reading.
    """
    return _open(part)._measure_part(part)
