"""Loading whole states, whatever a path is: a file, a checkpoint, a run or a model's directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from . import mapped, models, paths
from .checkpoint import MANIFEST, open_directory
from .file_state import load_file
from .filling import fill_from_file
from .map_location import MapLocation
from .pickles import Permission


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
            its rank 0, with distributed tensors whole); a run directory (its latest checkpoint);
            "RUN@STEP", "RUN@latest" or "RUN@-2", a checkpoint of a run; or the directory or index
            of a model in safetensors, as Hugging Face tools write it.
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
            A file of a hash that this release does not know is loaded unchecked, and unless this is
            False, with a RuntimeWarning.

    Returns:
        The state that was given to the save.

    Raises:
        DsckptError: NotFound, NotCheckpoint, Truncated, Corrupt, Incomplete, Unsupported, ...
        PickleRefused: An object's class is not allowed; nothing has been unpickled or loaded.
    """
    path = paths.resolve(path)
    permission = Permission(allow_pickle, allow, path)
    model = _model_at(path)
    if model is not None:
        return _load_model(model, map_location, mmap, permission, verify)
    if os.path.isdir(path):
        return open_directory(path).load(
            map_location=map_location,
            mmap=mmap,
            allow_pickle=allow_pickle,
            allow=allow,
            verify=verify,
        )
    return load_file(path, map_location, mmap, permission, verify)


def load_into(
    state: Any,
    path: str | os.PathLike[str],
    *,
    strict: bool = True,
    allow_pickle: bool = False,
    allow: Iterable[type | str] = (),
    verify: bool = True,
) -> Any:
    """Loads a file into the tensors of a state, without a second copy.

    Tensors and arrays are filled where they lie, on the CPU or a device, those that are stored as
    objects too (sparse, quantized, masked); everything else in dicts and lists is replaced by what
    the file has. All names, dtypes and shapes are compared before anything is changed, and what
    cannot be filled in place (a sparse tensor with one of more elements) is named.

    For a module, give its state_dict: `load_into(model.state_dict(), path)` fills its parameters
    and buffers. A state_dict holds copies of some values: a module's extra state, an optimizer's
    learning rates. Where those differ they are named, for replacing them would change nothing; so
    is the empty state of an optimizer that has not stepped. For these use
    `optimizer.load_state_dict(load(path)["optimizer"])`.

    A reading error after the comparison (a bad checksum) leaves a mixture of old and loaded
    tensors, and says so. Saves of this process that still capture are fenced first.

    Args:
        state: A nested state as for save(): dicts, lists, tuples, tensors, values.
        path: A file, a checkpoint directory (tensors are then taken by name from whichever ranks
            stored them, distributed ones by the local shard's box), a run directory, or a
            checkpoint of it as for load().
        strict: Whether what only the state or only the file has is an error, and a difference in
            what a state_dict has copies of. Else the former is left as it is and the latter
            replaced in the dict; where the former is a rank's own (rank_own()), a warning says so.
            Differing dtypes and shapes always are errors. Of a checkpoint by another number of
            ranks, things that only it has are no errors: they may be another rank's by now.
        allow_pickle: As for load().
        allow: As for load().
        verify: Whether checksums are checked.

    Returns:
        The state given; a new one where its root cannot be changed in place (a tuple or a value).

    Raises:
        DsckptError: Mismatch, naming every difference: nothing was changed. NotFound: this rank
            saved nothing of its own for what is a rank's own. Others as for load().
        PickleRefused: As for load(); nothing was changed.
    """
    path = paths.resolve(path)
    if os.path.isdir(path):
        checkpoint = open_directory(path)
        return checkpoint.load_into(state, strict=strict, allow_pickle=allow_pickle, allow=allow)
    native = mapped.open_native(path)
    permission = Permission(allow_pickle, allow, native.path)
    return fill_from_file(native, state, permission, strict, verify)


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
