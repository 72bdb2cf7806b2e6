"""What pickles hold in the place of tensors, storages and enum members, and what makes them again.

torch's own way pickles a tensor's whole storage, by a function that unpickles anything. These hold
a tensor's own elements, and their makers run nothing that a file could choose.
"""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING, Any

from . import memory
from .errors import DsckptError

if TYPE_CHECKING:
    import torch

_COMPRESSED = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
_QUANTIZED = ("qint8", "quint8", "qint32")


def reduce(value: Any) -> Any:
    """As pickle.Pickler.reducer_override().

    Raises:
        TypeError, DsckptError: It is a tensor that cannot be stored.
    """
    if isinstance(value, enum.Enum):
        return _reduce_member(value)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        inherited = type(value).__reduce__ is numpy.generic.__reduce__
        if inherited and type(value) is not value.dtype.type:
            raise TypeError(f"NumPy pickles it as a {value.dtype.type.__name__}")
        return NotImplemented
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return NotImplemented
    if isinstance(value, torch.Tensor):
        return _reduce_tensor(value, torch)
    if isinstance(value, torch.UntypedStorage):
        return make_storage, (_storage_bytes(value, torch), None)
    if type(value) is torch.storage.TypedStorage:
        name = _name(value.dtype)
        return make_storage, (_storage_bytes(value._untyped_storage, torch), name)
    return NotImplemented


def _reduce_member(value: enum.Enum) -> Any:
    cls = type(value)
    # By name: equal values need not be the same one. Flags that were joined have none.
    if cls.__members__.get(str(value._name_)) is value:
        return make_member, (cls, value._name_)
    if isinstance(value, enum.Flag) and cls(value.value) is value:
        return cls, (value.value,)
    raise TypeError("it is no member of its class")


def _reduce_tensor(value: torch.Tensor, torch: Any) -> Any:
    cls = type(value)
    plain = value.detach()
    if plain.is_quantized:
        return _reduce_quantized(plain, torch)
    if plain.layout != torch.strided and not plain.is_nested:
        return _reduce_sparse(plain, torch)
    if not memory.is_plain_strided(value):
        return NotImplemented
    if cls in (torch.Tensor, torch.nn.Parameter):
        trained = value.requires_grad if cls is torch.nn.Parameter else None
        return make_tensor, (_name(value.dtype), tuple(value.shape), _bytes(plain, torch), trained)
    if cls.__reduce_ex__ is not torch.Tensor.__reduce_ex__:
        return NotImplemented
    return make_subclass, (cls, plain.as_subclass(torch.Tensor), dict(vars(value)))


def _reduce_quantized(tensor: torch.Tensor, torch: Any) -> Any:
    name, scheme = _name(tensor.dtype), tensor.qscheme()
    parameters: tuple[Any, ...]
    if name in _QUANTIZED and scheme == torch.per_tensor_affine:
        parameters = (tensor.q_scale(), tensor.q_zero_point())
    elif name in _QUANTIZED and scheme == torch.per_channel_affine:
        scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
        parameters = (scales, zeros, tensor.q_per_channel_axis())
    else:
        raise TypeError(f"a quantized tensor of {tensor.dtype} and {scheme}")
    return make_quantized, (tensor.int_repr(), parameters)


def _reduce_sparse(tensor: torch.Tensor, torch: Any) -> Any:
    layout, shape = _name(tensor.layout), tuple(tensor.shape)
    if layout == "sparse_coo":
        indices, values = tensor._indices(), tensor._values()
        return make_sparse, (layout, indices, values, shape, tensor.is_coalesced())
    if layout not in _COMPRESSED:
        raise TypeError(f"a tensor of layout {tensor.layout}")
    by_row = layout in ("sparse_csr", "sparse_bsr")
    outer = tensor.crow_indices() if by_row else tensor.ccol_indices()
    inner = tensor.col_indices() if by_row else tensor.row_indices()
    return make_sparse, (layout, (outer, inner), tensor.values(), shape, False)


def _name(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _bytes(tensor: torch.Tensor, torch: Any) -> bytes:
    plain = tensor.as_subclass(torch.Tensor)
    if plain.device.type == "meta":
        raise TypeError("a tensor on the device 'meta' has no elements")
    if plain.numel() and plain.data_ptr() < memory.LOWEST_ADDRESS:
        raise TypeError("its storage has been freed")
    whole = memory.as_integers(plain.cpu().resolve_conj().resolve_neg())
    flat = torch.empty(whole.numel(), dtype=whole.dtype)  # contiguous() may leave odd strides.
    flat.view(whole.shape).copy_(whole)
    elements: bytes = flat.view(torch.uint8).numpy().tobytes()
    return elements


def _storage_bytes(storage: torch.UntypedStorage, torch: Any) -> bytes:
    if storage.device.type == "meta":
        raise TypeError("a storage on the device 'meta' has no elements")
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    elements: bytes = flat.cpu().numpy().tobytes()
    return elements


def make_member(cls: Any, name: str) -> enum.Enum:
    """The member of an enum that is called `name`."""
    if not isinstance(cls, enum.EnumMeta):
        raise TypeError(f"{cls!r} is no enum")
    member: enum.Enum = cls.__members__[name]
    return member


def make_tensor(
    dtype: str, shape: tuple[int, ...], elements: bytes, trained: bool | None
) -> torch.Tensor:
    """Rebuilds a tensor that lies inside a pickled object.

    Args:
        dtype: Name in torch, e.g. "float32".
        shape: In elements.
        elements: Row-major bytes.
        trained: requires_grad of a Parameter; None: a plain tensor.
    """
    import torch

    tensor = _flat(elements).view(_dtype(dtype)).view(shape)
    return tensor if trained is None else torch.nn.Parameter(tensor, requires_grad=trained)


def make_subclass(cls: Any, tensor: torch.Tensor, attributes: dict[str, Any]) -> torch.Tensor:
    """Rebuilds a tensor of a subclass that adds nothing but methods and attributes."""
    import torch

    if not isinstance(cls, type) or not issubclass(cls, torch.Tensor):
        raise TypeError(f"{cls!r} is no class of tensors")
    made = tensor.as_subclass(cls)
    vars(made).update(attributes)
    return made


def make_quantized(elements: torch.Tensor, parameters: tuple[Any, ...]) -> torch.Tensor:
    """Rebuilds a quantized tensor.

    Args:
        elements: Its integers.
        parameters: (scale, zero point), or (scales, zero points, axis) where channels have theirs.
    """
    import torch

    make: Any = torch._make_per_tensor_quantized_tensor
    if len(parameters) == 3:
        make = torch._make_per_channel_quantized_tensor
    made: torch.Tensor = make(elements, *parameters)
    return made


def make_sparse(
    layout: str, indices: Any, values: torch.Tensor, shape: tuple[int, ...], coalesced: bool
) -> torch.Tensor:
    """Rebuilds a sparse tensor, whose indices are checked: they are addresses.

    Args:
        layout: Name in torch.
        indices: Of COO; else the compressed ones and the plain ones.
        values: The elements.
        shape: Of the whole.
        coalesced: Of COO: whether the indices are sorted and distinct.
    """
    import torch

    if layout == "sparse_coo":
        return torch.sparse_coo_tensor(
            indices, values, shape, check_invariants=True, is_coalesced=coalesced or None
        )
    if layout not in _COMPRESSED:
        raise ValueError(f"no layout of sparse tensors: {layout!r}")
    outer, inner = indices
    return torch.sparse_compressed_tensor(
        outer, inner, values, shape, layout=vars(torch)[layout], check_invariants=True
    )


def make_storage(elements: bytes, dtype: str | None) -> Any:
    """Rebuilds a storage: untyped, or of a dtype."""
    import torch

    storage = _flat(elements).untyped_storage()
    if dtype is None:
        return storage
    return torch.storage.TypedStorage(wrap_storage=storage, dtype=_dtype(dtype), _internal=True)


def _flat(elements: bytes) -> torch.Tensor:
    import torch

    if not elements:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(bytearray(elements), dtype=torch.uint8)


def _dtype(name: str) -> torch.dtype:
    import torch

    found = vars(torch).get(name)
    if not isinstance(found, torch.dtype):
        raise DsckptError(f"torch {torch.__version__} has no dtype {name}", "Unsupported")
    return found
