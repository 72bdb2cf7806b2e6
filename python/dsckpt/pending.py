"""Saves of this process that readers have to wait for: those that other programs believe are done.

DeepSpeed's `save_checkpoint()` is one: what comes after it in a script may read what it wrote.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_settlers: list[Callable[[str], None]] = []


def register(settle: Callable[[str], None]) -> None:
    """Has `settle(path)` called before a path is read.

    Args:
        settle: Returns when nothing is under way any more that would change what is read there;
            raises what such a save failed with. Called on any thread; quick where nothing is.
    """
    _settlers.append(settle)


def settle(path: str | os.PathLike[str]) -> None:
    """To be called before a file or directory is opened by its name.

    Raises:
        DsckptError: A save of what the path names has failed, and nobody has been told.
    """
    for each in _settlers:
        each(os.fsdecode(path))
