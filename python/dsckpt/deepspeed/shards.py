"""From DeepSpeed's state dicts to what the native writer takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dsckpt import _native, memory, prepared, rebuild, streams, tree
from dsckpt.errors import DsckptError

from .layout import Layout
from .pieces import Names


def prepare(
    files: dict[str, Any],
    layout_of: Callable[[str], Layout],
    attributes: dict[str, Any],
    sources: Iterable[Any] | None,
) -> prepared.Prepared:
    """Describes the files of one rank.

    Args:
        files: States by file name.
        layout_of: What the flat buffers of a file hold.
        attributes: To be stored with each file.
        sources: Tensors that do not change before the next fence; None: nothing does.
    """
    lazy = None if sources is None else set(map(_storage_address, sources)) - {0}
    shards = [
        (name, _walker(state, Names(name, layout_of(name)), attributes, lazy))
        for name, state in files.items()
    ]
    return prepared.Prepared(shards, debug=False)


def failing(error: BaseException) -> prepared.Prepared:
    """What makes a save fail on all ranks, with this rank's reason."""

    def refuse(value: object, path: list[object]) -> Any:
        raise DsckptError(f"this rank could not save: {error}", "Cancelled")

    walker = _native.Walker({"failure": error}, classify=refuse)
    return prepared.Prepared([("", walker)], debug=False)


def state_bytes(states: Iterable[Any]) -> int:
    """Bytes of all tensors in some states."""
    import torch

    total, left = 0, list(states)
    while left:
        value = left.pop()
        if isinstance(value, torch.Tensor):
            total += value.numel() * value.element_size()
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, (list, tuple)):
            left += value
    return total


def _walker(
    state: Any, names: Names, attributes: dict[str, Any], lazy: set[int] | None
) -> _native.Walker:
    root, more = rebuild.wrap(state)
    return _native.Walker(
        root,
        classify=_Classifier(names, lazy),
        attributes={**attributes, **more},
        tensor_capture=_native.AT_SAVE,
        owner_of=prepared.storage_of,
        stream_of=streams.current,
    )


class _Classifier:
    """As tree.classify(), with pieces for tensors."""

    def __init__(self, names: Names, lazy: set[int] | None) -> None:
        import torch

        self._names = names
        self._lazy = lazy
        self._plain = (torch.Tensor, torch.nn.Parameter)

    def __call__(self, value: Any, path: list[Any]) -> tuple[Any, ...]:
        if type(value) not in self._plain or not memory.is_plain_strided(value):
            return tree.classify(value, path)
        found = memory.of_tensor(value)
        pieces = self._names.pieces(path, found.shape, found.dtype) if not found.tag else []
        lazy = self._lazy is None or _storage_address(value) in self._lazy
        capture = _native.UNTIL_FENCE if lazy else _native.AT_SAVE
        source = None if found.copied else value
        return ("tensor", tree.spec(found, pieces, source, capture))


def _storage_address(tensor: Any) -> int:
    try:
        address: int = tensor.untyped_storage().data_ptr()
    except (AttributeError, RuntimeError, NotImplementedError):  # Not a tensor with memory.
        return 0
    return address
