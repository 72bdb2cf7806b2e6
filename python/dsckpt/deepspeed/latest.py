"""The file `latest`, where the commit itself does not write it as DeepSpeed would."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .under_way import Request

NAME = "latest"


@dataclass(frozen=True)
class Pointer:
    """What `latest` is to hold once a checkpoint is durable."""

    save_dir: str
    tag: str

    def write(self) -> None:
        """Replaces the file, durably."""
        target = Path(self.save_dir, NAME)
        temporary = target.with_name(f".{NAME}.incomplete-{os.getpid()}")
        with open(temporary, "w") as file:
            file.write(self.tag + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def pointer(request: Request, by_commit: bool) -> Pointer | None:
    """What has to be written by hand, if anything.

    Args:
        request: The checkpoint that begins.
        by_commit: Whether its commit makes `latest` name it.
    """
    if by_commit or not request.save_latest:
        return None
    return Pointer(request.save_dir, request.tag)
