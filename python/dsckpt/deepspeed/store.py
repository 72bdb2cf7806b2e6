"""Who commits a checkpoint together: the ranks of the job, through the store they have met in."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

from dsckpt import _native
from dsckpt.coordinators import default_coordinator

from .progress import Progress

logger = logging.getLogger("dsckpt.deepspeed")

_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Group:
    """Where a checkpoint goes.

    Attributes:
        native: The writer of its run directory.
        name: Its directory in there.
        rank: This rank.
        keeps_latest: Whether the commit replaces `latest`.
        number: Of the checkpoint among those of the run directory, from 1.
        progress: Who is done with how many of them.
    """

    native: _native.CheckpointWriter
    name: str
    rank: int
    keeps_latest: bool
    number: int
    progress: Progress

    def done(self) -> None:
        """To be called when this rank knows the outcome, and `latest` says it."""
        self.progress.say(self.number)

    def wait_for_latest(self) -> None:
        """Waits until rank 0 has called done(): others must not find an older `latest`."""
        self.progress.wait([0], self.number, _PATIENCE_SECONDS)


@dataclass
class _Writer:
    native: _native.CheckpointWriter
    rank: int
    size: int
    progress: Progress
    given: int = 0

    def close(self) -> None:
        """Waits for its checkpoints. Rank 0 may serve the store: it stays until all are done."""
        self.native.close()
        if self.rank == 0 and self.given:
            self.progress.wait(range(self.size), self.given, _PATIENCE_SECONDS)


class Writers:
    """The writers of a process, one for each run directory. They live as long as the process group:

    all ranks have to make them in the same order, and garbage collection has none.
    """

    def __init__(self) -> None:
        self._store: Any = None
        self._open: dict[tuple[str, bool], _Writer] = {}

    def group(self, writer: Any, save_dir: str, tag: str, save_latest: bool) -> Group:
        """Where `save_dir/tag` is committed. The first call for a directory waits for all ranks.

        Raises:
            dsckpt.DsckptError: The directory is used by another job.
        """
        store = _default_store()
        if store is not self._store:
            self.close()
            self._store = store
        run, name = os.path.split(os.path.abspath(os.path.join(save_dir, tag)))
        keeps_latest = save_latest and run == os.path.abspath(save_dir)
        key = (run, keeps_latest)
        if key not in self._open:
            # One for each writer: they number their checkpoints by themselves.
            coordinator = default_coordinator()
            native = _native.CheckpointWriter(
                writer.native,
                run,
                coordinator=coordinator,
                standalone=not keeps_latest,
                on_event=_warn,
            )
            rank = coordinator.rank()
            progress = Progress(store, coordinator.session(), rank)
            self._open[key] = _Writer(native, rank, coordinator.size(), progress)
        chosen = self._open[key]
        chosen.given += 1
        return Group(chosen.native, name, chosen.rank, keeps_latest, chosen.given, chosen.progress)

    def close(self) -> None:
        """Ends them when their checkpoints are durable."""
        opened, self._open, self._store = list(self._open.values()), {}, None
        for chosen in opened:
            chosen.close()


def _default_store() -> Any:
    import torch.distributed

    if not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
        return None
    return torch.distributed.distributed_c10d._get_default_store()


def _warn(kind: str, message: str) -> None:
    if kind != "save-failed":  # Whoever waits for it says so.
        logger.warning("%s: %s", kind, message)
