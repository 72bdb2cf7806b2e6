"""State that belongs to one rank: random states, positions of data loaders, a rank's statistics.

What ranks save under one name is one thing: a tensor has to be equal on all of them, and a rank
that wrote nothing gets what rank 0 wrote. What is marked here is neither: each rank has its own.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from .errors import DsckptError, place

RANKS = "ranks"
"""Where states of all ranks in one file keep what belongs to each: state["ranks"][rank]."""


class RankOwn:
    """A marked value. Made by rank_own(); stands in states to save, and in states to load into.

    Attributes:
        value: The value itself.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"rank_own({self.value!r})"


class OwnDict(dict[Any, Any]):
    """A dict that marks itself. It is a plain dict for everybody but a save or load_into()."""


def rank_own(value: Any) -> RankOwn:
    """Marks a value as this rank's own: other ranks save others under the same name.

    Random states and the states of data loaders (`dsckpt.random`) are marked already. Mark what
    else differs from rank to rank: statistics of a rank's own batches, metrics, error feedback.

    A run keeps each rank's own; Checkpoint.load(rank) and load_into() give it back to that rank and
    to no other. In a file that is saved alone it is that of rank 0, and load() gives it back.

    Args:
        value: A tensor, a dict, a scalar, any value that a state may hold; not a DTensor, of which
            other ranks hold parts, nor a container of one. Marks stand in dicts, lists and tuples:
            in an object that is pickled they are refused.

    Returns:
        What to put into the state in the place of the value. It comes back as the value. In a state
        for load_into(), the new value of what cannot be changed in place is in its `value`.
    """
    return value if isinstance(value, RankOwn) else RankOwn(value)


def marked(value: Any) -> bool:
    """Whether a value is marked as a rank's own."""
    return isinstance(value, (RankOwn, OwnDict))


def own_rank() -> int:
    """This process's rank in torch.distributed, or 0."""
    distributed = joined()
    return 0 if distributed is None else int(distributed.get_rank())


def ranks_here() -> int:
    """How many ranks torch.distributed has, or 1."""
    distributed = joined()
    return 1 if distributed is None else int(distributed.get_world_size())


def joined() -> Any:
    """torch.distributed where this process is in a job of it, else None. Imports nothing."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return None
    return torch.distributed if torch.distributed.is_initialized() else None


def without_own(rank: int, paths: Sequence[Sequence[Any]], file: str, strict: bool) -> None:
    """Says that a rank finds nothing of its own at some places of a state.

    Raises:
        DsckptError: NotFound, with `strict`. Else it is a warning.
    """
    if not paths:
        return
    said = f"{file} has nothing of rank {rank}'s own for {_list(paths)}"
    if strict:
        raise DsckptError(
            f"{said}, so nothing was loaded: give load_into(strict=False) to leave that as it is "
            "and load the rest, or take another rank's on purpose, from Checkpoint.load(its rank)",
            "NotFound",
            file,
        )
    warnings.warn(f"{said}: it was left as it is", RuntimeWarning, stacklevel=5)


def took_unshared(
    rank: int, paths: Sequence[Sequence[Any]], file: str, strict: bool = False
) -> None:
    """Says that a rank gets rank 0's values of what differs from rank to rank, unmarked.

    Raises:
        DsckptError: NotFound, with `strict`. Else it is a warning.
    """
    if not paths:
        return
    if strict:
        raise DsckptError(
            f"{file} has nothing of rank {rank} for {_list(paths)}, which differs from rank to "
            "rank, so nothing was loaded: give load_into(strict=False) to take rank 0's",
            "NotFound",
            file,
        )
    warnings.warn(
        f"rank {rank} saved nothing in {file}, and gets rank 0's for {_list(paths)}, which "
        "differs from rank to rank: mark it with rank_own() where it is saved",
        RuntimeWarning,
        stacklevel=5,
    )


def took_another(rank: int, names: Sequence[str], file: str) -> None:
    """Warns that a rank loads the state of rank 0 with what is rank 0's own."""
    if names:
        warnings.warn(
            f"this is rank {rank}, and loads rank 0's own of {file}: {_first(names)}. Give "
            f"Checkpoint.load({rank}), or a rank on purpose",
            RuntimeWarning,
            stacklevel=4,
        )


def _list(paths: Sequence[Sequence[Any]]) -> str:
    return _first([place(path) for path in paths])


def _first(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
