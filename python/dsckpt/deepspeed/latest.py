"""The file `latest`, where the commit itself does not write it as DeepSpeed would."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .replacing import replacing

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


def pointer(save_dir: str, tag: str, wanted: bool, by_commit: bool) -> Pointer | None:
    """What has to be written by hand, if anything.

    Args:
        save_dir: As DeepSpeed was given it.
        tag: The checkpoint that begins.
        wanted: Whether `latest` is to name it.
        by_commit: Whether its commit makes `latest` name it.
    """
    return Pointer(save_dir, tag) if wanted and not by_commit else None
