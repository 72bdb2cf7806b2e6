"""Opens files for a look: their tensors are read when they are used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native, dtypes, indexing, mapped, memory, models, paths, rebuild
from .checkpoint import MANIFEST
from .errors import DsckptError, text_of
from .materialize import Info, NumpyBackend, TorchBackend, backend_for, materialize, unknown_dtype
from .tensor_info import TensorStatistics

if TYPE_CHECKING:
    import numpy
    import torch

__all__ = ["File", "LazyTensor", "StoredObject", "open"]


class LazyTensor:
    """A tensor of an open file. Thread-safe; stays usable after the file was closed.

    Attributes:
        name: Its own name in the file (not that of an alias).
        dtype: In the spelling of safetensors: "F32", "BF16", "F8_E4M3".
        shape: In elements of that dtype.
        nbytes: Bytes of its elements.
        encoding: "raw", "zstd" or "byteplane-zstd".
    """

    def __init__(self, native: _native.File, mapping: memoryview | None, info: Info) -> None:
        self._native = native
        self._mapping = mapping
        self._info = info
        self.name = info[0]
        self.dtype = info[1]
        self.shape = info[3]
        self.nbytes = info[5]
        self.encoding = info[7]

    def torch(self) -> torch.Tensor:
        """The tensor as torch has it.

        Raw tensors are the mapped file itself, without a copy: writing changes memory, never the
        file. Others are read, and their checksums checked. F4 has half of its last dimension in
        torch.

        Raises:
            DsckptError: Unsupported, where torch has no such dtype; errors of reading.
        """
        made = materialize(self._native, self._mapping, [self._info], TorchBackend(), True)[0]
        if isinstance(made, memory.Packed):
            raise unknown_dtype(self._info, "torch")
        found: torch.Tensor = made
        return found

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """The same as a NumPy array; BF16, F8, F6, F4, I4 and U4 with dtypes of ml_dtypes.

        Packed dtypes are unpacked into a byte an element.

        Raises:
            DsckptError: Unsupported, where ml_dtypes is needed and missing; errors of reading.
        """
        made = materialize(self._native, self._mapping, [self._info], NumpyBackend(), True)[0]
        return memory.as_array(made)

    def __getitem__(self, index: Any) -> Any:
        """Reads a part: f["w"][2:4, ..., 0].

        Only the chunks that hold it are read, and their checksums checked. Ints, slices with a
        positive step, and '...'.

        Returns:
            A torch tensor of its own memory; a NumPy array where torch is not installed.
        """
        if self.dtype in dtypes.PACKED_BITS:
            return (self.torch() if dtypes.torch_dtype(self.dtype) else self.numpy())[index]
        box, rest = indexing.to_box(index, self.shape)
        shape = tuple(end - begin for begin, end in box)
        elements = bytearray(_product(shape) * _element_bytes(self._info))
        if elements:
            self._native.read_slice(self.name, box, elements)
        return from_bytes(elements, self._info, shape)[rest]

    @property
    def ndim(self) -> int:
        """How many dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements."""
        return _product(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self.name!r} has no dimensions, and so no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For numpy.asarray() and NumPy's functions: numpy()."""
        made = self.numpy()
        if dtype is not None and made.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self.name!r} is {self.dtype}: as {dtype} it has to be copied")
            return made.astype(dtype)
        return made.copy() if copy else made

    def __dlpack__(self, **options: Any) -> Any:
        """For from_dlpack() of any framework: shares the memory of torch() or numpy()."""
        made: Any = self.torch() if dtypes.have_torch() else self.numpy()
        return made.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    def __repr__(self) -> str:
        return f"LazyTensor({self.name!r}, {self.dtype}, {list(self.shape)})"


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _element_bytes(info: Info) -> int:
    return info[5] // max(1, _product(info[3]))


def from_bytes(elements: bytearray, info: Info, shape: tuple[int, ...]) -> Any:
    """Elements of a tensor's dtype, row-major, as a torch tensor, or as an array without torch."""
    part: Info = (*info[:3], shape, 0, len(elements), 0, "raw")
    return backend_for(None).over(elements, part)


class StoredObject:
    """An object of an open file: bytes, of which nothing is run. Thread-safe.

    Attributes:
        name: Its name in the file.
        media_type: What the bytes are; "application/x-python-pickle" for Python objects.
        nbytes: How many.
    """

    def __init__(self, native: _native.File, info: tuple[str, str, int, int, int, str]) -> None:
        self._native = native
        self.name, self.media_type, _, self.nbytes, _, self.encoding = info

    def read(self) -> bytes:
        """The bytes, checksums checked."""
        return self._native.read_object(self.name)

    def __repr__(self) -> str:
        return f"StoredObject({self.name!r}, {self.media_type}, {self.nbytes} bytes)"


class File(Mapping[str, LazyTensor]):
    """An open file: a mapping of names (aliases too) to tensors. Thread-safe. See open().

    Args:
        path: As for open().
        ignore_header: As for open().
    """

    def __init__(self, path: str | os.PathLike[str], *, ignore_header: bool = False) -> None:
        self._native, self._mapping = mapped.open_mapped(paths.resolve(path), ignore_header)

    @property
    def path(self) -> str:
        """Where it was opened."""
        return self._native.path

    @property
    def format(self) -> str:
        """ "dsckpt" or "safetensors"."""
        return self._native.format

    @property
    def native(self) -> _native.File:
        """What the compiled part knows of it."""
        return self._native

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes given at the save, such as "step"."""
        return rebuild.visible(rebuild.attributes_of(self._native))

    @property
    def metadata(self) -> dict[str, str]:
        """The members of the safetensors `__metadata__`."""
        return self._native.metadata()

    @property
    def vendor(self) -> dict[str, bytes]:
        """The vendor data given at the save, by name."""
        return self._native.vendor()

    @property
    def verifiable(self) -> bool:
        """Whether this release can compute the checksums of what the file holds.

        False for plain safetensors, which has none, and for a shard of a hash that this release
        does not know: it is read without a check.
        """
        return self._native.verifiable

    @property
    def content_digest(self) -> str | None:
        """One digest of all that the file holds: equal for equal state that is split the same way.

        Attributes, metadata and vendor data do not count. None for plain safetensors and for files
        of format 1.0, which record none. Not cryptographic.
        """
        return self._native.content_digest

    @property
    def objects(self) -> dict[str, StoredObject]:
        """Objects by name. Nothing of them is read before it is asked for."""
        with text_of(self.path):
            infos = self._native.objects()
        return {info[0]: StoredObject(self._native, info) for info in infos}

    def digest(self, name: str, *, compute: bool = False) -> str | None:
        """The digest of a tensor: equal for equal content, dtype and shape. Not cryptographic.

        It is that of the same tensor in any other file, and what `dsckpt hash` prints.

        Args:
            name: A tensor's, or an alias of one.
            compute: Read the tensor where the file cannot tell: it is not `verifiable`.

        Returns:
            32 hexadecimal digits; None where the file is not `verifiable`.

        Raises:
            KeyError: No such tensor.
        """
        self[name]
        return self._native.digest_of(name, compute=compute)

    def statistics(self, name: str) -> TensorStatistics | None:
        """What the elements of a tensor are, in numbers, without reading them.

        Args:
            name: A tensor's, or an alias of one.

        Returns:
            None where the file was saved without `statistics=True`, and for packed dtypes.

        Raises:
            KeyError: No such tensor.
        """
        self[name]
        found = self._native.statistics(name)
        return TensorStatistics(*found) if found else None

    def tree(self) -> Any:
        """The state as it was saved, with a LazyTensor or StoredObject where those stand."""
        lazy = [LazyTensor(self._native, self._mapping, info) for info in self._native.tensors()]
        objects = list(self.objects.values())
        return rebuild.state(
            self._native, lazy, lambda ordinal, _tag, _path: objects[ordinal], _lazy_node
        )

    def __getitem__(self, name: str) -> LazyTensor:
        try:
            info = self._native.find_tensor(name)
        except KeyError:
            raise KeyError(
                f"no tensor {name!r} in {self.path}: its keys are the names; other values are in "
                "tree(), objects"
            ) from None
        return LazyTensor(self._native, self._mapping, info)

    def __iter__(self) -> Iterator[str]:
        yield from (info[0] for info in self._native.tensors())
        yield from (name for name, _ in self._native.aliases())

    def __len__(self) -> int:
        return len(self._native.tensors()) + len(self._native.aliases())

    def __enter__(self) -> File:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Does nothing that tensors would notice: the file stays mapped while one of them lives."""

    def __repr__(self) -> str:
        return f"File({self.path!r}, {len(self)} tensors)"


def _lazy_node(tag: str, value: Any, path: list[Any]) -> Any:
    return value if isinstance(value, LazyTensor) else rebuild.rebuild(tag, value, path)


def open(path: str | os.PathLike[str], *, ignore_header: bool = False) -> File:
    """Opens a dsckpt or safetensors file.

    Reads index and header only, so the cost does not depend on how large the tensors are; each is
    looked at when it is used. Tensors are views of the mapped file. If somebody else truncates a
    mapped file in place, touching it raises SIGBUS; load(path, mmap=False) reads instead.

    Example:
        >>> with dsckpt.open("step-100.dsckpt") as f:
        ...     f["model/embed.weight"].shape, f.attributes["step"]
        ...     rows = f["model/embed.weight"][:10]

    Args:
        path: The file; of a run whose checkpoints are files also "RUN@STEP", "RUN@latest" or
            "RUN@-2".
        ignore_header: Open a dsckpt file although its JSON header lists other tensors than its
            index, which alone then says what the file holds: for saving what a damaged header left.

    Returns:
        A File, which can be used as a context manager.

    Raises:
        DsckptError: NotFound, NotCheckpoint, Truncated, Corrupt, Unsupported, ...; Mismatch, when
            the JSON header lists other tensors than the index.
    """
    name = paths.resolve(path)
    if os.path.isdir(name):
        raise DsckptError(f"{name} is a directory: {_instead(name)}", "NotCheckpoint", name)
    return File(name, ignore_header=ignore_header)


def _instead(directory: str) -> str:
    if os.path.exists(os.path.join(directory, MANIFEST)):
        return "open one of its shards, or the whole with dsckpt.Checkpoint(path)"
    model = models.find(directory)
    torch_file = models.find_torch(directory)
    if model is None and torch_file is not None:
        return f"dsckpt.convert.convert() makes a file of {os.path.basename(torch_file)} in it"
    if model is not None and not model.endswith(".json"):
        return f"open the model's file {os.path.basename(model)} in it"
    if model is not None:
        return "open one of the model's files, or load them all with dsckpt.load(path)"
    return "of a run, dsckpt.Run(path).latest() is the latest checkpoint"
