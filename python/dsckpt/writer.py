"""The asynchronous writer: saves go on behind the computation."""

from __future__ import annotations

import contextlib
import operator
import os
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal

from . import _native, arguments, capture, lifetime, streams
from .errors import DsckptError
from .handle import SaveHandle, Unseen, give_up
from .prepared import Capture, Encoding, Prepared, Shard, walker_of

OnEvent = Callable[[str, str], None]


class AsyncWriter:
    """Saves state without stopping the training loop.

    Keep one a process: it owns a staging pool and threads. Thread-safe. Saves are published in the
    order of the calls. At exit, and on close(), every accepted save is finished first.

    Tensors that an optimizer updates are read lazily where they lie on a device: behind forward and
    backward, until the next optimizer step, which waits for the copies (`dsckpt.capture`). All else
    is captured inside save(). Optimizers are known once they have stepped, or through watch().

    A caching allocator never gets the memory back too early: the save holds each storage until it
    was read, so `record_stream` is not needed.
    """

    def __init__(
        self,
        pool_bytes: int = 1 << 30,
        *,
        lazy_cpu: bool = False,
        device_snapshot_bytes: int = 0,
        max_in_flight: int = 2,
        when_busy: Literal["wait", "skip", "replace"] = "wait",
        debug: bool = False,
        on_event: OnEvent | None = None,
    ) -> None:
        """Allocates the pool.

        Args:
            pool_bytes: Staging memory. With at least the state's size an update hardly waits; twice
                what is captured at save keeps save() from waiting.
            lazy_cpu: Read optimizer-updated tensors in CPU memory lazily too.
            device_snapshot_bytes: Memory taken on each device for a snapshot: updates then wait for
                a copy inside the device only.
            max_in_flight: Saves accepted before they are durable.
            when_busy: What save() does beyond that: "wait", "skip" (the handle raises Cancelled) or
                "replace" (the newest save that has not begun to move data is cancelled).
            debug: Compare digests of the memory at the fence instead of version counters. Slow.
            on_event: on_event(kind, message) from an engine thread: "fallback", "save-failed",
                "durability", "not-finite".

        Raises:
            DsckptError: InvalidArgument, OutOfMemory.
        """
        self._engine = _native.Engine(
            pool_bytes=_byte_count("pool_bytes", pool_bytes),
            device_snapshot_bytes=_byte_count("device_snapshot_bytes", device_snapshot_bytes),
            max_in_flight=arguments.integer("max_in_flight", max_in_flight),
            when_busy=arguments.text("when_busy", when_busy),
            on_event=on_event,
        )
        self._lazy_cpu = lazy_cpu
        self._debug = debug
        self._lock = threading.Lock()
        self._pending: list[tuple[_native.SaveHandle, Prepared]] = []
        # What may be under way, or may have failed since the last fence.
        self._begun: list[_native.SaveHandle] = []
        self._unseen = Unseen(self._engine)
        lifetime.register(self._unseen)
        capture.install(self)

    @property
    def native(self) -> _native.Engine:
        """The engine, for _native.CheckpointWriter."""
        return self._engine

    def save(
        self,
        state: Any,
        path: str | os.PathLike[str],
        *,
        attributes: dict[str, Any] | None = None,
        encoding: Encoding = "raw",
        metadata: dict[str, str] | None = None,
        capture: Capture = "auto",
        statistics: bool = False,
        vendor: dict[str, bytes] | None = None,
    ) -> SaveHandle:
        """Saves a nested state as one file, published atomically, and returns as soon as everything
        captured at save has been copied.

        Args:
            state: Dicts, lists, tuples, tensors, arrays, scalars, in any nesting (`dsckpt.tree`).
                Objects of other classes are pickled, each into an item of its own, here and now.
                What rank_own() marks is saved as rank 0's: a file alone is that of one rank.
            path: The file; an existing one is replaced when the new one is durable.
            attributes: Scalars about the whole: "step", "loss".
            encoding: "raw"; "zstd" or "byteplane-zstd" (floating dtypes), for all items.
            metadata: Further members of the safetensors metadata.
            capture: "auto" as the class says; "at_save": everything inside this call;
                "until_fence": everything lazily, for callers that keep all memory unchanged until
                the fence.
            statistics: Record what the elements of each tensor are, in numbers, for
                File.statistics(); tensors with NaN or Inf are reported to `on_event`.
            vendor: At most 32 entries of bytes that mean something to those who know the name, a
                domain of its owner, reversed ("com.example.audit"). All readers read them, so
                large data belongs into the state. See File.vendor.

        Returns:
            A handle. What goes wrong later is raised by its waits or, once, by the next fence().

        Raises:
            DsckptError: The state cannot be saved; the message names the place.
        """
        prepared = self.prepare([Shard("", state, attributes)], encoding, capture)
        metadata = arguments.metadata(metadata)
        statistics = arguments.flag("statistics", statistics)
        vendor = arguments.vendor(vendor)
        return self.submit(
            prepared,
            lambda: self._engine.save(
                arguments.destination(path),
                prepared.walker,
                on_captured=prepared.before_publish,
                metadata=metadata,
                statistics=statistics,
                vendor=vendor,
            ),
        )

    def prepare(
        self,
        shards: Sequence[Shard],
        encoding: Encoding = "raw",
        capture: Capture = "auto",
        rank: int = 0,
    ) -> Prepared:
        """What submit() needs; for saves of other writers (_native.CheckpointWriter).

        Args:
            shards: What to save.
            encoding: As for save().
            capture: As for save().
            rank: Whose own is what the states mark so.
        """
        make = {**self._rules(capture), "rank": rank}
        make["encoding"] = arguments.text("encoding", encoding)
        walkers = [(shard.name, walker_of(shard, **make)) for shard in shards]
        return Prepared(walkers, self._debug)

    def submit(
        self,
        prepared: Prepared,
        begin: Callable[[], _native.SaveHandle],
        unseen: Unseen | None = None,
    ) -> SaveHandle:
        """Begins a save whose native call is `begin`, and fences it from then on.

        Args:
            prepared: What is saved.
            begin: Begins it.
            unseen: Who raises what nobody has looked at; None: this writer.
        """
        native = prepared.start(begin)
        with self._lock:
            self._begun = [save for save in self._begun if not save.progress()["durable"]]
            self._begun.append(native)
            self._pending = [entry for entry in self._pending if not _is_captured(*entry)]
            self._pending.append((native, prepared))
        return SaveHandle(native, prepared, unseen or self._unseen)

    def fence(self, stream: int | None = None) -> None:
        """Call before an update that no optimizer hook sees: a replayed CUDA graph, an EMA, another
        process. Free when no save is pending.

        Device tensors: what the streams of this thread (or `stream`, a CUDA stream handle) are
        given from here on waits on the device for the copies; the host waits only while the pool is
        too small. CPU tensors: blocks until they have been read.

        Raises:
            DsckptError: ModifiedTooEarly; once, the error of an earlier save that nobody looked at.
        """
        self._fence(stream)
        self._unseen.raise_first()

    def _fence(self, stream: int | None) -> None:
        with self._lock:
            if not self._begun:
                return
            pending, ended = list(self._pending), self._ended()
        for entry in pending:
            _give_up_if_modified(*entry)
        failed: DsckptError | None = None
        try:
            for handle in streams.all_current() if stream is None else [stream]:
                self._engine.fence_on_stream(handle)
            if stream is None and not streams.in_use():
                self._engine.fence()
        except DsckptError as error:
            if self._engine.closed:  # By another thread: all has been read.
                return
            failed = error
        # Of several failures the engine has told one.
        self._settle(pending, ended if failed is None else [])
        for native, prepared in pending:
            if prepared.tripwire.error is not None:
                with contextlib.suppress(DsckptError):
                    native.wait_durable()  # So that nobody hears of it a second time.
                prepared.tripwire.raise_once()
        if failed is not None:
            raise failed

    def wait_captured(self, storage: int | None = None) -> None:
        """Blocks until all saves so far have been read, on devices too.

        Args:
            storage: A storage (capture.storage_id()): returns at once where no save reads that one.
                None: whichever they read.
        """
        with self._lock:
            pending, ended = list(self._pending), self._ended()
        if storage is not None:
            reading = [entry for entry in pending if entry[1].reads(storage)]
            if all(_is_captured(*entry) for entry in reading):
                return
        if pending:
            self._engine.fence()
            for entry in pending:
                _give_up_if_modified(*entry)
            self._settle(pending, ended)

    def _ended(self) -> list[_native.SaveHandle]:
        """Those of `_begun` that have ended: asked before a fence, which then tells of failures."""
        return [save for save in self._begun if save.ended()]

    def _settle(
        self,
        fenced: list[tuple[_native.SaveHandle, Prepared]],
        ended: list[_native.SaveHandle],
    ) -> None:
        for _, prepared in fenced:
            prepared.tripwire.seal()
        with self._lock:
            self._begun = [save for save in self._begun if save not in ended]
            # On a device copies may still run, behind which only the fenced streams wait.
            self._pending = [
                entry
                for entry in self._pending
                if entry not in fenced or (streams.in_use() and not _is_captured(*entry))
            ]

    def watch(self, source: Any) -> None:
        """Marks the parameters of a module, or the parameters and state of an optimizer, as changed
        by optimizer steps only.

        Raises:
            TypeError: It is neither.
        """
        capture.updated.add(source)

    def wait(self) -> None:
        """Blocks until every save so far is durable. Raises the first error nobody looked at."""
        self._unseen.wait_durable()

    def statistics(self) -> dict[str, int]:
        """Counters since the start: bytes, nanoseconds, and the pool size that would have sufficed
        (`suggested_pool_bytes`)."""
        return self._engine.statistics()

    def close(self) -> None:
        """Finishes all saves, then frees pool and threads. A second call does nothing.

        Raises:
            DsckptError: The first error that nobody has looked at.
        """
        try:
            lifetime.close(self._unseen)
        finally:
            if self._engine.closed:  # Else a signal came first, and saves go on.
                capture.uninstall(self)
                with self._lock:
                    self._pending, self._begun = [], []

    def __enter__(self) -> AsyncWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        unseen = getattr(self, "_unseen", None)
        if unseen is not None:
            lifetime.close_elsewhere(unseen)

    def _rules(self, mode: Capture) -> dict[str, Any]:
        if mode == "until_fence":
            return {"tensor_capture": _native.UNTIL_FENCE}
        if mode == "at_save":
            return {"tensor_capture": _native.AT_SAVE}
        if mode != "auto":
            raise DsckptError(
                f"capture is {mode!r}: give 'auto', 'at_save' or 'until_fence'", "InvalidArgument"
            )
        host = None if self._lazy_cpu else _native.AT_SAVE
        return {"tensor_capture": capture.updated.extents, "host_capture": host}


def _byte_count(name: str, value: Any) -> int:
    if not hasattr(value, "__index__") or not 0 <= (count := operator.index(value)) < 1 << 63:
        raise DsckptError(
            f"{name} is {value!r}: give a number of bytes, such as 16 << 30", "InvalidArgument"
        )
    return count


def _is_captured(native: _native.SaveHandle, prepared: Prepared) -> bool:
    """Whether all has been read. Where it has, the tensors may change from here on: the thread that
    publishes may come to look at them only later."""
    if not native.progress()["captured"]:
        return False
    _give_up_if_modified(native, prepared)
    prepared.tripwire.seal()
    return True


def _give_up_if_modified(native: _native.SaveHandle, prepared: Prepared) -> None:
    try:
        prepared.tripwire.check()
    except DsckptError:
        give_up(native)
