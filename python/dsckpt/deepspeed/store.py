"""Who commits a checkpoint together: the ranks of the job, through the store they have met in."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

from dsckpt import _native
from dsckpt.coordinators import default_coordinator
from dsckpt.own import own_rank, ranks_here

from .rank_counter import RankCounter

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
        counter: Who is done with how many of them.
    """

    native: _native.CheckpointWriter
    name: str
    rank: int
    keeps_latest: bool
    number: int
    counter: RankCounter

    def done(self) -> None:
        """To be called when this rank knows the outcome, and `latest` says it."""
        self.counter.say(self.number)

    def wait_for_latest(self) -> None:
        """Waits until rank 0 has called done(): others must not find an older `latest`."""
        self.counter.wait([0], self.number, _PATIENCE_SECONDS)


@dataclass
class _Writer:
    native: _native.CheckpointWriter
    rank: int
    size: int
    counter: RankCounter
    given: int = 0

    def close(self) -> None:
        """Waits for its checkpoints. Rank 0 may serve the store: it stays until all are done."""
        self.native.close()
        if self.rank == 0 and self.given:
            self.counter.wait(range(self.size), self.given, _PATIENCE_SECONDS)


class Writers:
    """The writers of a process, one for each run directory. They live as long as the process group:

    all ranks have to make them in the same order, and garbage collection has none.
    """

    def __init__(self) -> None:
        self._store: Any = None
        self._open: dict[tuple[str, bool], _Writer] = {}
        self._alone: dict[str, _Writer] = {}
        self._counter: RankCounter | None = None  # Of all those in _alone.
        self._given_alone = 0

    def group(self, writer: Any, save_dir: str, tag: str, save_latest: bool) -> Group:
        """Where `save_dir/tag` is committed. The first call for a directory waits for all ranks.

        Raises:
            dsckpt.DsckptError: The directory is used by another job.
        """
        run, name = _place(save_dir, tag)
        keeps_latest = save_latest and run == os.path.abspath(save_dir)
        store = self._current()
        chosen = self._open.get((run, keeps_latest))
        if chosen is None:
            chosen = self._open[run, keeps_latest] = _make(writer, run, keeps_latest, store)
        chosen.given += 1
        return Group(chosen.native, name, chosen.rank, keeps_latest, chosen.given, chosen.counter)

    def alone(self, writer: Any, save_dir: str, tag: str) -> Group:
        """The same for a tag that is this rank's own: it commits what it saves by itself.

        All ranks have to call it in the same order, whatever their directories are.
        """
        run, name = _place(save_dir, tag)
        store = self._current()
        if self._counter is None:
            session = f"alone-{next_number(store, 'alone')}"
            self._counter, self._given_alone = RankCounter(store, session, own_rank()), 0
        chosen = self._alone.get(run)
        if chosen is None:
            native = _native.CheckpointWriter(writer.native, run, standalone=True, on_event=_warn)
            chosen = _Writer(native, own_rank(), ranks_here(), self._counter)
            self._alone[run] = chosen
        self._given_alone += 1
        chosen.given = self._given_alone
        return Group(chosen.native, name, chosen.rank, False, chosen.given, chosen.counter)

    def _current(self) -> Any:
        store = default_store()
        if store is not self._store:
            self.close()
            self._store = store
        return store

    def close(self) -> None:
        """Ends them when their checkpoints are durable."""
        opened = [*self._open.values(), *self._alone.values()]
        self._open, self._alone, self._store, self._counter = {}, {}, None, None
        for chosen in opened:
            chosen.close()


def _place(save_dir: str, tag: str) -> tuple[str, str]:
    return os.path.split(os.path.abspath(os.path.join(save_dir, tag)))


def _make(writer: Any, run: str, keeps_latest: bool, store: Any) -> _Writer:
    # One for each writer: they number their checkpoints by themselves.
    coordinator = default_coordinator()
    native = _native.CheckpointWriter(
        writer.native, run, coordinator=coordinator, standalone=not keeps_latest, on_event=_warn
    )
    rank = coordinator.rank()
    counter = RankCounter(store, coordinator.session(), rank)
    return _Writer(native, rank, coordinator.size(), counter)


def default_store() -> Any:
    """Where the ranks of the job have met; None for a job of one rank."""
    import torch.distributed

    if ranks_here() == 1:
        return None
    return torch.distributed.distributed_c10d._get_default_store()


def next_number(store: Any, what: str) -> int:
    """Counts calls in the store: the same on all ranks, where they call it in the same order."""
    return 0 if store is None else int(store.add(f"dsckpt/{what}/{own_rank()}", 1))


def _warn(kind: str, message: str) -> None:
    if kind != "save-failed":  # Whoever waits for it says so.
        logger.warning("%s: %s", kind, message)
