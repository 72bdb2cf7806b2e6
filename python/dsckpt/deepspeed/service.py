"""What all engines of a process share: the memory pool, and the checkpoints under way."""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import multiprocessing.util
import os
import threading
from typing import Any

from dsckpt import lifetime, pending
from dsckpt.writer import AsyncWriter

from . import config, file_calls, latest, shards
from .config import Settings
from .pending_save import PendingSave, Request
from .store import Writers

logger = logging.getLogger("dsckpt.deepspeed")

MAX_UNDER_WAY = 2
"""Checkpoints not durable yet; one more makes its save wait."""

_MAX_FILES = 1 << 16


class Service:
    """Thread-safe as far as DeepSpeed needs it: engines of one process may use it by turns.

    Attributes:
        busy: Whether a save is being started.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._settings: Settings | None = None
        self._writer: AsyncWriter | None = None
        self._writers = Writers()
        self._under_way: list[PendingSave] = []
        self.busy = False

    def configure(self, settings: Settings) -> None:
        """Takes the settings of an engine. The pool is made once, at the first save."""
        with self._lock:
            if self._settings is None or self._writer is None:
                self._settings = settings
            elif settings.pool_bytes not in (None, self._settings.pool_bytes):
                logger.warning(
                    '"%s": the engines of a process share one pool, which has been made already: '
                    "host_cache_size of the first engine stays",
                    config.KEY,
                )

    def start(self, request: Request) -> None:
        """Begins a checkpoint; returns when what changes before the next fence has been copied.

        Raises:
            dsckpt.DsckptError: This rank's part cannot be saved. The other ranks learn it.
        """
        with self._lock:
            self.busy = True
            try:
                self._start(request)
            finally:
                self.busy = False

    def _start(self, request: Request) -> None:
        if self._settings is None or self._settings.file_calls_wait:
            file_calls.install(self.await_file, self.is_writing)
        writer = self._pool(request)
        if request.alone:
            group = self._writers.alone(writer, request.save_dir, request.tag)
        else:
            group = self._writers.group(writer, request.save_dir, request.tag, request.save_latest)
        wanted = request.save_latest and group.rank == 0
        point = latest.pointer(request.save_dir, request.tag, wanted, group.keeps_latest)
        failure, prepared = _prepare(request)

        def begin() -> Any:
            return group.native.save(
                request.step,
                prepared.shards,
                name=group.name,
                replace=True,
                in_place=True,
                on_captured=prepared.before_publish,
            )

        nothing = request.alone and failure is None and not request.files
        try:
            handle = None if nothing else writer.submit(prepared, begin)
        except Exception as error:
            group.done()
            if request.failure is None:
                raise failure or error from None
        else:
            before = self._under_way[-1] if self._under_way else None
            self._under_way.append(PendingSave(handle, request, group, point, before))

    def fence(self) -> None:
        """Waits until parameters and optimizer state may change; free when nothing is saved."""
        writer = self._writer
        if writer is not None and self._under_way:
            writer.fence()

    def wait_captured(self) -> None:
        """As fence(), and nothing refers to the state's memory any more, on devices too."""
        writer = self._writer
        if writer is not None and self._under_way:
            writer.wait_captured()

    def drain(self) -> None:
        """Waits until every checkpoint is durable on all ranks.

        Raises:
            dsckpt.DsckptError: One failed, and nobody has been told.
        """
        self._finish_all_but(0)

    def make_room(self) -> None:
        """Waits until one more checkpoint may begin.

        Raises:
            dsckpt.DsckptError: One that had to end for it failed. On all ranks alike: which have
                ended already by now is not the same everywhere, so no other failure is raised.
        """
        self._finish_all_but(MAX_UNDER_WAY - 1)

    def settle(self, path: str) -> None:
        """Waits for the checkpoints that decide what is read at a path; free when nothing is saved.

        Unlike drain() it may be called by some ranks only: later saves raise the same everywhere.

        Raises:
            dsckpt.DsckptError: One of them failed, and no reader has been told.
        """
        if not self._under_way:
            return
        real = os.path.realpath(path)
        with self._lock:
            concerned = [save for save in self._under_way if save.concerns(real)]
        for save in concerned:
            save.wait()
        for save in concerned:
            if save.error is not None and not save.told:
                save.told = True
                raise save.error

    def is_writing(self) -> bool:
        """Whether a checkpoint is under way that has not ended. Takes no lock: file calls ask."""
        # No any(): every call would make a generator.
        for save in self._under_way:  # noqa: SIM110
            if save.running:
                return True
        return False

    def await_file(self, path: str, listed: bool) -> None:
        """Waits for the checkpoints whose files a call of Python looks at; free when none is saved.

        What failed is not raised here: the call finds no such file, and later saves and loads say
        why.
        """
        if not self._under_way:
            return
        for save in list(self._under_way):
            if save.is_looked_at(path, listed):
                save.wait()

    def _finish_all_but(self, kept: int) -> None:
        with self._lock:
            ending = self._under_way[: max(0, len(self._under_way) - kept)]
            for save in ending:
                save.wait()
            del self._under_way[: len(ending)]
            errors = [save.error for save in ending if save.error is not None]
        if errors:
            raise errors[0]

    def shut_down(self) -> None:
        """Before the process ends: everything durable, then memory and threads are given back."""
        with self._lock:
            try:
                self.drain()
            except Exception as error:
                lifetime.fail_at_exit(error)
            self._writers.close()
            writer, self._writer = self._writer, None
            try:
                if writer is not None:
                    writer.close()
            except Exception as error:
                lifetime.fail_at_exit(error)

    def after_fork(self) -> None:
        """In the child: the saves are its parent's, whose threads and locks it does not have."""
        inherited = (self._writer, self._writers)  # Kept: ending them is the parent's.
        self.__init__()  # type: ignore[misc]
        self._inherited = inherited

    def _pool(self, request: Request) -> AsyncWriter:
        if self._writer is None:
            size = self._settings.pool_bytes if self._settings is not None else None
            if size is None:
                size = config.default_pool_bytes(shards.state_bytes(request.files.values()))
            # Children of multiprocessing leave without atexit; commits need what dsckpt ends then.
            if multiprocessing.parent_process() is not None:
                multiprocessing.util.Finalize(None, self.shut_down, exitpriority=1)
            # Its own limit counts files; a pipeline stage has many in each checkpoint.
            self._writer = AsyncWriter(size, max_in_flight=_MAX_FILES)
        return self._writer


def _prepare(request: Request) -> tuple[BaseException | None, Any]:
    """What to save; where there is none, what tells the other ranks, and why."""
    failure = request.failure
    if failure is None:
        try:
            return None, shards.prepare(
                request.files, lambda _: request.layout, request.attributes, request.sources
            )
        except Exception as error:
            failure = error
    return failure, shards.failing(failure)


service = Service()
atexit.register(service.shut_down)
os.register_at_fork(after_in_child=service.after_fork)
pending.register(service.settle)


def fence() -> None:
    """To be called before parameters or optimizer state change by anything but the engine's step.

    The copies of a save that is under way are waited for; free when none is.
    """
    service.fence()


def drain() -> None:
    """Waits until every checkpoint that was asked for is durable on all ranks.

    Raises:
        dsckpt.DsckptError: One failed.
    """
    service.drain()
