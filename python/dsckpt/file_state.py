"""The state of one file: its tensors and objects, put at their places."""

from __future__ import annotations

import os
import warnings
from typing import Any

from . import _native, dtypes, mapped, memory, rebuild
from .errors import DsckptError, place, text_of
from .map_location import MapLocation, where_to
from .materialize import unknown_dtype
from .pickles import MEDIA_TYPE, Permission, Refusal


def load_file(
    path: str | os.PathLike[str],
    map_location: MapLocation,
    mmap: bool,
    permission: Permission,
    verify: bool | None,
) -> Any:
    """The state of one file. Arguments as for dsckpt.load(), of which this is a part."""
    place = where_to(map_location)
    if mmap and not verify:
        native, mapping = mapped.open_mapped(path)
    else:
        native, mapping = mapped.open_native(path), None
    if verify is not False:
        warn_unverifiable(native)
    objects = load_objects(native, permission)
    tensors = place.tensors(native, mapping, native.tensors(), verify is not False, {})
    return finish(native, tensors, objects)


def warn_unverifiable(native: _native.File) -> None:
    """Says, once a file, that nothing tells whether what is loaded is what was saved."""
    if native.format == "dsckpt" and not native.verifiable:
        warnings.warn(
            f"{native.path}: what is loaded is not verified, for its sums are of hash id "
            f"{native.hash_id}, which this release of dsckpt does not know",
            RuntimeWarning,
            stacklevel=4,
        )


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
