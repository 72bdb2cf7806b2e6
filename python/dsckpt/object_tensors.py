"""Fills tensors and arrays that files hold as objects: sparse, quantized, masked, of records.

In place, so that whoever else refers to their memory sees it: a module's state_dict() holds no
module's tensors, but others of the same memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import dtensor, memory
from .errors import DsckptError


def is_array(value: Any) -> bool:
    """Whether a value is a tensor or array of any kind."""
    torch: Any = sys.modules.get("torch")
    numpy: Any = sys.modules.get("numpy")
    return (torch is not None and isinstance(value, torch.Tensor)) or (
        numpy is not None and isinstance(value, numpy.ndarray)
    )


def is_filled_whole(value: Any) -> bool:
    """Whether a value is a tensor or array that is no mere elements at an address."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return not dtensor.is_dtensor(value) and not memory.is_plain_strided(value)
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        return False
    plain = type(value) in (numpy.ndarray, numpy.memmap)
    return not plain or not memory.is_storable(value.dtype)


def filler(mine: Any, theirs: Any) -> Callable[[], None]:
    """What writes one tensor or array into another, whatever refers to that.

    Raises:
        DsckptError: Mismatch, saying how they differ; nothing was changed.
    """
    if type(mine) is not type(theirs):
        raise _differ(mine, theirs)
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(mine, torch.Tensor):
        pairs = _parts(mine, theirs, torch)
        if any(a.shape != b.shape or a.dtype != b.dtype for a, b in pairs):
            raise _differ(mine, theirs)
        return lambda: _copy_all(pairs, torch)
    if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape) or not mine.flags.writeable:
        raise _differ(mine, theirs)
    return lambda: mine.__setitem__(..., theirs)


def _parts(mine: Any, theirs: Any, torch: Any) -> list[tuple[Any, Any]]:
    """The plain tensors that two of a kind consist of, pair by pair."""
    if (mine.layout, mine.dtype, mine.is_quantized) != (
        theirs.layout,
        theirs.dtype,
        theirs.is_quantized,
    ) or mine.is_nested:
        raise _differ(mine, theirs)
    if tuple(mine.shape) != tuple(theirs.shape):
        raise _differ(mine, theirs)
    if mine.is_quantized:
        if _scale(mine, torch) != _scale(theirs, torch):
            raise _differ(mine, theirs)
        return [(mine, theirs)]
    if mine.layout == torch.sparse_coo:
        if mine.is_coalesced() != theirs.is_coalesced():
            raise _differ(mine, theirs)
        return [(mine._indices(), theirs._indices()), (mine._values(), theirs._values())]
    if mine.layout == torch.strided and memory.is_plain_strided(mine):
        return [(mine, theirs)]
    if mine.layout in (torch.sparse_csr, torch.sparse_bsr):
        names = ("crow_indices", "col_indices", "values")
    elif mine.layout in (torch.sparse_csc, torch.sparse_bsc):
        names = ("ccol_indices", "row_indices", "values")
    else:
        raise _differ(mine, theirs)
    return [(getattr(mine, name)(), getattr(theirs, name)()) for name in names]


def _scale(tensor: Any, torch: Any) -> Any:
    if tensor.qscheme() == torch.per_tensor_affine:
        return (tensor.q_scale(), tensor.q_zero_point())
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return (scales.tolist(), zeros.tolist(), tensor.q_per_channel_axis())


def _copy_all(pairs: list[tuple[Any, Any]], torch: Any) -> None:
    with torch.no_grad():
        for mine, theirs in pairs:
            mine.copy_(theirs)


def _differ(mine: Any, theirs: Any) -> DsckptError:
    return DsckptError(
        f"{_described(mine)} in the state, {_described(theirs)} in the file, and the one cannot be "
        "filled in place with the other: give what load() returns to load_state_dict(), or take it "
        "as it is",
        "Mismatch",
    )


def _described(value: Any) -> str:
    if not is_array(value):
        # A plain tensor of the file is not looked at here.
        return "a plain tensor" if type(value).__name__ == "Stored" else f"a {type(value).__name__}"
    text = f"a {type(value).__name__} of {str(value.dtype).removeprefix('torch.')}"
    layout = str(getattr(value, "layout", "")).removeprefix("torch.")
    if layout == "strided" or not layout:
        return f"{text} {list(value.shape)}" if not getattr(value, "is_nested", False) else text
    count = f" with {value._nnz()} elements" if layout.startswith("sparse") else ""
    return f"{text} {layout}{count}"
