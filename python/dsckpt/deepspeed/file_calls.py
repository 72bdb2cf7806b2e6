"""Python's own calls that look at files wait for the checkpoint whose files they look at.

A script may take the size of a file that `save_checkpoint()` wrote, list its directory or read
`latest`: to DeepSpeed all of it is there. From the first save on, the calls below ask first. A call
costs some 0.1 us more, while a checkpoint is under way some 2 us.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Awaits = Callable[[str, bool], None]
"""(absolute path, whether a directory is listed): returns when the files there are final."""

_STATES = ("stat", "lstat")
_LISTINGS = ("listdir", "scandir")
_SUPPORTS = ("supports_fd", "supports_dir_fd", "supports_follow_symlinks")

_thread = threading.local()
_installed = False


@contextmanager
def exempt() -> Iterator[None]:
    """In this thread no call waits: for what itself belongs to a save."""
    before = getattr(_thread, "exempt", False)
    _thread.exempt = True
    try:
        yield
    finally:
        _thread.exempt = before


def install(awaits: Awaits) -> None:
    """Has the calls ask `awaits` first; a second call does nothing."""
    global _installed
    if _installed:
        return
    _installed = True
    for name in (*_STATES, *_LISTINGS):
        original = getattr(os, name)
        call = _Asking(original, awaits, name in _LISTINGS)
        setattr(os, name, call)
        for what in _SUPPORTS:
            if original in getattr(os, what):
                getattr(os, what).add(call)
    builtins.open = io.open = _Opening(builtins.open, awaits, False)


class _Asking:
    """A call whose first argument is a path. No function: those become methods in classes."""

    def __init__(self, original: Callable[..., Any], awaits: Awaits, lists: bool) -> None:
        functools.update_wrapper(self, original)
        self._original = original
        self._awaits = awaits
        self._lists = lists

    def __call__(self, *args: Any, **options: Any) -> Any:
        path = args[0] if args else options.get("path")
        self._ask("." if path is None else path, options)
        return self._original(*args, **options)

    def _ask(self, path: Any, options: dict[str, Any]) -> None:
        # What is no path is for the call itself to refuse.
        if not isinstance(path, (str, bytes, os.PathLike)) or _is_exempt():
            return
        if options.get("dir_fd") is not None:
            return
        with exempt():
            self._awaits(os.path.abspath(os.fsdecode(path)), self._lists)


class _Opening(_Asking):
    """open(): only what reads has to wait."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        path = args[0] if args else options.get("file")
        mode = args[1] if len(args) > 1 else options.get("mode", "r")
        if isinstance(mode, str) and "r" in mode:
            self._ask(path, {})
        return self._original(*args, **options)


def _is_exempt() -> bool:
    return getattr(_thread, "exempt", False)
