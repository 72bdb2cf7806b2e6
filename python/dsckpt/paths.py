"""What a path that is read stands for: "RUN@5" is a checkpoint of a run, as for the commands."""

from __future__ import annotations

import os

from . import _native, pending


def resolve(path: str | os.PathLike[str]) -> str:
    """The path of the checkpoint that "RUN@STEP", "RUN@latest" or "RUN@-N" means, or the path
    itself; saves of this process that would change what is read there have ended.

    Raises:
        DsckptError: NotFound, with the steps next to it; InvalidArgument. As pending.settle().
    """
    return _native.find_checkpoint(settle(path))


def settle(path: str | os.PathLike[str]) -> str:
    """The path as a str, once saves of this process that would change what is read there have
    ended. Raises as pending.settle()."""
    name = os.fsdecode(path)
    pending.settle(name)
    run = name.rpartition("@")[0]
    if run and not os.path.lexists(name):
        pending.settle(run)
    return name
