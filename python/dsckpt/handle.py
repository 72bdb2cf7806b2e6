"""Handles of saves under way: what a save has come to, with the manners of a Future."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Generator
from typing import Any

from . import _native
from .errors import DsckptError
from .prepared import Prepared


class SaveCancelled(DsckptError, concurrent.futures.CancelledError):
    """The save was cancelled, or skipped by a busy writer. The file is as it was before."""


class SaveHandle:
    """One save under way, of a file or of a group's checkpoint. Thread-safe; dropping it does not
    cancel the save.

    It has the manners of a concurrent.futures.Future without a value: done(), running(), result(),
    exception(), cancel(), cancelled(), add_done_callback(); and it can be awaited. What these call
    done is durable. captured() and durable() are the waits of a training loop, which needs to know
    the one from the other.

    A failure that nobody has looked at is raised, once, by the next fence() or wait() of the
    writer. Looked at means that a wait, result() or exception() has raised or returned it; a
    callback alone does not count.

    In a forked child a handle of the parent's is one of a save that failed: what it is there for
    happens in the parent. Callbacks that the parent added are called in the parent only.
    """

    def __init__(self, native: _native.SaveHandle, prepared: Prepared, unseen: Unseen) -> None:
        self._native = native
        self._prepared = prepared
        self._unseen = unseen
        self._failure: DsckptError | None = None
        self._ended = False  # Known to have; else somebody has to ask.
        self._looked = False
        self._asked = False  # By cancel().
        self._future: concurrent.futures.Future[None] | None = None
        self._called_back = threading.Event()  # After `_future` is set.
        self._process = os.getpid()
        self._lock = threading.Lock()  # Of `_future`.
        unseen.add(self)

    def captured(self) -> None:
        """Blocks until all source memory has been read: it may change from then on.

        Raises:
            DsckptError: The save failed; ModifiedTooEarly when a tensor had changed before.
        """
        try:
            self._native.wait_captured()
            self._prepared.tripwire.check()
        except DsckptError as error:
            give_up(self._native)
            raise self._look_at(error) from None
        self._prepared.tripwire.seal()

    def durable(self) -> None:
        """Blocks until the file is on storage under its final name.

        Raises:
            SaveCancelled: It was cancelled.
            DsckptError: The save failed and the file under that name is as it was before. Code
                "DurabilityUnknown": published, but a power cut may bring back the old file.
        """
        try:
            self._native.wait_durable()
        except DsckptError as error:
            self._ended = True
            raise self._look_at(error) from None
        self._ended = True

    def result(self, timeout: float | None = None) -> None:
        """As durable(), for so long at most.

        Args:
            timeout: In seconds; None: without limit.

        Raises:
            concurrent.futures.TimeoutError: The save goes on.
            SaveCancelled: It was cancelled; this is a concurrent.futures.CancelledError too.
            DsckptError: As durable().
        """
        if timeout is None:
            self.durable()
            return
        try:
            self._watched().result(timeout)
        except DsckptError as error:
            raise self._look_at(error) from None

    def exception(self, timeout: float | None = None) -> DsckptError | None:
        """Waits as result() does, and returns what that raises; None: the save is durable.

        Raises:
            concurrent.futures.TimeoutError: The save goes on.
            SaveCancelled: It was cancelled.
        """
        try:
            self.result(timeout)
        except SaveCancelled:
            raise
        except DsckptError as error:
            return error
        return None

    def done(self) -> bool:
        """Whether the save has ended: durable, failed or cancelled. Never blocks.

        After any wait for this save, or for all of its writer, this is exact. Of a save that fails
        it may say so a moment after the failure.
        """
        if not self._is_over():
            return self._watched().done()
        return True

    def running(self) -> bool:
        """Whether the save has not ended. There is no state before: a save runs at once."""
        return not self.done()

    def cancel(self) -> bool:
        """Asks the save to stop before it publishes. Does not wait.

        A checkpoint of a group of ranks then fails on all of them with SaveCancelled; any rank may
        ask.

        Returns:
            Whether it was asked: False for one that has ended. A save that is being published
            already becomes durable all the same, and so does a checkpoint of which this rank's part
            is durable and handed to the group; cancelled() knows when it has ended.
        """
        if self._is_over():
            return False
        self._asked = True
        self._unseen.expect_cancelled(self)
        self._native.cancel()
        return True

    def cancelled(self) -> bool:
        """Whether the save has ended because it was cancelled, or skipped by a busy writer."""
        if not self.done():
            return False
        if self._failure is None:
            # It has ended, so that this returns at once.
            concurrent.futures.wait([self._watched()])
        return isinstance(self._failure, SaveCancelled)

    def add_done_callback(self, fn: Callable[[SaveHandle], object]) -> None:
        """Has `fn(handle)` called once, when the save has ended in whatever way.

        It is called on a thread that waits for this save alone and is not a daemon: the program
        ends after it, and wait() and close() of the writer return after it. Where the save has
        ended already, it is called here and now. Several are called in the order in which they were
        added. What one raises is logged by the logger "concurrent.futures", and the others are
        called all the same.
        """
        self._watched().add_done_callback(lambda _: fn(self))

    def progress(self) -> dict[str, int | bool]:
        """How far it is; of a checkpoint, how far this rank is.

        `total_bytes` of the files, as far as known (compressed items are not before they are
        written), and `flushed_bytes` of them written; `captured_bytes` of source memory read;
        whether it is `captured`, `durable`: a checkpoint is when that of all ranks is published.
        """
        return self._native.progress()

    def __repr__(self) -> str:
        found = self.progress()
        if self._failure is not None:
            return f"SaveHandle(failed: {self._failure})"
        state = "durable" if found["durable"] else "captured" if found["captured"] else "begun"
        return f"SaveHandle({state}, {found['flushed_bytes']:,} of {found['total_bytes']:,} bytes)"

    def __await__(self) -> Generator[Any, None, None]:
        """Waits as durable() does. Ending the waiting does not cancel the save."""
        return self._in_loop().__await__()

    async def _in_loop(self) -> None:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def wake(_: SaveHandle) -> None:
            with contextlib.suppress(RuntimeError):  # The loop was closed: nobody waits.
                loop.call_soon_threadsafe(lambda: None if ended.done() else ended.set_result(None))

        self.add_done_callback(wake)
        await ended
        self.result(0)

    def _is_over(self) -> bool:
        """Whether the save is known to have ended, without a thread that waits for it."""
        if not self._ended:
            self._ended = bool(self._native.progress()["durable"])
        return self._ended

    def _watched(self) -> concurrent.futures.Future[None]:
        """What a thread sets that waits for the end; the first call starts the thread."""
        if self._process != os.getpid():  # The thread, and who held the lock, are the parent's.
            self._process, self._lock, self._future = os.getpid(), threading.Lock(), None
            self._called_back = threading.Event()
            self._unseen = Unseen(self._unseen.native)
        with self._lock:
            if self._future is not None:
                return self._future
            future = self._future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        self._unseen.watch(self)
        if self._is_over():
            self._watch(future)
            return future
        name = "dsckpt-watch"
        thread = threading.Thread(target=self._watch_here, args=(future,), name=name, daemon=False)
        try:
            thread.start()
        except RuntimeError:  # The interpreter is about to end, and starts no threads any more.
            self._watch(future)
        return future

    def _watch_here(self, future: concurrent.futures.Future[None]) -> None:
        _thread.watches = True
        self._watch(future)

    def _watch(self, future: concurrent.futures.Future[None]) -> None:
        try:
            self._native.wait_durable()
        except DsckptError as error:
            self._failure = self._prepared.tripwire.error or _cancelled(error)
            self._ended = True
            # Who has cancelled it knows.
            self._looked |= self._asked and isinstance(self._failure, SaveCancelled)
            future.set_exception(self._failure)
        except BaseException:  # What a signal handler raised: the next call asks again.
            self._future = None
            raise
        else:
            self._ended = True
            future.set_result(None)
        finally:
            self._called_back.set()
            if self._looked or self._failure is None:
                self._unseen.forget(self)

    def _await_watcher(self) -> None:
        """Returns when the thread that waits for the save knows the end, and its callbacks have
        returned, which may look at a failure."""
        if self._process != os.getpid():  # The thread is the parent's.
            return
        if _is_watching():  # Called by such a callback.
            concurrent.futures.wait([self._watched()])
        else:
            self._called_back.wait()

    def _await_cancelled(self) -> None:
        """Blocks until the save has ended, which somebody has cancelled: that it was is then no
        failure at which nobody has looked.

        Raises:
            DsckptError: It has failed for another reason, and nobody has looked at that.
        """
        looked = self._looked
        try:
            self._native.wait_durable()
        except DsckptError as error:
            if error.code != "Cancelled" and not looked:
                raise self._look_at(error) from None

    def _mark_ended(self) -> None:
        """For who has waited for all saves of the writer."""
        self._ended = True

    @property
    def _has_failed(self) -> bool:
        """Whether a thread has found a failure, at which no callback is looking just now."""
        return self._failure is not None and (self._called_back.is_set() or _is_watching())

    def _take_failure(self) -> DsckptError | None:
        """What a thread has found, if nobody has looked at it; this is looking."""
        failure = self._failure
        if failure is None or self._looked:
            return None
        self._looked = True
        tripwire = self._prepared.tripwire
        return tripwire.take() if failure is tripwire.error else failure

    def _look_at(self, error: DsckptError) -> DsckptError:
        self._failure = self._prepared.tripwire.told() or _cancelled(error)
        self._looked = True
        if self._called_back.is_set():
            self._unseen.forget(self)
        return self._failure


_thread = threading.local()
"""Has `watches` in threads that wait for saves."""


def _is_watching() -> bool:
    return getattr(_thread, "watches", False)


def give_up(native: _native.SaveHandle) -> None:
    """Stops a save that has failed or is about to.

    A checkpoint of a group goes on until it hears why, or the other ranks would hear only that it
    was cancelled.
    """
    if not native.of_group:
        native.cancel()


def _cancelled(error: DsckptError) -> DsckptError:
    """The error; where it says that the save was cancelled, as one that a Future raises then."""
    if error.code != "Cancelled" or isinstance(error, SaveCancelled):
        return error
    return SaveCancelled(str(error), error.code, error.path, error.offset, error.errno)


class Unseen:
    """A native writer, and the saves of it whose failures threads of handles have taken from it.

    The native writer counts a failure as looked at when anybody has waited for the save. So what a
    handle's thread has found, and nobody has asked the handle for, is raised here. Thread-safe.
    `lifetime` ends writers through this.
    """

    def __init__(self, native: _native.Engine | _native.CheckpointWriter) -> None:
        self.native = native
        self._lock = threading.Lock()
        self._handles: weakref.WeakSet[SaveHandle] = weakref.WeakSet()
        self._watched: list[SaveHandle] = []
        self._given_up: list[SaveHandle] = []

    def add(self, handle: SaveHandle) -> None:
        """Takes the handle of a save that has begun."""
        with self._lock:
            self._handles.add(handle)

    def watch(self, handle: SaveHandle) -> None:
        """A thread waits for the save from now on."""
        with self._lock:
            self._watched.append(handle)

    def expect_cancelled(self, handle: SaveHandle) -> None:
        """Somebody cancels the save, and knows that it ends so."""
        with self._lock:
            if handle not in self._given_up:
                self._given_up.append(handle)

    def forget(self, handle: SaveHandle) -> None:
        """Its callbacks have returned, and it is durable or somebody has looked at its failure."""
        with self._lock:
            if handle in self._watched:
                self._watched.remove(handle)

    def raise_first(self) -> None:
        """Raises the first failure that a thread has found and nobody has looked at, once."""
        for handle in list(self._watched):
            if not handle._has_failed:
                continue
            failure = handle._take_failure()
            self.forget(handle)
            if failure is not None:
                raise failure

    def wait_durable(self) -> None:
        """Blocks until all saves have ended; raises the first error nobody has looked at."""
        with self._lock:
            begun, watched = list(self._handles), list(self._watched)
            cancelled = list(self._given_up)
        # First, or the native writer might raise what a callback is about to look at.
        for handle in watched:
            handle._await_watcher()
        failed: DsckptError | None = None
        # A group's writer counts a cancelled checkpoint as a failure.
        for handle in cancelled:
            try:
                handle._await_cancelled()
            except DsckptError as error:
                failed = failed or error
            with self._lock:
                if handle in self._given_up:
                    self._given_up.remove(handle)
        try:
            self.native.wait_durable()
        except DsckptError as error:
            failed = failed or _cancelled(error)
        for handle in begun:
            handle._mark_ended()
        if failed is not None:
            raise failed
        self.raise_first()

    def close(self) -> None:
        """Frees everything. Waits until all saves have ended."""
        self.native.close()
