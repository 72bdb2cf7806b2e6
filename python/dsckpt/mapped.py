"""A file and its private, writable mapping."""

from __future__ import annotations

import contextlib
import os

from . import _native, pending
from .errors import DsckptError

_ATTEMPTS = 5


def open_native(
    path: str | os.PathLike[str], map: bool = False, ignore_header: bool = False
) -> _native.File:
    """Opens a file for reading only what is asked for. Its cost does not depend on its size.

    With `map` it holds no descriptor before something is read, and no longer needs its name.
    """
    pending.settle(path)
    try:
        return _native.File(os.fsdecode(path), map=map, ignore_header=ignore_header)
    except DsckptError as error:
        if error.code == "NotCheckpoint" and "torch.save" in str(error):
            error.args = (f"{error}; dsckpt.convert.convert() makes one of a file of torch.save",)
        raise


def open_mapped(
    path: str | os.PathLike[str], ignore_header: bool = False
) -> tuple[_native.File, memoryview | None]:
    """Opens a file and maps it, both the same one although it may be replaced meanwhile.

    Returns:
        The file and its mapping: writable, copy on write, so that the file never changes. None in
        place of the mapping where the file system refuses one.

    Raises:
        DsckptError: As for opening; FailedPrecondition, when the file is replaced all the time.
    """
    pending.settle(path)
    name = os.fsdecode(path)
    for _ in range(_ATTEMPTS):
        mapping, identity = _map(name)
        native = open_native(name, map=mapping is not None, ignore_header=ignore_header)
        # The name meant the mapped file before and after, so it was that which was opened.
        with contextlib.suppress(FileNotFoundError):
            if _identity(os.stat(name)) == identity:
                return native, mapping
    raise DsckptError(
        f"{name} is replaced again and again while it is opened: load it when that has ended",
        "FailedPrecondition",
        name,
    )


def _map(name: str) -> tuple[memoryview | None, tuple[int, int, int]]:
    try:
        # A pipe would block until somebody writes to it.
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        try:
            open_native(name)  # Says what is wrong.
        except DsckptError as error:
            raise error from None
        raise
    try:
        identity = _identity(os.fstat(descriptor))
        try:
            # Not Python's mmap, which keeps a descriptor: a program may hold thousands of files.
            return _native.map_private(descriptor, identity[2]), identity
        except OSError:
            return None, identity
    finally:
        os.close(descriptor)


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_dev, found.st_ino, found.st_size
