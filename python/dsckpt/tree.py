"""From Python values to the native state tree, and back.

The compiled walker takes plain dicts, lists, tuples, scalars and tensors by itself. What it does
not know comes to classify(); what was stored under a tag comes back through rebuild().
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _native, dtensor, memory, own, pickles, tuples
from .errors import DsckptError, PickledWarning, place

if TYPE_CHECKING:
    import numpy
    import torch

Node = tuple[Any, ...]
"""What classify() returns; see _native.Walker."""

_READS_LIKE_INT = re.compile(r"0|-?[1-9][0-9]*\Z")
_INT64 = range(-(1 << 63), 1 << 63)
FACTORIES: dict[str, Any] = {
    cls.__name__: cls for cls in (bool, bytes, dict, float, int, list, set, str, tuple)
}


def item_name(path: Sequence[str | int]) -> str:
    """The name of the item at a place in the state, as in the format's section "Names"."""
    return "/".join(map(_segment, path))


def _segment(key: str | int) -> str:
    if not isinstance(key, str):
        return str(key)
    if _READS_LIKE_INT.fullmatch(key) and int(key) in _INT64:
        return "~s" + key
    return key.replace("~", "~0").replace("/", "~1")


def classify(value: Any, path: list[Any]) -> Node:
    """Says how a value is stored that the walker does not take by itself.

    Args:
        value: The value.
        path: Keys from the root.

    Returns:
        A node for _native.Walker.

    Raises:
        DsckptError: InvalidArgument, naming the place, when it cannot be stored.
    """
    known = _BY_TYPE.get(type(value))
    node = known(value) if known is not None else None
    if node is None and isinstance(value, tuple):
        node = _named_tuple(value)
    if node is None:
        node = _foreign(value, path)
    if node is not None:
        return node
    if hasattr(type(value), "state_dict") and not isinstance(value, type):
        warnings.warn(
            f"{place(path)} is a {pickles.name_of(type(value))} and pickled as a whole, which "
            "load() refuses unless its classes are allowed: save its state_dict() instead",
            PickledWarning,
            stacklevel=3,
        )
    return ("object", pickles.MEDIA_TYPE, pickles.dumps(value, path), pickles.tag_of(value))


def _dict(value: dict[Any, Any]) -> Node:
    return _keyed(value, "")


def _ordered_dict(value: OrderedDict[Any, Any]) -> Node:
    key, attributes = attributes_of(value)
    if key is None:
        return _keyed(value, "py.OrderedDict")
    return _keyed({**value, key: attributes}, f"py.OrderedDict:{key}")


def attributes_of(value: OrderedDict[Any, Any]) -> tuple[str | None, dict[str, Any]]:
    """The attributes set on an OrderedDict (the `_metadata` of a state_dict), and a key for them
    that the dict itself lacks; None: there are none to store. Only plain ones are."""
    attributes = {name: each for name, each in vars(value).items() if _is_simple(each)}
    key = "__dict__"
    while key in value:
        key += "_"
    return (key if attributes else None), attributes


def _is_simple(value: Any) -> bool:
    """Whether a value is scalars, and plain containers of these."""
    kind = type(value)
    if kind in (list, tuple):
        return all(map(_is_simple, value))
    if kind in (dict, OrderedDict):
        return all(map(_is_simple, value)) and all(map(_is_simple, value.values()))
    return kind in (type(None), bool, int, float, complex, str, bytes)


def _default_dict(value: defaultdict[Any, Any]) -> Node | None:
    factory = value.default_factory
    name = getattr(factory, "__name__", "")
    if factory is not None and FACTORIES.get(name) is not factory:
        return None
    return _keyed(value, f"py.defaultdict:{name}" if name else "py.defaultdict")


def _keyed(value: dict[Any, Any], tag: str) -> Node:
    if _native.plain_keys(value):
        return ("dict", dict(value), tag)
    pairs = list(value.items())
    return ("list", pairs, "py.pairs" + (":" + tag if tag else ""))


def _str(value: str) -> Node:
    return ("leaf", value.encode("utf-8", "surrogatepass"), "py.str")


def _set(value: set[Any] | frozenset[Any]) -> Node:
    # Strings hash differently in each process; a file must not.
    try:
        elements = sorted(value)
    except Exception:  # Of no common order; tensors raise RuntimeError.
        elements = sorted(value, key=lambda element: (type(element).__name__, repr(element)))
    return ("list", elements, f"py.{type(value).__name__}")


def _named_tuple(value: tuple[Any, ...]) -> Node | None:
    fields = tuples.fields_to_store(value)
    if fields is None:
        return None
    return ("dict", dict(zip(fields, value)), f"py.namedtuple:{tuples.name_of(type(value))}")


def _foreign(value: Any, path: list[Any]) -> Node | None:
    """Values of torch and NumPy. Neither is imported: their objects exist only where they are."""
    torch = sys.modules.get("torch")
    if torch is not None:
        if isinstance(value, torch.Tensor):
            return _tensor(value, path)
        if type(value) is torch.Size:
            return ("tuple", tuple(value), "torch.Size")
        if type(value) in (torch.dtype, torch.device):
            return ("leaf", str(value).removeprefix("torch."), f"torch.{type(value).__name__}")
        if type(value) is torch.torch_version.TorchVersion:
            return ("leaf", str(value), "torch.version")
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.ndarray):  # Subclasses hold more than elements: masks.
            return _array(value, path) if type(value) in (numpy.ndarray, numpy.memmap) else None
        if isinstance(value, numpy.dtype):
            return _numpy_dtype(value)
        if isinstance(value, numpy.generic):
            return _numpy_scalar(value, numpy)
    if hasattr(type(value), "__dlpack__") and hasattr(type(value), "__dlpack_device__"):
        return _exchanged(value, path)
    return None


def _exchanged(value: Any, path: list[Any]) -> Node | None:
    """Arrays of other frameworks (CuPy, JAX): they come back as plain tensors."""
    try:
        import torch
    except ImportError:
        import numpy

        return _array(numpy.from_dlpack(value), path)
    try:
        return _tensor(torch.from_dlpack(value), path)
    except (BufferError, RuntimeError, TypeError) as error:
        raise DsckptError(
            f"{place(path)} is a {type(value).__name__} that cannot be exchanged: {error}",
            "Unsupported",
        ) from error


def _tensor(tensor: torch.Tensor, path: list[Any]) -> Node | None:
    pieces: list[_native.Piece] = []
    try:
        if dtensor.is_dtensor(tensor):
            pieces = dtensor.pieces(tensor, item_name(path))
            tensor = dtensor.local(tensor)
        elif not memory.is_known_class(tensor):
            return None
        if not memory.is_plain_strided(tensor):
            return None
        found = memory.of_tensor(tensor)
    except DsckptError as error:
        raise DsckptError(f"{place(path)}: {error}", error.code) from None
    except (RuntimeError, ValueError) as error:  # A parameter that has no shape yet.
        kind = pickles.name_of(type(tensor))
        raise DsckptError(
            f"{place(path)} is a {kind} that has no elements: {error}", "InvalidArgument"
        ) from error
    if pieces and found.shape != tuple(tensor.shape):
        raise DsckptError(
            f"{place(path)}: a DTensor of {tensor.dtype} cannot be stored", "Unsupported"
        )
    source = None if found.copied else tensor
    return ("tensor", spec(found, pieces, source))


def spec(
    found: memory.Memory,
    pieces: Sequence[_native.Piece] = (),
    source: Any = None,
    capture: int | None = None,
) -> _native.TensorSpec:
    """Describes elements in memory to the walker. Arguments as for _native.TensorSpec."""
    return _native.TensorSpec(
        found.address,
        found.dtype,
        found.shape,
        found.strides,
        device=found.device,
        capture=capture,
        owner=found.owner,
        tag=found.tag,
        pieces=pieces,
        source=source,
    )


def _array(array: numpy.ndarray[Any, Any], path: list[Any]) -> Node | None:
    try:
        found = memory.of_array(array)
    except DsckptError as error:
        raise DsckptError(f"{place(path)}: {error}", error.code) from None
    return None if found is None else ("tensor", spec(found))


def _numpy_dtype(dtype: numpy.dtype[Any]) -> Node | None:
    if not memory.is_spelled(dtype):
        return None
    return ("leaf", memory.dtype_spelling(dtype), "numpy.dtype")


def _numpy_scalar(value: Any, numpy: Any) -> Node | None:
    # NumPy takes zeros at the end of a string from an array for its padding.
    if type(value) is numpy.bytes_:
        return ("leaf", bytes(value), "numpy.scalar:S")
    if type(value) is numpy.str_:
        return ("leaf", value.encode("utf-8", "surrogatepass"), "numpy.scalar:U")
    dtype = value.dtype
    if type(value) is not dtype.type or not memory.is_storable(dtype):
        return None
    return ("leaf", value.tobytes(), f"numpy.scalar:{memory.dtype_spelling(dtype)}")


_BY_TYPE: dict[type, Any] = {
    dict: _dict,
    own.RankOwn: lambda value: ("own", value.value),
    own.OwnDict: lambda value: ("own", dict(value)),
    OrderedDict: _ordered_dict,
    defaultdict: _default_dict,
    set: _set,
    frozenset: _set,
    str: _str,
    bytearray: lambda value: ("leaf", bytes(value), "py.bytearray"),
    range: lambda value: ("tuple", (value.start, value.stop, value.step), "py.range"),
    slice: lambda value: ("tuple", (value.start, value.stop, value.step), "py.slice"),
}
