"""Files that hold the states of all ranks, as merging makes them: one rank's state out of them.

What ranks share stands at its place; what differs stands below state["ranks"][rank], as rank 0's
does where it is marked as a rank's own. A position of a list that was taken out holds None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .own import RANKS

Path = tuple[Any, ...]
_KEYED = ("py.OrderedDict", "py.defaultdict", "py.namedtuple")
"""Tags of nodes whose keys are those of the state, too."""


@dataclass(eq=False, slots=True)
class Tagged:
    """A tagged node, of which no value was made yet."""

    tag: str
    value: Any


@dataclass
class OfRank:
    """What a file has for one rank.

    Args:
        root: The root, of tagged nodes still, without the states of other ranks.
        saved: Whether the rank is known to have saved: what its part lacks is what all share.
        own: Places of which each rank has its own, and the file has none for this rank.
        unshared: Places where the value is rank 0's, and other ranks had others.
    """

    root: dict[Any, Any]
    saved: bool
    own: list[Path] = field(default_factory=list)
    unshared: list[Path] = field(default_factory=list)


def has_ranks(root: Any) -> bool:
    """Whether a root holds the states of several ranks."""
    ranks = root.get(RANKS) if isinstance(root, dict) else None
    return bool(ranks) and type(ranks) is dict and all(type(rank) is int for rank in ranks)


def of_rank(root: dict[Any, Any], rank: int) -> OfRank:
    """The state of a rank, out of a root for which has_ranks() holds."""
    ranks = root[RANKS]
    shared = {key: value for key, value in root.items() if key != RANKS}
    # Ranks count from 0 without gaps, so those below one that is there saved, too.
    found = OfRank(_laid_over(shared, ranks.get(rank, {})), rank <= max(ranks))
    if found.saved:
        return found
    places: dict[Path, bool] = {}
    for other, theirs in sorted(ranks.items()):
        for path, is_shared in _places(shared, theirs, ()):
            places.setdefault(path, is_shared and other != 0)
    found.own = [path for path, is_shared in places.items() if not is_shared]
    found.unshared = [path for path, is_shared in places.items() if is_shared]
    return found


def resolve(value: Any, path: Path, make: Callable[[str, Any, list[Any]], Any]) -> Any:
    """Makes the values of all tagged nodes, from the innermost."""
    if isinstance(value, Tagged):
        return make(value.tag, resolve(value.value, path, make), list(path))
    if type(value) is dict:
        return {key: resolve(each, (*path, key), make) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(resolve(each, (*path, i), make) for i, each in enumerate(value))
    return value


def _laid_over(shared: Any, mine: Any) -> Any:
    """What a rank has: the shared value, with the rank's own parts in it, or instead of it."""
    if not _is_part(shared, mine):
        return mine
    if isinstance(shared, Tagged):
        return Tagged(shared.tag, _laid_over(shared.value, mine))
    if type(shared) is dict:
        both = {k: _laid_over(v, mine[k]) if k in mine else v for k, v in shared.items()}
        return both | {key: each for key, each in mine.items() if key not in both}
    return type(shared)(
        _laid_over(each, mine[i]) if i in mine else each for i, each in enumerate(shared)
    )


def _is_part(shared: Any, mine: Any) -> bool:
    """Whether a rank's value is parts of a container that all share, by keys or positions."""
    inner = shared.value if isinstance(shared, Tagged) else shared
    if type(mine) is not dict:
        return False
    if type(inner) is dict:
        return True
    return type(inner) in (list, tuple) and all(
        type(key) is int and 0 <= key < len(inner) for key in mine
    )


def _places(shared: Any, theirs: Any, path: Path) -> Iterator[tuple[Path, bool]]:
    """Places in the state of a rank's parts, and whether something shared stands there."""
    tag = shared.tag if isinstance(shared, Tagged) else ""
    inner = shared.value if isinstance(shared, Tagged) else shared
    for key, each in theirs.items():
        is_shared = type(inner) is not dict or key in inner
        value = inner[key] if is_shared else None
        where = (*path, key)
        if tag.startswith("py.pairs") and type(value) is tuple and len(value) == 2:
            # The key of the pair is that of the state.
            where = (*path, resolve(value[0], (), lambda _tag, inside, _path: inside))
            value, each = value[1], each.get(1, each) if type(each) is dict else each
        elif tag and not tag.startswith(_KEYED):
            yield path, True
            return
        if is_shared and _is_part(value, each):
            yield from _places(value, each, where)
        else:
            yield where, is_shared
