"""The checkpoints of one training run."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _native, lifetime, pending
from .checkpoint import Checkpoint
from .coordinators import default_coordinator
from .errors import DsckptError
from .writer import AsyncWriter, Capture, Encoding, SaveHandle, Shard


@dataclass(frozen=True)
class RunEntry:
    """A complete checkpoint of a run.

    Attributes:
        name: Of its directory.
        step: Optimizer updates done.
        nbytes: Of all its shards.
        shards: How many files.
    """

    name: str
    step: int
    nbytes: int
    shards: int


class Run:
    """A run directory: checkpoints of all ranks of a job, each complete or not there.

    Every rank of the job makes one and calls save() in the same order with the same step. A
    checkpoint appears, and `latest` names it, when every rank's file is durable; until then, and
    whatever dies meanwhile, the one before stays. Thread-safe.

    Example:
        >>> run = dsckpt.Run("runs/a", writer, keep_last=3)
        >>> if (last := run.latest()) is not None:
        ...     state = last.load(rank)
        >>> run.save(step, {"model": model.state_dict(), "step": step})
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        writer: AsyncWriter | None = None,
        *,
        coordinator: _native.Coordinator | None = None,
        keep_last: int = 0,
        keep_every: int = 0,
        keep: Sequence[int] = (),
        timeout_seconds: float = 1800.0,
    ) -> None:
        """Touches nothing before the first save.

        Args:
            path: The directory, seen by all ranks; made where it is missing.
            writer: What saves; None: the first save makes one with default settings.
            coordinator: How ranks find each other; None: torch.distributed's default group where it
                is in use, else this process alone.
            keep_last: How many of the newest complete checkpoints stay; 0: all.
            keep_every: Steps that are multiples of this stay as well; 0: none for this reason.
            keep: Steps that stay as well.
            timeout_seconds: From a save to its being published; then it fails on every rank.
        """
        self._path = os.path.abspath(os.fsdecode(path))  # The working directory may change.
        self._writer = writer
        self._coordinator = coordinator
        self._keep_last, self._keep_every, self._keep = keep_last, keep_every, list(keep)
        self._timeout = timeout_seconds
        self._native: _native.CheckpointWriter | None = None
        self._lock = threading.Lock()

    @property
    def path(self) -> str:
        """The directory."""
        return self._path

    def save(
        self,
        step: int,
        state: Any,
        *,
        attributes: dict[str, Any] | None = None,
        encoding: Encoding = "raw",
        metadata: dict[str, str] | None = None,
        capture: Capture = "auto",
        name: str = "",
        replace: bool = False,
    ) -> SaveHandle:
        """Saves this rank's part of a checkpoint and returns as AsyncWriter.save() does.

        Args:
            step: Optimizer updates done. Also stored as the attribute "step".
            state: This rank's state. Shards of DTensors are stored as parts of the whole tensor;
                plain tensors as tensors of their own names: those that more than one rank stores
                under one name have to be equal.
            attributes: As for AsyncWriter.save().
            encoding: As for AsyncWriter.save().
            metadata: As for AsyncWriter.save().
            capture: As for AsyncWriter.save().
            name: Of the checkpoint's directory; "": "step-" and ten digits.
            replace: Whether a complete checkpoint of that name is replaced, not refused.

        Returns:
            A handle. durable() waits for all ranks and raises the same error on each of them.

        Raises:
            DsckptError: As AsyncWriter.save(); TimedOut, when rank 0 cannot be found.
        """
        writer, native = self._ready()
        prepared = writer.prepare(
            [Shard("", state, {"step": step, **(attributes or {})})], encoding, capture
        )
        return writer.submit(
            prepared,
            lambda: native.save(
                step,
                prepared.shards,
                name=name,
                replace=replace,
                on_captured=prepared.before_publish,
                metadata=metadata,
            ),
        )

    def _ready(self) -> tuple[AsyncWriter, _native.CheckpointWriter]:
        with self._lock:
            if self._writer is None:
                self._writer = AsyncWriter()
            if self._native is None:
                self._native = _native.CheckpointWriter(
                    self._writer.native,
                    self._path,
                    coordinator=self._coordinator or default_coordinator(),
                    timeout_seconds=self._timeout,
                    keep_last=self._keep_last,
                    keep_every=self._keep_every,
                    keep=self._keep,
                )
                lifetime.register(self._native)
            return self._writer, self._native

    @property
    def checkpoints(self) -> list[RunEntry]:
        """The complete checkpoints, by step. Empty where nothing was saved yet."""
        directory = self._directory()
        return [RunEntry(*entry) for entry in directory.checkpoints()] if directory else []

    def latest(self) -> Checkpoint | None:
        """The checkpoint that `latest` names, or else the one of the highest step; None: there is
        none yet."""
        directory = self._directory()
        if directory is None or not directory.checkpoints():
            return None
        return Checkpoint(directory.latest().path)

    def by_step(self, step: int) -> Checkpoint:
        """The complete checkpoint of a step.

        Raises:
            DsckptError: NotFound.
        """
        pending.settle(self._path)
        return Checkpoint(_native.RunDirectory(self._path).by_step(step).path)

    def _directory(self) -> _native.RunDirectory | None:
        pending.settle(self._path)
        try:
            return _native.RunDirectory(self._path)
        except DsckptError as error:
            if error.code == "NotFound":
                return None
            raise

    def wait(self) -> None:
        """Blocks until every save so far is published. Raises the first error nobody looked at."""
        if self._native is not None:
            self._native.wait_durable()

    def close(self) -> None:
        """Finishes all saves. The writer stays open. A second call does nothing.

        Raises:
            DsckptError: The first error that nobody has looked at.
        """
        with self._lock:
            native, self._native = self._native, None
        if native is not None:
            lifetime.close(native)

    def __repr__(self) -> str:
        return f"Run({self.path!r})"

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
