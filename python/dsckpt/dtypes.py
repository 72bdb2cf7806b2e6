"""The one table of element types: safetensors spelling <-> torch and NumPy (with ml_dtypes).

torch, numpy and ml_dtypes are imported when a function needs them, never by importing this module.
Nothing here converts elements: a type without a counterpart is an error that names it.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import DsckptError

if TYPE_CHECKING:
    import numpy
    import torch

# spelling: (torch name, numpy name). NumPy names that NumPy lacks are those of ml_dtypes.
_NAMES: dict[str, tuple[str, str]] = {
    "BOOL": ("bool", "bool"),
    "U8": ("uint8", "uint8"),
    "I8": ("int8", "int8"),
    "U16": ("uint16", "uint16"),
    "I16": ("int16", "int16"),
    "U32": ("uint32", "uint32"),
    "I32": ("int32", "int32"),
    "U64": ("uint64", "uint64"),
    "I64": ("int64", "int64"),
    "F16": ("float16", "float16"),
    "BF16": ("bfloat16", "bfloat16"),
    "F32": ("float32", "float32"),
    "F64": ("float64", "float64"),
    "C64": ("complex64", "complex64"),
    "C128": ("complex128", "complex128"),
    "F8_E4M3": ("float8_e4m3fn", "float8_e4m3fn"),
    "F8_E5M2": ("float8_e5m2", "float8_e5m2"),
    "F8_E8M0": ("float8_e8m0fnu", "float8_e8m0fnu"),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", "float8_e5m2fnuz"),
    "F6_E2M3": ("", "float6_e2m3fn"),
    "F6_E3M2": ("", "float6_e3m2fn"),
    "F4": ("float4_e2m1fn_x2", "float4_e2m1fn"),
    "I4": ("", "int4"),
    "U4": ("", "uint4"),
}

PACKED_BITS = {"F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "I4": 4, "U4": 4}
"""Spellings whose elements share bytes, and the bits of one element. ml_dtypes gives each element a
byte of its own; torch has F4 alone, as pairs."""


@functools.cache
def have_torch() -> bool:
    """Whether torch can be imported; imports it."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


@functools.cache
def torch_dtype(name: str) -> torch.dtype | None:
    """The torch dtype of a safetensors spelling, or None where torch has none. Needs torch."""
    import torch

    found = getattr(torch, _NAMES.get(name, ("", ""))[0] or "-", None)
    return found if isinstance(found, torch.dtype) else None


@functools.cache
def _torch_names() -> dict[torch.dtype, str]:
    found = ((torch_dtype(name), name) for name in _NAMES)
    return {dtype: name for dtype, name in found if dtype is not None}


def torch_name(dtype: torch.dtype) -> str | None:
    """The safetensors spelling of a torch dtype, or None where the format has none."""
    return _torch_names().get(dtype)


@functools.cache
def widens(source: torch.dtype, target: torch.dtype) -> bool:
    """Whether every value of a torch dtype is a value of another: a cast changes none. Needs torch.

    The payload of NaNs counts for nothing.
    """
    if source == target:
        return True
    if source.is_complex and not target.is_complex:
        return False
    mine, theirs = _reach(source.to_real()), _reach(target.to_real())
    if mine is None or theirs is None:
        return False
    # Those with "finite" and "unsigned zero" in their names lack infinities and negative zero.
    lacks = not target.to_real().is_floating_point or str(target).endswith("fnuz")
    if source.to_real().is_floating_point and lacks:
        return False
    return (
        theirs.lowest <= mine.lowest
        and mine.highest <= theirs.highest
        and theirs.precision <= mine.precision
        and theirs.smallest <= mine.smallest
    )


@dataclass(frozen=True)
class _Reach:
    """Of a dtype: its limits; the gap after 1 relative to it; the smallest positive value."""

    lowest: float
    highest: float
    precision: float
    smallest: float


def _reach(dtype: torch.dtype) -> _Reach | None:
    import torch

    try:
        if dtype == torch.bool:
            return _Reach(0, 1, 1, 1)
        if dtype.is_floating_point:
            real = torch.finfo(dtype)
            return _Reach(real.min, real.max, real.eps, real.tiny * real.eps)
        whole = torch.iinfo(dtype)
        bits = whole.bits - (1 if whole.min < 0 else 0)
        return _Reach(whole.min, whole.max, 2.0 ** (1 - bits), 1)
    except (TypeError, RuntimeError):  # Quantized, packed, less than a byte.
        return None


@functools.cache
def numpy_dtype(name: str) -> numpy.dtype[Any]:
    """The NumPy dtype of a safetensors spelling.

    Raises:
        DsckptError: Unsupported, when ml_dtypes is missing or too old for it, or the spelling is
            unknown.
    """
    if name not in _NAMES:
        raise DsckptError(f"dtype {name} has no counterpart in NumPy or ml_dtypes", "Unsupported")
    return named_numpy_dtype(_NAMES[name][1])


def named_numpy_dtype(name: str) -> numpy.dtype[Any]:
    """A NumPy dtype by its own spelling ("<f4", "float32") or by its name in ml_dtypes.

    Raises:
        DsckptError: Unsupported, as for numpy_dtype().
    """
    import numpy

    with contextlib.suppress(TypeError):
        return numpy.dtype(name)
    try:
        import ml_dtypes

        found: numpy.dtype[Any] = numpy.dtype(getattr(ml_dtypes, name))
        return found
    except (ImportError, AttributeError, TypeError):
        raise DsckptError(
            f"NumPy has no dtype {name}: install the package ml_dtypes, in a version that has it",
            "Unsupported",
        ) from None


def is_ml_dtype(dtype: numpy.dtype[Any]) -> bool:
    """Whether ml_dtypes defines it. Its `str` ("<V2") does not say which; its name does."""
    return dtype.type.__module__.partition(".")[0] == "ml_dtypes"


@functools.cache
def _numpy_names() -> dict[str, str]:
    return {names[1]: name for name, names in _NAMES.items()}


def numpy_name(dtype: numpy.dtype[Any]) -> str | None:
    """The safetensors spelling of a NumPy dtype in native byte order, or None."""
    if dtype.kind == "V" and not is_ml_dtype(dtype):
        return None
    if dtype.names is not None or not dtype.isnative:
        return None
    return _numpy_names().get(dtype.name)


def pack(array: numpy.ndarray[Any, Any], bits: int) -> numpy.ndarray[Any, Any]:
    """Packs elements of one byte each, of which the low `bits` count, from the low bit up.

    Returns:
        A flat uint8 array of size * bits / 8 bytes, rounded up.
    """
    import numpy

    flat = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
    one_by_one = numpy.unpackbits(flat[:, None], axis=1, count=bits, bitorder="little")
    return numpy.packbits(one_by_one.reshape(-1), bitorder="little")


def unpack(
    packed: numpy.ndarray[Any, Any], name: str, shape: tuple[int, ...]
) -> numpy.ndarray[Any, Any]:
    """Undoes pack(): an array of numpy_dtype(name) from flat uint8."""
    import numpy

    dtype = numpy_dtype(name)
    bits = PACKED_BITS[name]
    count = int(numpy.prod(shape, dtype=numpy.int64))
    one_by_one = numpy.unpackbits(packed, count=count * bits, bitorder="little")
    elements = numpy.packbits(one_by_one.reshape(count, bits), axis=1, bitorder="little")
    return elements.reshape(-1).view(dtype).reshape(shape)
