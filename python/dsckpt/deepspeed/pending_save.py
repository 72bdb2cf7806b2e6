"""One checkpoint, from the request to the outcome."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, field
from typing import Any

from . import file_calls, latest
from .layout import Layout
from .store import Group

logger = logging.getLogger("dsckpt.deepspeed")


@dataclass
class Request:
    """One rank's part of a checkpoint.

    Attributes:
        save_dir: As DeepSpeed was given it.
        tag: The checkpoint's directory in it.
        save_latest: Whether `latest` is to name it.
        step: The same on all ranks.
        alone: Every rank has a tag of its own, and saves as if it were the only one.
        files: This rank's states by file name.
        layout: What its flat buffers hold.
        sources: Tensors that stay as they are until the next fence.
        attributes: To be stored with each file.
        failure: Why this rank cannot save; the checkpoint fails on all ranks.
    """

    save_dir: str
    tag: str
    save_latest: bool
    step: int
    alone: bool = False
    files: dict[str, Any] = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)
    sources: Any = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    failure: BaseException | None = None


class PendingSave:
    """A checkpoint that is being written.

    Args:
        handle: Of the native save; None: this rank has no files of its own.
        request: What is saved.
        group: Where.
        point: What `latest` is to say then, where the commit does not write it.
        before: The checkpoint that began before this one.

    Attributes:
        running: Whether its outcome is not known yet.
        error: Why it failed, then.
        told: Whether a reader has raised the error.
    """

    def __init__(
        self,
        handle: Any | None,
        request: Request,
        group: Group,
        point: latest.Pointer | None,
        before: PendingSave | None,
    ) -> None:
        self._handle = handle
        self._named = os.path.abspath(os.path.join(request.save_dir, request.tag))
        self._home = os.path.realpath(request.save_dir)
        self._name = os.path.realpath(os.path.join(request.save_dir, request.tag))
        homes = (self._home, os.path.abspath(request.save_dir))
        self._pointers = [os.path.join(home, latest.NAME) for home in homes]
        self._latest = request.save_latest
        self._group = group
        self._point = point
        self._before = before
        self.error: BaseException | None = None
        self.told = False
        self.running = True
        self._thread = threading.Thread(target=self._finish, name=f"dsckpt {request.tag}")
        self._thread.start()

    def wait(self) -> None:
        """Returns when this rank knows the outcome."""
        self._thread.join()

    def concerns(self, path: str) -> bool:
        """Whether what is read at a path can be another once this checkpoint is there.

        Args:
            path: Without symbolic links.
        """
        if path == os.path.join(self._home, latest.NAME):
            return self._latest
        inside = path == self._name or path.startswith(self._name + os.sep)
        return inside or self._name.startswith(os.path.join(path, ""))

    def is_looked_at(self, path: str, listed: bool) -> bool:
        """Whether a file call would see files that this checkpoint has yet to write.

        The directories are there already: what only asks for them need not wait.

        Args:
            path: Absolute; symbolic links are not followed.
            listed: Whether the entries of a directory are asked for.
        """
        if not self.running:
            return False
        if path in self._pointers:
            return self._latest
        names = (self._name, self._named)
        return path.startswith(tuple(name + os.sep for name in names)) or (listed and path in names)

    def _finish(self) -> None:
        with file_calls.exempt():
            try:
                self._publish()
            finally:
                self.running = False

    def _publish(self) -> None:
        try:
            if self._handle is not None:
                self._handle.durable()
            if self._before is not None:
                self._before.wait()  # `latest` follows the order of the saves.
            if self._point is not None:
                self._point.write()
            if self._group.rank != 0:
                self._group.wait_for_latest()
        except Exception as error:
            self.error = error
            logger.error("checkpoint %s was not saved: %s", self._name, error)
        finally:
            self._before = None
            self._group.done()
