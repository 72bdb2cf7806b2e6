"""What a save needs before it begins: the states, how they are walked, and what guards them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import _native, arguments, capture, rebuild, streams, tree
from .errors import DsckptError

Capture = Literal["auto", "at_save", "until_fence"]
Encoding = Literal["raw", "zstd", "byteplane-zstd"]


@dataclass
class Shard:
    """One file of a save: its name (unused where a path is given), state and attributes."""

    name: str
    state: Any
    attributes: dict[str, Any] | None = None


class Prepared:
    """Everything one save needs besides its destination. Made by AsyncWriter.prepare().

    Attributes:
        shards: (name, walker) for each file.
        tripwire: Knows the tensors that are read lazily.
        read: Whether all memory has been read.
    """

    def __init__(self, shards: Sequence[tuple[str, _native.Walker]], debug: bool) -> None:
        self.shards = list(shards)
        self.tripwire = capture.Tripwire(debug)
        self.read = False
        self._storages: set[int | None] = set()
        self._unpublished = len(self.shards)
        self._lock = threading.Lock()
        for _, walker in self.shards:
            walker.on_described(self._described)

    @property
    def walker(self) -> _native.Walker:
        """Of the only shard."""
        return self.shards[0][1]

    def _described(self, lazy: list[Any], held: list[Any]) -> None:
        self.tripwire.arm(lazy)
        self._storages.update(map(capture.storage_id, held))

    def reads(self, storage: int) -> bool:
        """Whether a storage (capture.storage_id()) may still have to be read."""
        return storage in self._storages and not self.read

    def before_publish(self) -> None:
        """The `on_captured` of the native save, for each shard: the last chance to give up."""
        with self._lock:
            self.tripwire.check()
            self._unpublished -= 1
            if self._unpublished == 0:
                self.read = True
                self.tripwire.seal()

    def start(self, begin: Callable[[], _native.SaveHandle]) -> _native.SaveHandle:
        """Begins the save, which arms the tripwire."""
        try:
            return begin()
        finally:
            self.shards.clear()  # They refer to the whole state.


def walker_of(
    shard: Shard, *, borrowed: bool = False, tensors_only: bool = False, **rules: Any
) -> _native.Walker:
    """The walker of a state. Other rules as _native.Walker takes them.

    Args:
        shard: The state.
        borrowed: Whether the caller keeps the state until the save has ended.
        tensors_only: Whether the root is a dict of tensors, and nothing set on it is wanted.
        rules: For _native.Walker.
    """
    state = shard.state
    if tensors_only and isinstance(state, dict):
        state = dict(state)  # Without what is set on it besides: that is no tensor.
    root, own = rebuild.wrap(state)
    attributes = arguments.attributes(shard.attributes)
    if rebuild.ROOT_ATTRIBUTE in attributes:
        raise DsckptError(
            f"the attribute {rebuild.ROOT_ATTRIBUTE!r} is kept for this package: choose another "
            "name",
            "InvalidArgument",
        )
    return _native.Walker(
        root,
        classify=tree.classify,
        tensor_types=_tensor_types(),
        attributes={**attributes, **own},
        owner_of=None if borrowed else storage_of,
        stream_of=streams.current,
        **rules,
    )


def _tensor_types() -> tuple[type, ...]:
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.Tensor, torch.nn.Parameter)


def storage_of(tensor: Any) -> Any:
    """What a save holds of a tensor until it was read: not the tensor, which may be re-pointed."""
    return tensor.untyped_storage()
