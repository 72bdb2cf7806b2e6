"""Small files that appear whole and durable, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write; when the block ends it stands at `path`, in the place of one that was there.

    It is durable then, its name in the directory too. An error in the block leaves what was there,
    and nothing else.

    Raises:
        OSError: It cannot be written. Where only the last sync of the directory failed, the new
            file is there already.
    """
    target = os.path.abspath(path)
    folder = os.path.dirname(target)
    # A dot, and no mark of a commit: whoever clears a run directory leaves it alone.
    temporary = os.path.join(folder, f".dsckpt-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
