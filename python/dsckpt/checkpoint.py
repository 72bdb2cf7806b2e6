"""Sharded checkpoints: tensors by name, from whichever files hold them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

from . import _native, arguments, dtypes, indexing, mapped, memory, paths, rebuild
from .assemble import Assembly, load_shard
from .errors import DsckptError
from .map_location import MapLocation
from .materialize import Info, backend_for
from .models import of_torch
from .own import own_rank, ranks_here, took_another
from .pickles import Permission
from .tensor_info import TensorInfo, TensorStatistics, TensorTable, allocate

MANIFEST = "dsckpt.manifest"
"""The file of a checkpoint directory that is written last: without it there is no checkpoint."""


class Checkpoint:
    """A checkpoint directory, or one file as a checkpoint of its own. Thread-safe.

    Any number of ranks can read what any other number wrote. Files are opened when something in
    them is needed, and compared with the manifest.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, rank: int | None = None, ranks: int | None = None
    ) -> None:
        """Reads the manifest.

        Args:
            path: The directory or file; of a run also "RUN@STEP", "RUN@latest" or "RUN@-2".
            rank: Which rank this process is, for load_into(); None: torch.distributed's, or 0.
            ranks: How many there are; None: torch.distributed's, or 1. Where as many wrote the
                checkpoint, a strict load_into() refuses what only the file has.

        Raises:
            DsckptError: NotFound; Incomplete, for a directory without a manifest; Corrupt, ...
        """
        self._native = _native.Checkpoint(paths.resolve(path))
        self._rank = None if rank is None else arguments.integer("rank", rank, 0)
        self._ranks = None if ranks is None else arguments.integer("ranks", ranks, 1)
        self._table = TensorTable(self._native)
        self._mapped: dict[int, tuple[list[Info], memoryview | None]] = {}

    @property
    def path(self) -> str:
        """The directory or file."""
        return self._native.path

    @property
    def native(self) -> _native.Checkpoint:
        """What the compiled part knows of it."""
        return self._native

    @property
    def step(self) -> int | None:
        """As given to the save."""
        return self._native.step

    @property
    def ranks(self) -> int:
        """How many ranks wrote it."""
        return self._native.ranks

    @property
    def shards(self) -> list[tuple[str, int, int]]:
        """(file name, rank that wrote it, bytes), in the manifest's order."""
        return self._native.shards()

    @property
    def content_digest(self) -> str | None:
        """One digest of what all files hold, 32 hexadecimal digits, without reading them.

        It is equal where as many files of the same ranks hold equal content. None where a file has
        no digest of its content: plain safetensors, or one of format 1.0. Not cryptographic.
        """
        return self._native.content_digest

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of rank 0's first file; where rank 0 wrote none, of the lowest rank's."""
        # They ascend by rank.
        return rebuild.visible(rebuild.attributes_of(self._native.open_shard(0)))

    @property
    def tensors(self) -> dict[str, TensorInfo]:
        """The tensors of the job, whole, by name."""
        return self._table.infos

    def digest(self, name: str, *, compute: bool = False) -> str | None:
        """The digest of a tensor: equal for equal content, dtype and shape. Not cryptographic.

        It is that of the same tensor in any other file, and what `dsckpt hash` prints.

        Args:
            name: A key of `tensors`.
            compute: Read the tensor where no digest of it is stored: it lies in parts, or in plain
                safetensors.

        Returns:
            32 hexadecimal digits; None where none is stored.

        Raises:
            KeyError: No such tensor.
            DsckptError: Incomplete, Corrupt, ...
        """
        self._info(name)
        return self._native.digest(self._table.ordinal(name), compute=compute)

    def statistics(self, name: str) -> TensorStatistics | None:
        """What the elements of a tensor are, in numbers, without reading them.

        Args:
            name: A key of `tensors`.

        Returns:
            None where no file has them: it was saved without `statistics=True`, the tensor lies in
            parts, or its dtype is packed.

        Raises:
            KeyError: No such tensor.
            DsckptError: NotFound, Corrupt, ...
        """
        self._info(name)
        found = self._native.statistics(self._table.ordinal(name))
        return TensorStatistics(*found) if found else None

    def _info(self, name: str) -> TensorInfo:
        info = self.tensors.get(name)
        if info is None:
            raise KeyError(f"no tensor {name!r} in {self.path}: its `tensors` has the names")
        return info

    def read(self, name: str, part: Any = None, *, mmap: bool = True) -> Any:
        """Reads a tensor, or a part of it, from the files that hold it.

        A tensor that one file holds whole, once and raw is that file, mapped: nothing is copied,
        read or checked before it is used, and writing changes memory, never the file. Of all others
        checksums are checked, and copies that overlap compared.

        Args:
            name: A key of `tensors`.
            part: None: all of it; a list of (begin, end), one a dimension; or an index of ints,
                slices and '...', as for an array.
            mmap: Whether the result may be a view of a file. False: memory of its own, checked.

        Returns:
            A CPU tensor; a NumPy array where torch is not installed.

        Raises:
            KeyError: No such tensor.
            DsckptError: Incomplete, Mismatch (copies differ), Corrupt, Unsupported, ...
        """
        info = self._info(name)
        box, rest = _box_of(part, info.shape)
        view = self._view(name, info) if mmap else None
        if view is not None:
            return view[tuple(slice(*ends) for ends in box)][rest] if rest or box else view
        shape = tuple(end - begin for begin, end in box)
        made, buffer = allocate(info, shape)
        if buffer is not None:
            self._native.read([(name, box, buffer)])
        made = made.array() if isinstance(made, memory.Packed) else made
        return made[rest] if rest else made

    def _view(self, name: str, info: TensorInfo) -> Any:
        """The tensor as a view of the file that holds it whole and raw; None where none does."""
        if info.pieces != 1 or info.dtype in dtypes.PACKED_BITS:
            return None
        ((shard, ordinal, piece),) = self._native.pieces(self._table.ordinal(name))
        infos, mapping = self._map(shard)
        stored = infos[ordinal]
        held = stored[3] == info.shape and stored[1] == info.dtype and stored[5] == info.nbytes
        box = [(0, size) for size in info.shape]
        whole = piece.box == box or piece.flat == (0, math.prod(info.shape))
        if mapping is None or not held or not whole or piece.element_offset or stored[7] != "raw":
            return None
        return backend_for(None).view(mapping, stored)

    def _map(self, shard: int) -> tuple[list[Info], memoryview | None]:
        """The tensors and the mapping of a file, which is checked against the manifest first."""
        found = self._mapped.get(shard)
        if found is None:
            native, mapping = mapped.open_mapped(self._native.open_shard(shard).path)
            found = self._mapped.setdefault(shard, (native.tensors(), mapping))
        return found

    def shard_of(self, rank: int, name: str | None = None) -> int:
        """The position in `shards` of a rank's file, or of the file `name` of that rank.

        Raises:
            DsckptError: NotFound; InvalidArgument, when the rank wrote several and none was named.
        """
        mine = [(i, shard[0]) for i, shard in enumerate(self.shards) if shard[1] == rank]
        found = [i for i, shard in mine if name is None or shard == name]
        if len(found) == 1:
            return found[0]
        names = [shard for _, shard in mine]
        if not mine:
            ranks = sorted({shard[1] for shard in self.shards})
            raise DsckptError(
                f"{self.path}: no file of rank {rank}; there are files of {len(ranks)} "
                f"rank(s), {ranks[0]} to {ranks[-1]}. load(or_shared=True) gives what these share",
                "NotFound",
                self.path,
            )
        if not found:
            raise DsckptError(
                f"{self.path}: rank {rank} wrote no file {name!r}, but {names}",
                "NotFound",
                self.path,
            )
        raise DsckptError(
            f"{self.path}: rank {rank} wrote {names}: say which with "
            "dsckpt.Checkpoint(...).load(rank, shard=...)",
            "InvalidArgument",
            self.path,
        )

    def load(
        self,
        rank: int | None = None,
        *,
        shard: str | None = None,
        or_shared: bool = False,
        map_location: MapLocation = None,
        mmap: bool = True,
        allow_pickle: bool = False,
        allow: Iterable[type | str] = (),
        verify: bool | None = None,
    ) -> Any:
        """The state that a rank saved, with its tensors whole.

        A tensor of which the rank stored one part (the local shard of a DTensor) comes back whole,
        put together from all files. Tensors that hold parts of several (a flat buffer of a sharded
        optimizer) come back as the rank had them.

        Args:
            rank: Whose state. None: rank 0's; a warning says so where this process is another rank
                and something in that state is rank 0's own.
            shard: Which of the rank's files, where it wrote several.
            or_shared: Where the rank wrote nothing, because more ranks load than saved: what all
                ranks share, from rank 0's file, without what was rank 0's own (rank_own()): that is
                missing in dicts and None in lists and tuples.
            map_location: As for dsckpt.load().
            mmap: As for dsckpt.load().
            allow_pickle: As for dsckpt.load().
            allow: As for dsckpt.load().
            verify: As for dsckpt.load(), of tensors that lie whole in the rank's file. Parts are
                always checked.

        Raises:
            DsckptError: NotFound (the rank wrote nothing); Incomplete, Mismatch, Corrupt, ...
            PickleRefused: As for dsckpt.load().
        """
        permission = Permission(allow_pickle, allow, self.path)
        wanted = 0 if rank is None else arguments.integer("rank", rank)
        shared_only = or_shared and self._rank_or_0(wanted) != wanted
        at = self.shard_of(0 if shared_only else wanted, shard)
        if rank is None and self._own_rank() != 0:
            took_another(self._own_rank(), self._native.open_shard(at).rank_own(), self.path)
        return load_shard(self._table, at, map_location, mmap, permission, verify, shared_only)

    def load_into(
        self,
        state: Any,
        rank: int | None = None,
        *,
        shard: str | None = None,
        strict: bool = True,
        allow_pickle: bool = False,
        allow: Iterable[type | str] = (),
    ) -> Any:
        """Loads into the tensors of a state, without a second copy. See dsckpt.load_into().

        A DTensor gets the box that its local shard is, however many ranks wrote it. A plain tensor
        gets the whole tensor of its name, or what `rank` stored at its place, whichever has its
        shape.

        What is a rank's own (rank_own(), `dsckpt.random`), because the state or the checkpoint says
        so, comes from `rank` alone. Where the checkpoint has none for it, because more ranks load
        than saved, that is an error; without `strict` it is left as it is, and a warning says so.

        Args:
            state: As for dsckpt.load_into().
            rank: Whose values and objects are taken; None: this process's, as the run or __init__()
                was told, or torch.distributed says, or 0. Where that rank wrote nothing: what all
                ranks share, from 0.
            shard: As for load().
            strict: As for dsckpt.load_into(), and whether it is an error that `rank` has nothing of
                what is a rank's own.
            allow_pickle: As for dsckpt.load().
            allow: As for dsckpt.load().

        Returns:
            As dsckpt.load_into().
        """
        permission = Permission(allow_pickle, allow, self.path)
        mine = self._own_rank() if rank is None else arguments.integer("rank", rank, 0)
        at = self.shard_of(self._rank_or_0(mine), shard)
        assembly = Assembly(self._table, at, mine, self._ranks_here())
        return assembly.load_into(state, permission, strict)

    def _own_rank(self) -> int:
        return own_rank() if self._rank is None else self._rank

    def _ranks_here(self) -> int:
        return ranks_here() if self._ranks is None else self._ranks

    def _rank_or_0(self, rank: int) -> int:
        return rank if any(shard[1] == rank for shard in self.shards) else 0

    def __repr__(self) -> str:
        ranks = "1 rank" if self.ranks == 1 else f"{self.ranks} ranks"
        return f"Checkpoint({self.path!r}, step {self.step}, {ranks})"


def _box_of(part: Any, shape: tuple[int, ...]) -> tuple[list[tuple[int, int]], tuple[Any, ...]]:
    if part is None:
        return [(0, size) for size in shape], ()
    if not isinstance(part, list):
        return indexing.to_box(part, shape)
    box = [(int(begin), int(end)) for begin, end in part]
    fits = len(box) == len(shape) and all(
        0 <= begin <= end <= size for (begin, end), size in zip(box, shape)
    )
    if not fits:
        raise IndexError(f"the box {box} does not lie in the shape {list(shape)}")
    return box, ()


def open_directory(path: str | os.PathLike[str]) -> Checkpoint:
    """A checkpoint directory, or the latest checkpoint of a run directory.

    Raises:
        DsckptError: NotFound, when it is neither; Incomplete, ...
    """
    name = paths.resolve(path)
    if os.path.exists(os.path.join(name, MANIFEST)):
        return Checkpoint(name)
    with of_torch(name):
        return Checkpoint(_native.RunDirectory(name).latest().path)
