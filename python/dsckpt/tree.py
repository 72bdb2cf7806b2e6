"""From Python values to the native state tree, and back.

The compiled walker takes plain dicts, lists, tuples, scalars and tensors by itself. What it does
not know comes to classify(); what was stored under a tag comes back through rebuild().
"""

from __future__ import annotations

import re
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _native, memory, own, pickles, placement
from .errors import DsckptError, place

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
    return ("object", pickles.MEDIA_TYPE, pickles.dumps(value, path), pickles.tag_of(value))


def _dict(value: dict[Any, Any]) -> Node:
    return _keyed(value, "")


def _ordered_dict(value: OrderedDict[Any, Any]) -> Node:
    return _keyed(value, "py.OrderedDict")


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
    cls = type(value)
    fields = fields_of(cls)
    if fields is None or len(fields) != len(value) or getattr(value, "__dict__", None):
        return None
    return ("dict", dict(zip(fields, value)), f"py.namedtuple:{pickles.name_of(cls)}")


def fields_of(cls: type) -> tuple[str, ...] | None:
    """Field names of a namedtuple or of a structure such as torch.return_types.max."""
    if hasattr(cls, "n_sequence_fields") and hasattr(cls, "n_fields"):
        whole = cls.n_sequence_fields == cls.n_fields and not cls.n_unnamed_fields  # type: ignore[attr-defined]
        return tuple(getattr(cls, "__match_args__", ())) if whole else None
    fields = getattr(cls, "_fields", None)
    if isinstance(fields, tuple) and all(isinstance(field, str) for field in fields):
        return fields
    return None


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
        if type(value) in (numpy.ndarray, numpy.memmap):
            return _array(value)
        if isinstance(value, numpy.dtype):
            return _numpy_dtype(value)
        if isinstance(value, numpy.generic):
            return _numpy_scalar(value)
    if hasattr(type(value), "__dlpack__") and hasattr(type(value), "__dlpack_device__"):
        return _exchanged(value, path)
    return None


def _exchanged(value: Any, path: list[Any]) -> Node | None:
    """Arrays of other frameworks (CuPy, JAX): they come back as plain tensors."""
    try:
        import torch
    except ImportError:
        import numpy

        return _array(numpy.from_dlpack(value))
    try:
        return _tensor(torch.from_dlpack(value), path)
    except (BufferError, RuntimeError, TypeError) as error:
        raise DsckptError(
            f"{place(path)} is a {type(value).__name__} that cannot be exchanged: {error}",
            "Unsupported",
        ) from error


def _tensor(tensor: torch.Tensor, path: list[Any]) -> Node | None:
    pieces: list[_native.Piece] = []
    if placement.is_dtensor(tensor):
        pieces = placement.pieces(tensor, item_name(path))
        tensor = placement.local(tensor)
    if not memory.is_plain_strided(tensor):
        return None
    try:
        found = memory.of_tensor(tensor)
    except DsckptError as error:
        raise DsckptError(f"{place(path)}: {error}", error.code) from None
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


def _array(array: numpy.ndarray[Any, Any]) -> Node | None:
    found = memory.of_array(array)
    return None if found is None else ("tensor", spec(found))


def _numpy_dtype(dtype: numpy.dtype[Any]) -> Node | None:
    if dtype.names is not None or dtype.subdtype is not None:
        return None
    return ("leaf", memory.dtype_spelling(dtype), "numpy.dtype")


def _numpy_scalar(value: numpy.generic) -> Node | None:
    dtype = value.dtype
    if dtype.hasobject or dtype.names is not None or dtype.itemsize == 0:
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
