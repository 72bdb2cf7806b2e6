"""One checkpoint, from the request to the outcome."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Any

from . import latest
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
    files: dict[str, Any] = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)
    sources: Any = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    failure: BaseException | None = None


class UnderWay:
    """A checkpoint that is being written.

    Attributes:
        thread: Ends when this rank knows the outcome.
        error: Why it failed, then.
    """

    def __init__(
        self,
        handle: Any,
        request: Request,
        group: Group,
        point: latest.Pointer | None,
        before: UnderWay | None,
    ) -> None:
        self._handle = handle
        self._name = f"{request.save_dir}/{request.tag}"
        self._group = group
        self._point = point
        self._before = before
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._finish, name=f"dsckpt {request.tag}")
        self.thread.start()

    def _finish(self) -> None:
        try:
            self._handle.durable()
            if self._before is not None:
                self._before.thread.join()  # `latest` follows the order of the saves.
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
