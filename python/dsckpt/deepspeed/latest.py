"""The file `latest`, where the commit itself does not write it as DeepSpeed would."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .replacing import replacing

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
        with replacing(os.path.join(self.save_dir, NAME)) as file:
            file.write(os.fsencode(self.tag + "\n"))


def pointer(request: Request, by_commit: bool) -> Pointer | None:
    """What has to be written by hand, if anything.

    Args:
        request: The checkpoint that begins.
        by_commit: Whether its commit makes `latest` name it.
    """
    if by_commit or not request.save_latest:
        return None
    return Pointer(request.save_dir, request.tag)
