"""Staging of a state for an asynchronous save: what can stay where it is stays there.

DCP plans a save on a thread of its own, after `async_save` has returned. So the save itself begins
late, and until then nothing may change. CPU tensors, and device tensors that other things than an
optimizer change, are therefore copied at once; device tensors that only an optimizer changes are
kept as they are, and the next optimizer step waits until they were read.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from .. import _native, capture, dtensor, memory, streams
from ..errors import DsckptError

_POLL_SECONDS = 0.05
_START_SECONDS = 60.0


class Staged:
    """One staged state, until its save has begun. Thread-safe.

    Attributes:
        state: What DCP saves: the same structure, its tensors lent or copied.
        tripwire: Knows the lent tensors.
        lent: Whether any tensor is lent.
        storages: Of the lent tensors (capture.storage_id()).
    """

    def __init__(self, state: dict[str, Any]) -> None:
        stage = _Stage()
        with torch.no_grad():
            self.state: dict[str, Any] = {key: stage.value(value) for key, value in state.items()}
        self.lent = bool(stage.lent)
        self.storages = set(map(capture.storage_id, stage.lent))
        self.tripwire = capture.Tripwire(digests=False)
        self.tripwire.arm(stage.lent)
        self.maker = threading.current_thread()
        self._events = {device: _record(device) for device in stage.devices}
        self._streams: dict[int, torch.cuda.Stream] = {}
        self._saver: threading.Thread | None = None
        self._begun = threading.Event()

    def met(self) -> None:
        """Called on the thread that saves, when it is first seen."""
        self._saver = threading.current_thread()

    def begun(self) -> None:
        """The save has begun, or never will."""
        self._begun.set()

    def wait_begun(self) -> None:
        """Blocks until the save has begun, or the thread that was to begin it is gone.

        When none has come in a minute none will; should it come, the tripwire fails its save.
        """
        patience = time.monotonic() + _START_SECONDS
        while not self._begun.wait(_POLL_SECONDS):
            saver = self._saver
            if time.monotonic() > patience if saver is None else not saver.is_alive():
                return

    def check(self) -> None:
        """Raises ModifiedTooEarly when a lent tensor has changed before it was read."""
        self.tripwire.check()
        if self.tripwire.error is not None:
            raise self.tripwire.error

    def stream_of(self, device: int) -> int:
        """A stream of the device on which everything has been done that the trainer's stream held
        when the state was staged, and nothing that came later."""
        stream = self._streams.get(device)
        if stream is None:
            stream = self._streams[device] = torch.cuda.Stream(device)
            if device in self._events:
                stream.wait_event(self._events[device])
        handle: int = stream.cuda_stream
        return handle


def _record(device: int) -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.current_stream(device).record_event()
    return event


class _Stage:
    def __init__(self) -> None:
        self.lent: list[torch.Tensor] = []
        self.devices: set[int] = set()
        self._updated = capture.updated.extents()
        self._copies: dict[Any, torch.Tensor] = {}
        self._memo: dict[int, Any] = {}

    def value(self, value: Any) -> Any:
        """A value of the state, nothing of which changes any more until the save has begun."""
        kind = type(value)
        if kind in (type(None), bool, int, float, complex, str, bytes):
            return value
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, dict) and not hasattr(value, "__dict__"):
            return {key: self.value(element) for key, element in value.items()}
        if kind is list or kind is tuple:
            return kind(self.value(element) for element in value)
        return copy.deepcopy(value, self._memo)

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        local = dtensor.local(tensor) if dtensor.is_dtensor(tensor) else tensor
        if local.device.type == "cuda":
            self.devices.add(local.device.index)
        if self._is_lendable(local):
            self.lent.append(local)
            return tensor.detach()
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return self._copy_other(tensor)
        key = (tensor.device, tensor.dtype, tensor.data_ptr(), tensor.shape, tensor.stride())
        if key not in self._copies or not tensor.numel():
            self._copies[key] = _copy(tensor)
        return self._copies[key]

    def _copy_other(self, tensor: torch.Tensor) -> torch.Tensor:
        if dtensor.is_dtensor(tensor):
            return tensor.detach().clone()
        copied: torch.Tensor = copy.deepcopy(tensor, self._memo)
        return copied

    def _is_lendable(self, local: torch.Tensor) -> bool:
        if local.device.type != "cuda" or not memory.is_plain_strided(local):
            return False
        return local.is_contiguous() and self._updated.holds(local.data_ptr(), local.nbytes)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    if tensor.layout != torch.strided:
        return plain.clone()
    return plain.clone(memory_format=torch.contiguous_format)


class Fences:
    """What optimizer steps wait for: staged states whose tensors are lent. Thread-safe."""

    def __init__(self, engine: Callable[[], _native.Engine]) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._pending: list[Staged] = []

    def add(self, staged: Staged) -> None:
        """Makes updates wait for a state, if it lends any tensors."""
        if staged.lent:
            with self._lock:
                self._pending.append(staged)

    def fence(self, stream: int | None = None) -> None:
        """As AsyncWriter.fence()."""
        with self._lock:
            pending, self._pending = self._pending, []
        early: DsckptError | None = None
        for staged in pending:
            try:
                staged.check()
            except DsckptError as error:
                early = error
            staged.wait_begun()
        if pending:
            for handle in (streams.all_current() or [0]) if stream is None else [stream]:
                self._engine().fence_on_stream(handle)
        for staged in pending:
            staged.tripwire.seal()
        if early is not None:
            raise early

    def wait_captured(self, storage: int | None = None) -> None:
        """Blocks until all lent tensors have been read, or those of a storage."""
        with self._lock:
            pending = [
                staged for staged in self._pending if storage is None or storage in staged.storages
            ]
        for staged in pending:
            staged.wait_begun()
        if pending:
            self._engine().fence()
