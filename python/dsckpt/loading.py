"""Whole states from files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native, dtypes, mapped, memory, models, pending, rebuild
from .errors import DsckptError, place, text_of
from .materialize import Info, NumpyBackend, TorchBackend, materialize, unknown_dtype
from .pickles import MEDIA_TYPE, Permission, Refusal

if TYPE_CHECKING:
    import torch

MANIFEST = "dsckpt.manifest"
"""The file of a checkpoint directory that is written last: without it there is no checkpoint."""

MapLocation = Any
"""None, str, torch.device, dict or callable, as torch.load takes it."""


def load(
    path: str | os.PathLike[str],
    map_location: MapLocation = None,
    mmap: bool = True,
    *,
    allow_pickle: bool = False,
    allow: Iterable[type | str] = (),
    verify: bool | None = None,
) -> Any:
    """Loads the state of a file, checkpoint or run.

    Tensors come back as plain torch tensors (parameters and other subclasses included), without
    gradient tracking; names that were tied share one tensor; arrays come back as arrays, in native
    byte order. Where torch is not installed, all tensors are NumPy arrays, with dtypes of
    ml_dtypes.

    With `mmap`, raw tensors are the mapped file: nothing is read before it is used. They are
    writable (copy on write): the file never changes, and saving over it is safe. If somebody else
    truncates the file in place, touching such a tensor raises SIGBUS; `mmap=False` reads instead.
    File systems that refuse mmap are read.

    Args:
        path: A dsckpt file; a safetensors file (a flat dict); a checkpoint directory (the state of
            its rank 0, with distributed tensors whole); a run directory (its latest checkpoint); or
            the directory or index of a model in safetensors, as Hugging Face tools write it.
        map_location: Where tensors go, as for torch.load: a device, a dict of locations ("cpu":
            what stored tensors count as), or a function (storage, "cpu") -> storage or None. None:
            CPU memory, also for tensors that were saved from another device.
        mmap: Whether raw tensors for the CPU may be views of the file.
        allow_pickle: Whether objects of any class are unpickled. That may run code that the file's
            author chose.
        allow: Classes, or their "module.QualName", whose objects are unpickled. All classes that
            such a pickle names have to be listed.
        verify: Whether checksums are checked. None: of all that is read, but not of mapped tensors.
            True: everything is read and checked, nothing mapped. False: nothing of raw tensors.

    Returns:
        The state that was given to the save.

    Raises:
        DsckptError: NotFound, NotCheckpoint, Truncated, Corrupt, Incomplete, Unsupported, ...
        PickleRefused: An object's class is not allowed; nothing has been unpickled or loaded.
    """
    permission = Permission(allow_pickle, allow, os.fsdecode(path))
    pending.settle(path)
    model = _model_at(os.fsdecode(path))
    if model is not None:
        return _load_model(model, map_location, mmap, permission, verify)
    if os.path.isdir(path):
        from .checkpoint import open_directory

        return open_directory(path).load(
            map_location=map_location,
            mmap=mmap,
            allow_pickle=allow_pickle,
            allow=allow,
            verify=verify,
        )
    return load_file(path, map_location, mmap, permission, verify)


def _model_at(path: str) -> str | None:
    """The index or file of a model, where the path is its directory or index."""
    if path.endswith(".json") and not os.path.isdir(path):
        return path
    if not os.path.isdir(path) or os.path.exists(os.path.join(path, MANIFEST)):
        return None
    return models.find(path)


def _load_model(
    model: str, map_location: MapLocation, mmap: bool, permission: Permission, verify: bool | None
) -> Any:
    if not model.endswith(".json"):
        return load_file(model, map_location, mmap, permission, verify)
    return models.load_all(
        model, lambda file: load_file(file, map_location, mmap, permission, verify)
    )


def load_file(
    path: str | os.PathLike[str],
    map_location: MapLocation,
    mmap: bool,
    permission: Permission,
    verify: bool | None,
) -> Any:
    """load() of one file."""
    place = where_to(map_location)
    if mmap and not verify:
        native, mapping = mapped.open_mapped(path)
    else:
        native, mapping = mapped.open_native(path), None
    objects = load_objects(native, permission)
    tensors = place.tensors(native, mapping, native.tensors(), verify is not False, {})
    return finish(native, tensors, objects)


def load_objects(
    native: _native.File, permission: Permission, shared_only: bool = False
) -> list[Any]:
    """All objects of a file, by ordinal: unpickled where they are pickles and allowed, else bytes;
    with `shared_only` None for those that are the rank's own.

    Comes before anything large is read, so that a refusal is quick.
    """
    with text_of(native.path):
        stored = native.objects()
    objects: list[Any] = [None] * len(stored)
    if not stored:
        return objects

    refusal = Refusal()
    pickled: list[tuple[int, str, list[Any]]] = []

    def note(ordinal: int, tag: str, path: list[Any]) -> None:
        name, media_type = stored[ordinal][:2]
        if objects[ordinal] is not None:
            raise DsckptError(
                f"{native.path}: the object {name!r} stands at {place(path)} and at another place: "
                "whatever wrote the file is broken",
                "Corrupt",
                native.path,
            )
        objects[ordinal] = native.read_object(name)
        if media_type == MEDIA_TYPE:
            permission.check(objects[ordinal], tag, path, refusal)
            pickled.append((ordinal, tag, path))

    rebuild.state(native, native.tensors(), note, lambda _tag, _value, _path: None, shared_only)
    if refusal.names:
        raise refusal.error(permission.file)
    for ordinal, tag, path in pickled:
        objects[ordinal] = permission.loads(objects[ordinal], tag, path)
    return objects


def finish(
    native: _native.File, tensors: list[Any], objects: list[Any], shared_only: bool = False
) -> Any:
    """Puts tensors and objects at their places in the state."""
    state = rebuild.state(
        native,
        _shown(tensors),
        lambda ordinal, _tag, _path: objects[ordinal],
        rebuild.rebuild,
        shared_only,
    )
    for tensor in tensors:
        if type(tensor) is memory.Packed and not tensor.shown:
            if shared_only and native.is_rank_own(tensor.info[0]):
                continue
            raise unknown_dtype(tensor.info, "torch")
    return state


def _shown(tensors: list[Any]) -> list[Any]:
    """Without torch, packed elements are shown as arrays at once."""
    if dtypes.have_torch():
        return tensors
    return [t.array() if isinstance(t, memory.Packed) else t for t in tensors]


Mover = Callable[[Any], Any]


@dataclass(frozen=True)
class Place:
    """Where loaded tensors go: to a device directly, or to the CPU and then through `move`."""

    device: torch.device | None = None
    move: Mover | None = None

    def tensors(
        self,
        native: _native.File,
        mapping: memoryview | None,
        infos: Sequence[Info],
        verify: bool,
        made: dict[int, Any],
    ) -> list[Any]:
        """All tensors of a file, by ordinal. Those in `made` are on the CPU already."""
        if not infos:
            return []  # Neither torch nor NumPy is needed.
        if self.device is None and self.move is None:
            rest = [info for i, info in enumerate(infos) if i not in made] if made else infos
            loaded = iter(materialize(native, mapping, rest, _backend(None), verify))
            return [made[i] if i in made else next(loaded) for i in range(len(infos))]
        arrays = _array_ordinals(native)
        stay = [i for i in range(len(infos)) if i in arrays and i not in made]
        go = [i for i in range(len(infos)) if i not in arrays and i not in made]
        out = dict(made)
        for chosen, backend, view in (
            (stay, _backend(None), mapping),
            (go, _backend(self.device), mapping if self.device is None else None),
        ):
            some = materialize(native, view, [infos[i] for i in chosen], backend, verify)
            out.update(zip(chosen, some))
        for i in out.keys() - arrays:
            out[i] = self._moved(out[i])
        return [out[i] for i in range(len(infos))]

    def _moved(self, tensor: Any) -> Any:
        if isinstance(tensor, memory.Packed):
            return tensor
        return self.move(tensor) if self.move is not None else tensor.to(self.device)


def _backend(device: torch.device | None) -> TorchBackend | NumpyBackend:
    return TorchBackend(device) if dtypes.have_torch() else NumpyBackend()


def _array_ordinals(native: _native.File) -> set[int]:
    """Tensors that were NumPy arrays: those stay on the CPU."""
    found: set[int] = set()

    def note(tag: str, value: Any, _: list[Any]) -> None:
        if tag.startswith(memory.ARRAY_TAG) and type(value) is int:
            found.add(value)

    count = len(native.tensors())
    rebuild.state(native, range(count), lambda *_: None, note)
    return found


def where_to(location: MapLocation) -> Place:
    """What a map_location means."""
    if location is None or location == "cpu":
        return Place()
    if not dtypes.have_torch():
        raise DsckptError("map_location needs torch, which is not installed", "InvalidArgument")
    import torch

    if isinstance(location, Mapping):
        location = location.get("cpu", "cpu")
    if callable(location) and not isinstance(location, torch.device):
        return Place(move=lambda tensor: _relocate(tensor, location))
    device = torch.device(location)
    if device.type == "cpu":
        return Place()
    if device.type == "cuda" and _native.device_support() is None:
        return Place(device)
    return Place(move=lambda tensor: tensor.to(device))


def _relocate(tensor: Any, location: Callable[[Any, str], Any]) -> Any:
    import torch

    moved = location(tensor.untyped_storage(), "cpu")
    if moved is None:
        return tensor
    storage = getattr(moved, "_untyped_storage", moved)
    made = torch.empty(0, dtype=tensor.dtype, device=storage.device)
    return made.set_(storage, 0, tensor.shape, tensor.stride())
