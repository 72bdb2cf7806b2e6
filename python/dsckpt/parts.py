"""What one of several processes measures of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TracePart:
    """Tensors of a run that one process measures. It can be pickled, and sent to a machine that
    sees the same files under the same paths.

    Attributes:
        paths: The checkpoints, in the order of steps.
        steps: Their steps.
        step_from: What tells steps, where not all are known.
        names: The tensors of this part; there may be none.
        against: The checkpoint that all are compared with, by position; None: the one before.
        memory: How many bytes hold elements at a time.
        threads: 0: one a core, at most 8.
        verify: Whether checksums are checked.
    """

    paths: tuple[str, ...]
    steps: tuple[int | None, ...]
    step_from: str
    names: tuple[str, ...]
    against: int | None
    memory: int
    threads: int
    verify: bool
