"""Writers end before the interpreter does, and nothing that they were asked to save is lost."""

from __future__ import annotations

import _thread
import atexit
import multiprocessing
import multiprocessing.util
import os
import sys
import threading
from typing import Protocol

from . import _native
from .errors import DsckptError

_SHARED_POOL_BYTES = 64 << 20


class Writer(Protocol):
    """An engine, or a group's writer on one."""

    def wait_durable(self) -> None:
        """Blocks until all saves have ended; raises the first error nobody has looked at."""

    def close(self) -> None:
        """Frees everything."""


_lock = threading.Lock()
_shared_lock = threading.Lock()
_live: dict[int, Writer] = {}
_closing: list[_thread.LockType] = []  # One a thread of close_elsewhere(); free once it is done.
_shared: tuple[int, _native.Engine] | None = None
_owner = os.getpid()


def register(writer: Writer) -> None:
    """Has `writer` closed at exit, unless close() did it before: the last one made first."""
    global _owner
    with _lock:
        if _owner != os.getpid():  # A forked child: its parent's engines are inert here.
            _live.clear()
            _owner = os.getpid()
        # Children of multiprocessing leave without running atexit.
        if not _live and multiprocessing.parent_process() is not None:
            multiprocessing.util.Finalize(None, _at_exit, exitpriority=0)
        _live[id(writer)] = writer


def close(writer: Writer) -> None:
    """Finishes all saves of a writer and frees it. Raises the first error nobody has looked at.

    Interrupted by a signal, it leaves the writer open.
    """
    with _lock:
        known = id(writer) in _live
    if not known or _owner != os.getpid():
        return
    failed: DsckptError | None = None
    try:
        writer.wait_durable()
    except DsckptError as error:
        failed = error
    with _lock:
        known = _live.pop(id(writer), None) is not None
    if known:  # Else another thread was faster.
        writer.close()
    if failed is not None:  # Told to one thread only, which need not be the one that closes.
        raise failed


def close_elsewhere(writer: Writer) -> None:
    """close() for a destructor, which may run in any thread and under any lock: returns at once."""
    if id(writer) in _live and _owner == os.getpid():
        ended = _thread.allocate_lock()
        ended.acquire()
        _closing.append(ended)
        try:
            _thread.start_new_thread(_close_dropped, ([writer], ended))
        except RuntimeError:  # There may be no more threads: the writer is closed at exit.
            _closing.remove(ended)
            ended.release()


def wait_for_dropped() -> None:
    """Blocks until what close_elsewhere() began has ended."""
    for ended in list(_closing):
        with ended:
            pass


def _close_dropped(last: list[Writer], ended: _thread.LockType) -> None:
    try:
        close(last[0])
    except DsckptError as error:
        _say_and_fail(f"a save of a writer that nobody kept failed: {error}")
    finally:
        last.clear()  # Its destructor is compiled code, and ends before `ended` says so.
        _closing.remove(ended)
        ended.release()


def shared_engine() -> _native.Engine:
    """The engine of blocking saves: one a process, with a small pool."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared[0] != os.getpid():
            _shared = (os.getpid(), _native.Engine(pool_bytes=_SHARED_POOL_BYTES))
            register(_shared[1])
        return _shared[1]


def fail_at_exit(error: object) -> None:
    """For what failed while the program ends: says so, and makes an exit status of 0 one of 1.

    An exception raised there would leave the status 0, and a launcher would believe it.
    """
    _say_and_fail(f"a save failed while the program ended: {error}")


def _say_and_fail(what: str) -> None:
    print(f"dsckpt: {what}", file=sys.stderr)
    _native.fail_at_exit()
    if multiprocessing.parent_process() is not None:
        # After all other finalizers, and after the children of this process have ended.
        multiprocessing.util.Finalize(None, _fail_child, exitpriority=-(1 << 30))


def _at_exit() -> None:
    try:
        for writer in reversed(list(_live.values())):
            try:
                close(writer)
            except DsckptError as error:
                fail_at_exit(error)
        for ended in list(_closing):  # Compiled code must not be interrupted by the end.
            ended.acquire()
    finally:
        _native.stop_callbacks()


def _fail_child() -> None:
    """Of a child of multiprocessing, which ends without the C library: what is raised here is its
    status. What its own work has raised and is on its way out goes before it."""
    error = sys.exc_info()[1]
    if error is None or (isinstance(error, SystemExit) and not error.code):
        raise SystemExit(1)


def _after_fork() -> None:
    # Whoever held them is not in this process.
    global _lock, _shared_lock
    _lock, _shared_lock = threading.Lock(), threading.Lock()
    _closing.clear()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
