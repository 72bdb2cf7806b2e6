"""The ranks that save together, and how they commit."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch.distributed as dist

from .. import _native, lifetime
from ..coordinators import StoreCoordinator
from ..errors import DsckptError
from ..writer import AsyncWriter

_lock = threading.Lock()
_shared: tuple[int, AsyncWriter] | None = None
_coordinators: weakref.WeakKeyDictionary[Any, _native.Coordinator] = weakref.WeakKeyDictionary()
_writers: dict[tuple[Any, ...], _native.CheckpointWriter] = {}


def shared_writer() -> AsyncWriter:
    """The writer of all DcpWriters of the process that were given none."""
    global _shared
    with _lock:
        if _shared is None or _shared[0] != os.getpid():
            _shared = (os.getpid(), AsyncWriter())
        return _shared[1]


class Group:
    """What a DcpWriter knows of the other ranks of one save.

    Attributes:
        rank: Of this process, among those that save.
    """

    def __init__(
        self, process_group: dist.ProcessGroup | None, timeout_seconds: float, run: bool
    ) -> None:
        self._process_group = process_group
        self._timeout = timeout_seconds
        self._run = run
        self._size = 1
        self.rank = 0

    def set_up(self, is_coordinator: bool, rank: int | None) -> None:
        """Every rank: what DCP says of this one.

        Raises:
            DsckptError: InvalidArgument, when dcp.save() was given another group than the writer.
        """
        mine, self._size = self._of_distributed()
        self.rank = 0 if is_coordinator else mine if rank is None else rank
        if not is_coordinator and self.rank != mine:
            raise _other_group(f"this is rank {self.rank} of the save, but {mine} of the writer's")

    def check_size(self, size: int) -> None:
        """The coordinating rank: how many ranks save.

        Raises:
            DsckptError: As set_up().
        """
        if size == 1:
            self._size = 1  # Alone (no_dist), whatever group there is.
        if size != self._size:
            raise _other_group(f"{size} ranks save, but the writer's group has {self._size}")

    def commit(self, engine: _native.Engine, target: str) -> Commit:
        """Begins nothing yet: what a checkpoint at `target` is written with."""
        run_directory, name = os.path.split(target)
        coordinator = None if self._size == 1 else self._coordinator()
        # One for all saves, as threads and a session come with it.
        key = (run_directory, coordinator, engine, self._timeout, self._run)
        with _lock:
            writer = _writers.get(key)
            if writer is None:
                writer = _writers[key] = _native.CheckpointWriter(
                    engine,
                    run_directory,
                    coordinator=coordinator,
                    timeout_seconds=self._timeout,
                    standalone=not self._run,
                )
                lifetime.register(writer)
        return Commit(writer, name)

    def _of_distributed(self) -> tuple[int, int]:
        if not dist.is_available() or not dist.is_initialized():
            return 0, 1
        return dist.get_rank(self._process_group), dist.get_world_size(self._process_group)

    def _coordinator(self) -> _native.Coordinator:
        process_group: Any = self._process_group or dist.group.WORLD
        found = _coordinators.get(process_group)
        if found is None:
            ranks = dist.get_process_group_ranks(process_group)
            name = "dsckpt.dcp/" + ",".join(map(str, ranks))
            default = dist.distributed_c10d._get_default_store()
            store = dist.PrefixStore(name, default)
            found = StoreCoordinator(store, self.rank, self._size)
            _coordinators[process_group] = found
        return found


def _other_group(why: str) -> DsckptError:
    return DsckptError(
        f"{why}: give DcpWriter the process_group that dcp.save() is given", "InvalidArgument"
    )


def _refuse(_value: object, _path: object) -> NoReturn:
    raise DsckptError("the save was given up, as DCP reports", "Cancelled")


class Commit:
    """One rank's part in one checkpoint. Every rank that made one begins or ends it."""

    def __init__(self, writer: _native.CheckpointWriter, name: str) -> None:
        self._writer = writer
        self._name = name
        self._begun = False
        self._handle: _native.SaveHandle | None = None

    def begin(
        self,
        shards: Sequence[tuple[str, _native.Walker]],
        step: int,
        replace: bool,
        on_captured: Callable[[], None] | None,
    ) -> None:
        """Begins to write this rank's files. What fails here fails the checkpoint on all ranks."""
        self._begun = True
        self._handle = self._writer.save(
            step, shards, name=self._name, replace=replace, on_captured=on_captured
        )

    def wait_durable(self) -> None:
        """Blocks until the checkpoint of all ranks is published, or failed: that is raised."""
        if self._handle is not None:
            self._handle.wait_durable()

    def give_up(self) -> None:
        """Fails the checkpoint on all ranks, if this one has not begun its part."""
        if self._begun:
            return
        self._begun = True
        with contextlib.suppress(DsckptError):  # As meant.
            # How a rank says that it has nothing to add: a file that cannot be described.
            refused = _native.Walker({"": object()}, classify=_refuse)
            self._writer.save(0, [("given-up", refused)], name=self._name)

    def settle(self) -> None:
        """Waits for the outcome, which DCP has reported or will."""
        with contextlib.suppress(DsckptError):
            self.wait_durable()
