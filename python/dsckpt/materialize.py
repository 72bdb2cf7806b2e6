"""Makes torch tensors or NumPy arrays of a file's tensors: views of its mapping, or memory to load
into. One backend object an open file; the loops here run once a tensor and are kept short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _native, dtypes, streams
from .errors import DsckptError
from .memory import Packed

if TYPE_CHECKING:
    import torch

Info = tuple[str, str, int, tuple[int, ...], int, int, int, str]
"""What _native.File.tensors() lists: name, dtype, code, shape, offset, raw and stored bytes,
encoding."""
Request = tuple[str, int, int, Sequence[int] | None, int, int]


class TorchBackend:
    """Tensors of torch. `device`: where those lie that are loaded, not mapped."""

    def __init__(self, device: torch.device | None = None) -> None:
        import torch

        self.torch = torch
        self.device = device or torch.device("cpu")
        self.ordinal, self.stream = -1, 0
        if self.device.type == "cuda":
            index = self.device.index
            self.ordinal = torch.cuda.current_device() if index is None else index
            self.stream = streams.current(self.ordinal)
        self._known: dict[str, tuple[torch.dtype, int, bool]] = {}

    def kind(self, info: Info) -> tuple[torch.dtype, int, bool]:
        """(dtype, bytes an element of that dtype, whether it stands for flat packed bytes)."""
        found = dtypes.torch_dtype(info[1])
        if found is None and info[1] not in dtypes.PACKED_BITS:
            raise unknown_dtype(info, "torch")
        if info[1] == "F4":  # Pairs along the last dimension; not kept, for it is up to the shape.
            paired = found is not None and len(info[3]) > 0 and info[3][-1] % 2 == 0
            return (found if paired and found else self.torch.uint8, 1, not paired)
        kind = (found or self.torch.uint8, (found or self.torch.uint8).itemsize, found is None)
        self._known[info[1]] = kind
        return kind

    def view(self, mapping: memoryview, info: Info) -> Any:
        """A tensor that is the mapping's memory; None where it would be misaligned."""
        dtype, size, packed = self._known.get(info[1]) or self.kind(info)
        shape, offset, raw = info[3], info[4], info[5]
        if raw == 0:
            return self.empty(info)[0]
        if offset % min(size, 8):
            return None
        flat = self.torch.frombuffer(mapping, dtype=dtype, count=raw // size, offset=offset)
        if packed:
            return Packed(info, flat)
        return flat.view(shape if info[1] != "F4" else _pairs(shape))

    def empty(self, info: Info) -> tuple[Any, int]:
        """A tensor to load into, and its address."""
        dtype, _, packed = self._known.get(info[1]) or self.kind(info)
        if packed:
            data = self.torch.empty(info[5], dtype=dtype, device=self.device)
            return Packed(info, data), data.data_ptr()
        shape = info[3] if info[1] != "F4" else _pairs(info[3])
        made = self.torch.empty(shape, dtype=dtype, device=self.device)
        return made, made.data_ptr()

    def over(self, elements: bytearray, info: Info) -> Any:
        """A tensor over memory of its own."""
        if not elements:
            return self.empty(info)[0]
        dtype, _, _ = self.kind(info)
        return self.torch.frombuffer(elements, dtype=dtype).view(info[3])


class NumpyBackend:
    """Arrays of NumPy."""

    ordinal, stream = -1, 0

    def __init__(self) -> None:
        try:
            import numpy
        except ImportError:
            raise DsckptError(
                "tensors are loaded as those of torch, or else as arrays of NumPy: install one of "
                "them",
                "Unsupported",
            ) from None
        self.numpy = numpy

    def view(self, mapping: memoryview, info: Info) -> Any:
        """An array that is the mapping's memory; None where it would be misaligned."""
        shape, offset, raw = info[3], info[4], info[5]
        if raw == 0:
            return None
        if info[1] in dtypes.PACKED_BITS:
            flat = self.numpy.frombuffer(mapping, self.numpy.uint8, raw, offset)
            return Packed(info, flat)
        dtype = _numpy_dtype(info)
        if offset % min(dtype.itemsize, 8):
            return None
        count = raw // dtype.itemsize
        return self.numpy.frombuffer(mapping, dtype, count, offset).reshape(shape)

    def empty(self, info: Info) -> tuple[Any, int]:
        """An array to load into, and its address."""
        if info[1] in dtypes.PACKED_BITS:
            data = self.numpy.empty(info[5], self.numpy.uint8)
            return Packed(info, data), data.ctypes.data
        made = self.numpy.empty(info[3], _numpy_dtype(info))
        return made, made.ctypes.data

    def over(self, elements: bytearray, info: Info) -> Any:
        """An array over memory of its own."""
        return self.numpy.frombuffer(elements, _numpy_dtype(info)).reshape(info[3])


Backend = TorchBackend | NumpyBackend


def backend_for(device: torch.device | None) -> Backend:
    """What makes tensors on a device, or in CPU memory: arrays, where torch is not installed."""
    return TorchBackend(device) if dtypes.have_torch() else NumpyBackend()


def _numpy_dtype(info: Info) -> Any:
    try:
        return dtypes.numpy_dtype(info[1])
    except DsckptError as error:
        raise DsckptError(f"tensor {info[0]!r}: {error}", error.code) from None


def _pairs(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], shape[-1] // 2)


def unknown_dtype(info: tuple[Any, ...], library: str) -> DsckptError:
    """The error for a tensor whose dtype a library lacks."""
    return DsckptError(
        f"tensor {info[0]!r} has dtype {info[1]} (code {info[2]}) and shape {list(info[3])}, which "
        f"{library} lacks: update it, or read this tensor as an array, or read the others alone: "
        "dsckpt.open(path)[name].numpy()",
        "Unsupported",
    )


def materialize(
    native: _native.File,
    mapping: memoryview | None,
    infos: Sequence[Info],
    backend: Backend,
    verify: bool,
) -> list[Any]:
    """All of `infos`, in order: mapped where that is possible, the rest loaded in one call.

    Args:
        native: The open file.
        mapping: Its mapping; None: everything is loaded.
        infos: Tensors of the file.
        backend: What to make.
        verify: Whether checksums are checked of what is loaded.
    """
    out: list[Any] = []
    requests: list[Request] = []
    for info in infos:
        made = None
        if mapping is not None and info[7] == "raw":
            made = backend.view(mapping, info)
        if made is None:
            made, address = backend.empty(info)
            if info[5]:
                where = (info[0], address, info[5], None, backend.ordinal, backend.stream)
                requests.append(where)
        out.append(made)
    if requests:
        native.load(requests, verify=verify)
    return out
