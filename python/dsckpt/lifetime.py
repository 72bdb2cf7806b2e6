"""Writers end before the interpreter does, and nothing that they were asked to save is lost."""

from __future__ import annotations

import atexit
import logging
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
_live: dict[int, Writer] = {}
_shared: tuple[int, _native.Engine] | None = None
_owner = os.getpid()
_failed = False


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
    """Finishes all saves of a writer and frees it. Raises the first error nobody has looked at."""
    with _lock:
        known = _live.pop(id(writer), None) is not None
    if not known or _owner != os.getpid():
        return
    try:
        writer.wait_durable()
    finally:
        writer.close()


def shared_engine() -> _native.Engine:
    """The engine of blocking saves: one a process, with a small pool."""
    global _shared
    with _lock:
        if _shared is not None and _shared[0] == os.getpid():
            return _shared[1]
    engine = _native.Engine(pool_bytes=_SHARED_POOL_BYTES)
    register(engine)
    with _lock:
        _shared = (os.getpid(), engine)
    return engine


def fail_at_exit(error: object) -> None:
    """For what failed while the program ends: says so, and makes its exit status 1."""
    global _failed
    _failed = True
    print(f"dsckpt: a save failed while the program ended: {error}", file=sys.stderr)


def _at_exit() -> None:
    for writer in reversed(list(_live.values())):
        try:
            close(writer)
        except DsckptError as error:
            fail_at_exit(error)
    _native.stop_callbacks()
    if _failed:
        # An exception raised here would leave the exit status 0, and a launcher would believe it.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


atexit.register(_at_exit)
