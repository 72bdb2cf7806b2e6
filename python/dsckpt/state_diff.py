"""Compares a state in memory with a stored one, and says what has to be written where."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import dtensor, memory, object_tensors, tree, tuples
from .errors import DsckptError, place
from .own import RankOwn, marked, took_unshared, without_own

Path = tuple[Any, ...]
_SHOWN_DIFFERENCES = 20


@dataclass(eq=False, slots=True)
class Stored:
    """Stands for a stored tensor in a tree."""

    ordinal: int
    tag: str = ""


@dataclass(slots=True)
class Target:
    """Memory to load one tensor into, and what to do then if it is not the tensor's own."""

    found: memory.Memory
    tensor: Any
    finish: Callable[[], None] | None = None


Accept = Callable[[Any, Stored | None, Path], str | None]
"""Notes that a tensor of the state is filled from the file: (tensor, what stands at its place in
the file, its place). Returns None, or how the two differ; may raise DsckptError for that."""


@dataclass
class Own:
    """What is a rank's own in the state to load into, and where it comes from.

    Args:
        rank: Whose.
        stored: The stored state; of a file with the states of all ranks, that of this one.
        of_another: Whether another rank wrote the file.
        root: What stands before all places in the file.
        anothers: Names of what that file says is its rank's own; `stored` has none of it.
        lacked: Places of which the file has other ranks' own, but nothing for this one.
        unshared: Places of values there that differ from rank to rank, though no mark says so.
        merged: Whether the file holds the states of all ranks.
        without: Found: places of the state for which there is nothing.
        taken: Found: places that get an unshared value.
    """

    rank: int
    stored: Any
    of_another: bool = False
    root: Path = ()
    anothers: frozenset[str] = frozenset()
    lacked: frozenset[Path] = frozenset()
    unshared: Sequence[Path] = ()
    merged: bool = False
    without: list[Path] = field(default_factory=list)
    taken: list[Path] = field(default_factory=list)

    def is_anothers(self, path: Path) -> bool:
        """Whether what stands there in the file must not be taken."""
        if self.lacked and path in self.lacked:
            return True
        if not self.anothers or not all(type(key) in (str, int) for key in path):
            return False
        return tree.item_name((*self.root, *path)) in self.anothers

    def note_taken(self, path: Path) -> None:
        """What stands at a place of the state is replaced by what the file has."""
        for other in self.unshared:
            shorter = min(len(other), len(path))
            if other[:shorter] == path[:shorter]:
                self.taken.append(path)
                return


@dataclass
class Match:
    """A walk over both trees together. Changes nothing.

    Args:
        accept: Called for each tensor.
        strict: Whether what only one side has is a difference.
        own: What to do about what is a rank's own.
        whole_file: With `strict`: whether that goes for what only the file has, too.
    """

    accept: Accept
    strict: bool
    own: Own
    whole_file: bool = True
    differences: list[str] = field(default_factory=list)
    updates: list[Callable[[], None]] = field(default_factory=list)
    _copied: str = ""
    """inside of what a state_dict() holds copies of: how its owner takes the values"""

    def differ(self, path: Path, what: str) -> None:
        """Notes a difference."""
        self.differences.append(f"{place(path)}: {what}")

    def walk(self, state: Any, stored: Any, path: Path = ()) -> Any:
        """Returns what has to stand in the place of `state`: itself, wherever that can stay."""
        anothers = self.own.is_anothers(path)
        if not anothers and not marked(state):
            return self._walk(state, stored, path)
        if self.own.of_another or stored is MISSING:
            self.own.without.append(path)
        elif isinstance(state, RankOwn):
            new = self._walk(state.value, stored, path)
            if new is not state.value:
                self.updates.append(lambda: setattr(state, "value", new))
        else:
            return self._walk(state, stored, path)
        return state

    def _walk(self, state: Any, stored: Any, path: Path) -> Any:
        if is_tensor(state):
            self._tensor(state, stored, path)
        elif object_tensors.is_filled_whole(state) and stored is not MISSING:
            self._fill_whole(state, stored, path)
        elif isinstance(stored, Stored):
            self.differ(path, f"a {_kind(state)} in the state, a tensor in the file")
        elif isinstance(state, dict) and isinstance(stored, dict):
            self._dict(state, stored, path)
        elif isinstance(state, list) and isinstance(stored, list) and len(state) == len(stored):
            for position, (mine, theirs) in enumerate(zip(state, stored)):
                self._place(state, position, mine, theirs, path)
        elif isinstance(state, tuple) and isinstance(stored, tuple) and len(state) == len(stored):
            return self._tuple(state, stored, path)
        elif stored is MISSING:
            self._only_here(state, path)
        elif has_tensors(state) or has_tensors(stored):
            hint = ": give its state_dict()" if hasattr(state, "state_dict") else ""
            self.differ(path, f"a {_kind(state)} in the state, a {_kind(stored)} in the file{hint}")
        elif self.strict and self._copied and not _same(state, stored):
            self.differ(path, f"{state!r} in the state, {stored!r} in the file: {self._copied}")
        else:
            self.own.note_taken(path)
            return stored
        return state

    def _dict(self, state: dict[Any, Any], stored: dict[Any, Any], path: Path) -> None:
        if self.strict and stored and not state:
            # An optimizer that has not stepped: whichever rank's, that cannot be meant.
            self.differ(path, f"empty in the state, {len(stored)} in the file: {_TAKE}")
            return
        around = self._copied
        for key, mine in state.items():
            self._copied = around or _copied_in(state, key)
            if self.strict and self._copied is _EXTRA_STATE and is_tensor(mine):
                self.differ((*path, key), self._copied)
            else:
                self._place(state, key, mine, stored.get(key, MISSING), path)
        self._copied = around
        if self.strict and self.whole_file:
            for key in stored.keys() - state.keys():
                self.differ((*path, key), "in the file only")

    def _place(self, holder: Any, key: Any, mine: Any, theirs: Any, path: Path) -> None:
        new = self.walk(mine, theirs, (*path, key))
        if new is not mine:
            self.updates.append(lambda: holder.__setitem__(key, new))

    def _tuple(self, state: Any, stored: tuple[Any, ...], path: Path) -> Any:
        # The fields of a named tuple are what names its items.
        keys: Sequence[Any] = tuples.fields_of(type(state)) or range(len(state))
        new = [self.walk(a, b, (*path, key)) for a, b, key in zip(state, stored, keys)]
        if all(a is b for a, b in zip(state, new)):
            return state
        if type(state) is tuple or not hasattr(type(state), "_fields"):
            return tuple(new) if type(state) is tuple else type(state)(new)
        return tuple.__new__(type(state), new)

    def _only_here(self, state: Any, path: Path) -> None:
        """The file lacks `state`, but a checkpoint may know its tensors by their names."""
        if isinstance(state, dict):
            for key, value in state.items():
                self.walk(value, MISSING, (*path, key))
        elif isinstance(state, (list, tuple)):
            for position, value in enumerate(state):
                self.walk(value, MISSING, (*path, position))
        elif self.strict:
            self.differ(path, "in the state only")

    def _fill_whole(self, mine: Any, theirs: Any, path: Path) -> None:
        try:
            self.updates.append(object_tensors.filler(mine, theirs))
        except DsckptError as error:
            self.differ(path, str(error))

    def _tensor(self, tensor: Any, stored: Any, path: Path) -> None:
        if object_tensors.is_array(stored):
            self._fill_whole(tensor, stored, path)
            return
        if stored is not MISSING and not isinstance(stored, Stored):
            self.differ(path, f"a tensor in the state, a {_kind(stored)} in the file")
            return
        found = stored if isinstance(stored, Stored) else None
        try:
            difference = self.accept(tensor, found, path)
        except DsckptError as error:
            difference = str(error)
        if difference:
            self.differ(path, difference)

    def check(self, file: str) -> None:
        """Raises Mismatch if there is any difference. Says what a rank's own is not there."""
        if not self.differences:
            without_own(self.own.rank, self.own.without, file, self.strict)
            took_unshared(self.own.rank, self.own.taken, file, self.strict and self.own.merged)
            return
        shown = self.differences[:_SHOWN_DIFFERENCES]
        more = len(self.differences) - len(shown)
        lines = "".join(f"\n  {line}" for line in shown) + (f"\n  and {more} more" if more else "")
        raise DsckptError(
            f"{file} does not fit the state, so nothing was loaded:{lines}", "Mismatch", file
        )


_TAKE = "give what load() returns to load_state_dict() of the module or optimizer"
_EXTRA_STATE = f"extra state, of which a module's state_dict() holds a copy: {_TAKE}"
_MODULE = f"a module's state_dict() holds a copy of it: {_TAKE}"
_OPTIMIZER = f"an optimizer's state_dict() holds a copy of it: {_TAKE}"


def _copied_in(state: dict[Any, Any], key: Any) -> str:
    """What to say of a value in the state_dict() of a module or optimizer that its owner would not
    notice being replaced; empty: none such."""
    if hasattr(state, "_metadata"):
        extra = isinstance(key, str) and key.rpartition(".")[2] == "_extra_state"
        return _EXTRA_STATE if extra else _MODULE
    return _OPTIMIZER if key == "param_groups" and state.keys() == {"state", key} else ""


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other) or repr(one) == repr(other)  # NaN
    except Exception:  # Of arrays and such.
        return False


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


def is_tensor(value: Any) -> bool:
    """Whether a value of a state is stored as a tensor."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return dtensor.is_dtensor(value) or memory.is_plain_strided(value)
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(value) not in (numpy.ndarray, numpy.memmap):
        return False
    return memory.is_storable(value.dtype)


def has_tensors(value: Any) -> bool:
    """Whether a tensor lies anywhere below a value."""
    if isinstance(value, RankOwn):
        return has_tensors(value.value)
    if isinstance(value, dict):
        return any(map(has_tensors, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(has_tensors, value))
    return isinstance(value, Stored) or is_tensor(value) or object_tensors.is_array(value)


def _kind(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def target_of(tensor: Any) -> Target:
    """Where a tensor of a state is loaded to: its own memory if that can be written to directly.

    Raises:
        DsckptError: InvalidArgument, when it cannot be written in place at all.
    """
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        return _array_target(tensor)
    if dtensor.is_dtensor(tensor):
        tensor = dtensor.local(tensor)
    found = memory.of_tensor(tensor)
    if found.strides is None and not found.copied:
        return Target(found, tensor)
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        raise DsckptError("an expanded tensor: its elements share memory", "InvalidArgument")
    own = tensor.detach()
    if found.device >= 0 and found.strides is not None:
        fresh = memory.of_tensor(found.owner.contiguous())
        return Target(fresh, tensor, lambda: own.copy_(fresh.owner))
    if not found.copied:
        return Target(found, tensor)
    if found.owner.dtype != own.dtype:
        own = own.view(found.owner.dtype)
    return Target(found, tensor, lambda: own.copy_(found.owner))


def _array_target(array: Any) -> Target:
    if not array.flags.writeable:
        raise DsckptError("a read-only array", "InvalidArgument")
    found = memory.of_array(array)
    if found is None:
        raise DsckptError(f"an array of {array.dtype}", "InvalidArgument")
    if not found.copied:
        return Target(found, array)
    return Target(found, array, lambda: memory.copy_back(found, array))
