"""Which tensors may be read behind the computation, and what guards them.

A save reads *lazily* what only an optimizer's update changes: parameters and optimizer state on a
device. An update then has to wait for the copies. Three things see to it:

* a global optimizer pre-step hook, which fences every live writer;
* waits before calls that free a storage in place (`guarded_calls`), if a save reads that storage;
* a tripwire: `_version`, the counter that in-place operations bump, compared at the fence and again
  before the file is published. A tensor that changed too early fails that save.

`_version` sees in-place operations on the tensor and on its views and detached aliases, foreach and
fused optimizers included. It does not see writes through `.data`, through NumPy or DLPack views, by
kernels that take raw addresses, or by replayed CUDA graphs: fence by hand (`AsyncWriter.fence`)
before those, or find them with `debug=True`, which compares digests of the memory instead.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from . import _native, dtypes, memory
from .errors import DsckptError

if TYPE_CHECKING:
    import torch


class ModifiedTooEarly(DsckptError):
    """A tensor changed after the save began and before it was read. Nothing was published."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "FailedPrecondition")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self),)


class Tripwire:
    """Remembers what the lazily read tensors of one save looked like. Used under the GIL only."""

    def __init__(self, digests: bool) -> None:
        self._digests = digests
        self._marks: list[tuple[Any, object]] = []
        self._sealed = False
        self.error: ModifiedTooEarly | None = None
        self._raised = False

    def arm(self, tensors: Iterable[Any]) -> None:
        """Takes the marks. Tensors without a version counter (inference mode) are left out."""
        mark = _digest if self._digests else _version
        found = ((tensor, mark(tensor)) for tensor in tensors)
        self._marks += [(tensor, seen) for tensor, seen in found if seen is not None]

    def check(self) -> None:
        """Raises ModifiedTooEarly when a tensor has changed between arm() and seal(), each time."""
        if self.error is not None:
            raise self.error
        if self._sealed:
            return
        mark = _digest if self._digests else _version
        for tensor, seen in self._marks:
            if mark(tensor) != seen:
                self.error = ModifiedTooEarly(_too_early(tensor))
                raise self.error

    def take(self) -> ModifiedTooEarly | None:
        """What check() found, for somebody who raises it; None if it was raised before."""
        if self.error is None or self._raised:
            return None
        self._raised = True
        return self.error

    def raise_once(self) -> None:
        """Raises what check() found, unless it was raised before."""
        error = self.take()
        if error is not None:
            raise error

    def told(self) -> ModifiedTooEarly | None:
        """What check() found, for somebody who raises it: raise_once() does not any more."""
        self._raised = self.error is not None
        return self.error

    def seal(self) -> None:
        """From here on the tensors may change: all was read, or updates are ordered behind."""
        self._sealed = True
        self._marks = []


def _version(tensor: Any) -> int | None:
    try:
        version: int = tensor._version
    except (AttributeError, RuntimeError):  # An array; a tensor made in inference mode.
        return None
    return version


def _digest(tensor: Any) -> bytes | None:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        return None
    plain = tensor.detach()
    if dtypes.torch_name(plain.dtype) is None:
        plain = memory.as_integers(plain)
    flat = torch.empty(plain.numel(), dtype=plain.dtype)  # contiguous() may leave odd strides.
    flat.view(plain.shape).copy_(plain)
    return hashlib.blake2b(flat.view(torch.uint8).numpy(), digest_size=16).digest()


def _too_early(tensor: Any) -> str:
    return (
        f"a tensor of shape {tuple(tensor.shape)} and dtype {tensor.dtype} was modified before its "
        "save had read it, so the save was given up and nothing was published: call "
        "AsyncWriter.fence() before whatever modifies it, or save with capture='at_save'"
    )


class Updated:
    """The tensors that optimizers update: those may be captured lazily. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._modules: weakref.WeakSet[Any] = weakref.WeakSet()

    def add(self, source: Any) -> None:
        """Adds a torch.nn.Module (its parameters) or a torch.optim.Optimizer.

        Raises:
            TypeError: It is neither.
        """
        import torch

        with self._lock:
            if isinstance(source, torch.nn.Module):
                self._modules.add(source)
            elif isinstance(source, torch.optim.Optimizer):
                self._optimizers.add(source)
            else:
                raise TypeError(f"watch() takes a module or an optimizer, not {type(source)}")

    def unlock(self) -> None:
        """For a forked child: whoever held the lock is not there."""
        self._lock = threading.Lock()

    def extents(self) -> _native.Extents:
        """The memory that may be read lazily, as it is now."""
        import torch

        with self._lock:
            optimizers, modules = list(self._optimizers), list(self._modules)
        found = _native.Extents((torch.Tensor, torch.nn.Parameter))
        for tensor in found.add(list(_updated_tensors(optimizers, modules))):
            found.add_range(*_extent(tensor))
        return found


def _updated_tensors(optimizers: list[Any], modules: list[Any]) -> Iterator[torch.Tensor]:
    import torch

    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]
        for state in optimizer.state.values():
            values = state.values() if isinstance(state, dict) else ()
            yield from (value for value in values if isinstance(value, torch.Tensor))
    for module in modules:
        yield from module.parameters()


def _extent(tensor: Any) -> tuple[int, int]:
    """Addresses of a tensor's elements; empty for what has none of its own (a DTensor's are its
    local shard's)."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    try:
        begin = tensor.data_ptr()
    except RuntimeError:  # FakeTensor and other tensors without memory.
        return (0, 0)
    if tensor.is_contiguous():
        return (begin, begin + tensor.numel() * tensor.element_size())
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (begin, begin + (reach + 1) * tensor.element_size()) if tensor.numel() else (0, 0)


updated = Updated()
_writers: weakref.WeakSet[Any] = weakref.WeakSet()
_installed = False


def install(writer: Any) -> None:
    """Makes optimizer steps and freed storages wait for `writer` (an AsyncWriter) from now on."""
    global _installed
    _writers.add(writer)
    if _installed or "torch" not in sys.modules:
        return
    _installed = True
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_before_step)
    for owner, name in guarded_calls():
        setattr(owner, name, _fenced(getattr(owner, name)))


def uninstall(writer: Any) -> None:
    """Undoes install() for a writer that has finished all saves."""
    _writers.discard(writer)


def guarded_calls() -> list[tuple[type, str]]:
    """Calls that give a storage's memory back while tensors still refer to it.

    What re-points a tensor (`tensor.data = other`, `set_`) is not among them: the save holds the
    storage, not the tensor.
    """
    import torch

    return [
        (torch.UntypedStorage, "resize_"),
        (torch.UntypedStorage, "share_memory_"),
        (torch.Tensor, "resize_"),
        (torch.Tensor, "resize_as_"),
    ]


def fence_all() -> None:
    """Fences every live writer."""
    for writer in list(_writers):
        writer.fence()


def _before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    updated.add(optimizer)
    fence_all()


def _fenced(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def fenced(*args: Any, **kwargs: Any) -> Any:
        writers = list(_writers)
        storage = storage_id(args[0]) if writers and args else None
        for writer in writers:
            writer.wait_captured(storage)
        return call(*args, **kwargs)

    return fenced


def storage_id(value: Any) -> int | None:
    """What tells a storage, or that of a tensor, from others while it lives; None: it has none."""
    try:
        found: int = getattr(value, "untyped_storage", lambda: value)()._cdata
    except (AttributeError, RuntimeError, NotImplementedError):  # An array; a wrapper subclass.
        return None
    return found


def _after_fork() -> None:
    # The parent's saves read the parent's memory, whatever changes in the child's.
    _writers.clear()
    updated.unlock()


os.register_at_fork(after_in_child=_after_fork)
