"""The checkpoints of one training run."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _native, arguments, lifetime, pending
from .checkpoint import Checkpoint
from .coordinators import default_coordinator
from .errors import DsckptError
from .handle import SaveHandle, Unseen
from .prepared import Capture, Encoding, Shard
from .writer import AsyncWriter


@dataclass(frozen=True)
class RunEntry:
    """A complete checkpoint of a run.

    Attributes:
        name: Of its directory.
        step: Optimizer updates done; None: an imported file, and nothing says it.
        nbytes: Of all its shards.
        shards: How many files.
        serial: Its position among the saves of the run, from 1; 0: no save of the run made it.
        abandoned: Training has left it behind: it was saved before the run was set back.
    """

    name: str
    step: int | None
    nbytes: int
    shards: int
    serial: int = 0
    abandoned: bool = False


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
            keep_last: How many complete checkpoints stay, of those saved last; 0: all.
            keep_every: Steps that are multiples of this stay as well; 0: none for this reason.
            keep: Steps that stay as well.
            timeout_seconds: From a save to its being published; then it fails on every rank.
        """
        self._path = os.path.abspath(os.fsdecode(path))  # The working directory may change.
        self._writer = writer
        self._coordinator = coordinator
        self._keep_last = arguments.integer("keep_last", keep_last)
        self._keep_every = arguments.integer("keep_every", keep_every)
        self._keep = arguments.integers("keep", keep)
        self._timeout = arguments.number("timeout_seconds", timeout_seconds)
        self._native: _native.CheckpointWriter | None = None
        self._unseen: Unseen | None = None  # Of `_native`.
        self._rank = 0  # Known when `_native` is.
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
        statistics: bool = False,
        vendor: dict[str, bytes] | None = None,
        name: str = "",
        replace: bool = False,
    ) -> SaveHandle:
        """Saves this rank's part of a checkpoint and returns as AsyncWriter.save() does.

        Args:
            step: Optimizer updates done. Also stored as the attribute "step".
            state: This rank's state. Shards of DTensors are stored as parts of the whole tensor;
                plain tensors as tensors of their own names: those that more than one rank stores
                under one name have to be equal, or the save fails on all ranks. What each rank has
                for itself is marked with rank_own(); `dsckpt.random` marks its states. Values and
                objects may differ unmarked; a rank that wrote nothing then gets rank 0's.
            attributes: As for AsyncWriter.save(); no other "step".
            encoding: As for AsyncWriter.save().
            metadata: As for AsyncWriter.save().
            capture: As for AsyncWriter.save().
            statistics: As for AsyncWriter.save().
            vendor: As for AsyncWriter.save().
            name: Of the checkpoint's directory; "": "step-" and ten digits.
            replace: Whether a complete checkpoint of that name is replaced, not refused. One that
                training has left behind (see roll_back()) is replaced in any case.

        Returns:
            A handle. durable() waits for all ranks and raises the same error on each of them.

        Raises:
            DsckptError: As AsyncWriter.save(); TimedOut, when rank 0 cannot be found.
        """
        step = arguments.integer("step", step)
        attributes = {"step": step, **arguments.attributes(attributes)}
        if attributes["step"] != step:
            raise DsckptError(
                f"the attribute 'step' is {attributes['step']!r}, but the checkpoint is saved as "
                f"step {step}: give both the same, or the attribute another name",
                "InvalidArgument",
                self._path,
            )
        attributes["step"] = step  # Of another type, maybe.
        name, metadata = arguments.text("name", name), arguments.metadata(metadata)
        statistics = arguments.flag("statistics", statistics)
        vendor = arguments.vendor(vendor)
        writer, native, unseen = self._ready()
        prepared = writer.prepare([Shard("", state, attributes)], encoding, capture, self._rank)
        return writer.submit(
            prepared,
            lambda: native.save(
                step,
                prepared.shards,
                name=name,
                replace=replace,
                on_captured=prepared.before_publish,
                metadata=metadata,
                statistics=statistics,
                vendor=vendor,
            ),
            unseen,
        )

    def _ready(self) -> tuple[AsyncWriter, _native.CheckpointWriter, Unseen]:
        with self._lock:
            if self._writer is None:
                self._writer = AsyncWriter()
            if self._native is None or self._unseen is None:
                coordinator = self._coordinator or default_coordinator()
                self._rank = coordinator.rank() if coordinator is not None else 0
                self._native = self._open(self._writer, coordinator)
                self._unseen = Unseen(self._native)
                lifetime.register(self._unseen)
            return self._writer, self._native, self._unseen

    def _open(
        self, writer: AsyncWriter, coordinator: _native.Coordinator | None
    ) -> _native.CheckpointWriter:
        def create() -> _native.CheckpointWriter:
            lifetime.wait_for_dropped()  # One of them may have this directory.
            return _native.CheckpointWriter(
                writer.native,
                self._path,
                coordinator=coordinator,
                timeout_seconds=self._timeout,
                keep_last=self._keep_last,
                keep_every=self._keep_every,
                keep=self._keep,
            )

        try:
            return create()
        except DsckptError as error:
            if error.code != "FailedPrecondition":
                raise
        gc.collect()  # A Run that nobody can reach any more may hold the directory.
        return create()

    @property
    def checkpoints(self) -> list[RunEntry]:
        """The complete checkpoints in the order in which they were saved, those whose step nobody
        knows last. Empty where nothing was saved yet."""
        directory = self._directory()
        return [RunEntry(*entry) for entry in directory.checkpoints()] if directory else []

    def latest(self) -> Checkpoint | None:
        """The checkpoint that `latest` names, or else the one that was saved last; None: there is
        none yet."""
        directory = self._directory()
        if directory is None:
            return None
        try:
            path = directory.latest().path
        except DsckptError as error:
            # Not asked first: what a crash left put aside is found, but not listed.
            if error.code == "NotFound" and not directory.checkpoints():
                return None
            raise
        return self._checkpoint(path)

    def by_step(self, step: int) -> Checkpoint:
        """The complete checkpoint of a step, of several the one that was saved last.

        Raises:
            DsckptError: NotFound.
        """
        pending.settle(self._path)
        step = arguments.integer("step", step)
        return self._checkpoint(_native.RunDirectory(self._path).by_step(step).path)

    def _checkpoint(self, path: str) -> Checkpoint:
        coordinator = self._coordinator
        if coordinator is None:
            return Checkpoint(path)
        return Checkpoint(path, rank=coordinator.rank(), ranks=coordinator.size())

    def roll_back(self, step: int) -> Checkpoint:
        """Sets the run back: latest() is the complete checkpoint of `step` again.

        Nothing is removed. What was saved later counts as abandoned: its steps can be saved again,
        and it ages as any other save. To be called on rank 0 alone, while no rank saves.

        Ctrl-C ends the waiting, not the roll back: `latest` may move after KeyboardInterrupt was
        raised. Look at latest(), or roll back again, before training goes on.

        Returns:
            The checkpoint that training goes on from.

        Raises:
            DsckptError: NotFound; FailedPrecondition, when another job writes to the directory, or
                on another rank than 0.
        """
        step = arguments.integer("step", step)
        with self._lock:
            native = self._native
        if native is not None:
            native.roll_back(step)
        else:
            lifetime.wait_for_dropped()
            _native.roll_back(self._path, step)
        return self._checkpoint(_native.RunDirectory(self._path).latest().path)

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
        unseen = self._unseen
        if unseen is not None:
            unseen.wait_durable()

    def close(self) -> None:
        """Finishes all saves. The writer stays open. A second call does nothing.

        Ctrl-C ends the waiting and leaves the run open: close() can be called again.

        Raises:
            DsckptError: The first error that nobody has looked at.
        """
        unseen = self._unseen
        if unseen is None:
            return
        try:
            lifetime.close(unseen)
        except DsckptError:  # Of a save; the run is closed.
            self._forget(unseen)
            raise
        self._forget(unseen)

    def _forget(self, closed: Unseen) -> None:
        with self._lock:
            if self._unseen is closed:
                self._unseen, self._native = None, None

    def __del__(self) -> None:
        # The directory is free for another Run of this process once the last save has ended.
        unseen = getattr(self, "_unseen", None)
        if unseen is not None:
            lifetime.close_elsewhere(unseen)

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
