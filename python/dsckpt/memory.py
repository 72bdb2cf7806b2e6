"""Where the elements of a torch tensor or NumPy array lie, as the native library wants it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import dtypes
from .errors import DsckptError

if TYPE_CHECKING:
    import numpy
    import torch

VIEW_TAG = "torch.view:"
"""Tag prefix of a torch dtype that the format lacks: its bytes, U8 with a last dimension more."""
ARRAY_TAG = "numpy.ndarray"
LOWEST_ADDRESS = 4096
"""No elements lie below it: a storage was freed, and the tensor's offset may be added to null."""
_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


@dataclass(slots=True)
class Memory:
    """Elements in memory. Whoever uses the address holds `owner`."""

    address: int
    dtype: str
    """safetensors spelling"""
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """in elements; None: row-major without gaps"""
    device: int
    """ordinal of a CUDA device, or -1 for host memory"""
    owner: Any
    tag: str = ""
    copied: bool = False
    """whether this is a copy of what was asked for, not that itself"""


def is_known_class(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements are all that there is of it: no subclass but of parameters."""
    import torch

    return type(tensor) is torch.Tensor or issubclass(type(tensor), torch.nn.Parameter)


def is_plain_strided(tensor: torch.Tensor) -> bool:
    """Whether a tensor is elements at an address: not sparse, quantized, nested or a wrapper."""
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        return False
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return True
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return not is_traceable_wrapper_subclass(tensor)


def of_tensor(tensor: torch.Tensor) -> Memory:
    """Describes a tensor for which is_plain_strided() holds.

    Tensors on other devices than CPU and CUDA are copied to the CPU; conjugated and negated views
    are resolved into a copy.

    Raises:
        DsckptError: InvalidArgument, for a tensor without elements: on the device meta, or after
            its storage was freed.
    """
    import torch

    name = dtypes.torch_name(tensor.dtype)
    if tensor.device.type != "meta" and tensor.numel() and tensor.data_ptr() < LOWEST_ADDRESS:
        raise DsckptError("the tensor's storage has been freed", "InvalidArgument")
    common = name is not None and name not in dtypes.PACKED_BITS and tensor.is_cpu
    if common and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        # States have 100,000 tensors: this is nearly all of them.
        return Memory(tensor.data_ptr(), str(name), tuple(tensor.shape), None, -1, tensor)
    plain = tensor.detach().as_subclass(torch.Tensor)
    if plain.device.type == "meta":
        raise DsckptError(
            "a tensor on the device 'meta' has no elements: materialize the model first",
            "InvalidArgument",
        )
    original = plain
    if plain.device.type not in ("cpu", "cuda"):
        plain = plain.cpu()
    plain = plain.resolve_conj().resolve_neg()
    device = plain.device.index if plain.device.type == "cuda" else -1
    if device >= 0:
        plain = plain.contiguous()  # The engine takes no others from a device.
    if name is None or (name in dtypes.PACKED_BITS and plain.dim() == 0):
        tag = VIEW_TAG + str(plain.dtype).removeprefix("torch.")
        plain = as_integers(plain).contiguous()
        carried = (*plain.shape, plain.element_size())
        copied = plain.data_ptr() != original.data_ptr()
        return Memory(plain.data_ptr(), "U8", carried, None, device, plain, tag, copied)
    shape, strides = tuple(plain.shape), tuple(plain.stride())
    if name in dtypes.PACKED_BITS:
        plain = plain.view(torch.uint8).contiguous()
        shape = (*shape[:-1], shape[-1] * 2)
    contiguous = plain.is_contiguous()
    copied = plain.data_ptr() != original.data_ptr()
    return Memory(
        plain.data_ptr(), name, shape, None if contiguous else strides, device, plain, "", copied
    )


def as_integers(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements as integers of their size: torch copies some dtypes in no other way."""
    import torch

    name = _INTEGERS.get(tensor.element_size())
    found: torch.Tensor = tensor if name is None else tensor.view(vars(torch)[name])
    return found


def is_storable(dtype: numpy.dtype[Any]) -> bool:
    """Whether arrays of a dtype are stored as tensors, and not pickled."""
    return not dtype.hasobject and dtype.itemsize > 0 and is_spelled(dtype)


def is_spelled(dtype: numpy.dtype[Any]) -> bool:
    """Whether dtype_spelling() says all of a dtype."""
    if dtype.names is not None or dtype.subdtype is not None or dtype.metadata is not None:
        return False
    return _can_be_spelled(dtype)


@functools.lru_cache(maxsize=256)
def _can_be_spelled(dtype: numpy.dtype[Any]) -> bool:
    # Dtypes of other packages, and of strings of any length, are spelled like others.
    try:
        found = dtypes.named_numpy_dtype(dtype_spelling(dtype))
    except Exception:
        return False
    return found == dtype and type(found) is type(dtype) and found.type is dtype.type


def of_array(array: numpy.ndarray[Any, Any]) -> Memory | None:
    """Describes a NumPy array; None where only pickle can store it (objects, records).

    Arrays of foreign byte order or with strides that no element count gives are copied.
    Dtypes that the format lacks (dates, fixed-width strings) become bytes with a last dimension
    more; their NumPy spelling is in the tag.
    """
    import numpy

    if not is_storable(array.dtype):
        return None
    original = array
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    name = dtypes.numpy_name(array.dtype)
    if name is None:
        return _carried(array)
    if array.size * dtypes.PACKED_BITS.get(name, 8) % 8:
        raise DsckptError(
            f"{array.size} elements of {array.dtype} do not fill whole bytes: pad them, or save "
            "array.view('u1') with a byte for each",
            "InvalidArgument",
        )
    size = array.dtype.itemsize
    if name in dtypes.PACKED_BITS:
        packed = dtypes.pack(array, dtypes.PACKED_BITS[name])
        address = packed.ctypes.data
        return Memory(address, name, array.shape, None, -1, packed, ARRAY_TAG, True)
    if any(stride < 0 or stride % size for stride in array.strides):
        array = numpy.ascontiguousarray(array).reshape(array.shape)
    contiguous = bool(array.flags.c_contiguous)
    strides = None if contiguous else tuple(stride // size for stride in array.strides)
    address, copied = array.ctypes.data, array is not original
    return Memory(address, name, array.shape, strides, -1, array, ARRAY_TAG, copied)


def _carried(array: numpy.ndarray[Any, Any]) -> Memory:
    import numpy

    size = array.dtype.itemsize
    flat = numpy.ascontiguousarray(array)  # makes 0-d arrays 1-d: shapes come from `array`
    tag = f"{ARRAY_TAG}:{dtype_spelling(array.dtype)}"
    copied = not numpy.may_share_memory(flat, array)
    return Memory(flat.ctypes.data, "U8", (*array.shape, size), None, -1, flat, tag, copied)


def copy_back(found: Memory, array: numpy.ndarray[Any, Any]) -> None:
    """Writes a copy that of_array() made into the array that it was made of."""
    if found.dtype in dtypes.PACKED_BITS:
        array[...] = dtypes.unpack(found.owner, found.dtype, array.shape)
    else:
        array[...] = found.owner.reshape(array.shape)


def dtype_spelling(dtype: numpy.dtype[Any]) -> str:
    """What dtypes.named_numpy_dtype() undoes."""
    return str(dtype.name if dtypes.is_ml_dtype(dtype) else dtype.str)


def restore_view(name: str, carrier: torch.Tensor) -> torch.Tensor:
    """Makes the tensor of a torch dtype that the format lacks from its bytes."""
    import torch

    dtype = vars(torch).get(name)
    if not isinstance(dtype, torch.dtype):
        raise DsckptError(f"torch {torch.__version__} has no dtype {name}", "Unsupported")
    return carrier.reshape(-1).view(dtype).reshape(carrier.shape[:-1])


@dataclass
class Packed:
    """Loaded elements of a packed dtype that torch lacks: only NumPy can show them."""

    info: tuple[Any, ...]
    """as _native.File.tensors() lists it"""
    data: Any
    """flat bytes: a torch tensor or NumPy array of uint8"""
    shown: bool = False

    def array(self) -> numpy.ndarray[Any, Any]:
        """The elements, each in a byte of its own, as ml_dtypes has them."""
        import numpy

        self.shown = True
        flat = self.data if isinstance(self.data, numpy.ndarray) else self.data.cpu().numpy()
        return dtypes.unpack(flat, self.info[1], self.info[3])


def as_array(value: Any) -> numpy.ndarray[Any, Any]:
    """A loaded tensor as a NumPy array, which shares CPU memory where elements have whole bytes."""
    import numpy

    found: numpy.ndarray[Any, Any]
    if isinstance(value, numpy.ndarray):
        found = value
        return found
    if isinstance(value, Packed):
        return value.array()
    import torch

    shape = tuple(value.shape)
    name = dtypes.torch_name(value.dtype)
    if name is None:
        raise DsckptError(f"NumPy has no counterpart of {value.dtype}", "Unsupported")
    flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    if name in dtypes.PACKED_BITS:
        return dtypes.unpack(flat, name, (*shape[:-1], shape[-1] * 2))
    found = flat.view(dtypes.numpy_dtype(name)).reshape(shape)
    return found


def restore_array(spelling: str, array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """Makes an array of its own dtype from what was stored under a tag of of_array()."""
    if not spelling:
        return array
    dtype = dtypes.named_numpy_dtype(spelling)
    found: numpy.ndarray[Any, Any] = array.reshape(-1).view(dtype).reshape(array.shape[:-1])
    return found
