"""How the ranks of a job talk while they commit a checkpoint."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from . import _native
from .own import joined, own_rank, ranks_here

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_SLICE_SECONDS = 1.0
_NAMED_RANKS = 20


class StoreCoordinator(_native.Coordinator):
    """Ranks that talk through a torch.distributed Store: no collectives, no shared directory.

    Every rank makes one, in the same order as the other ranks do. Each has a session of its own,
    so what an earlier one left in the store does no harm. Thread-safe: commits run on a thread of
    their own, which is why a connection of its own is used where the store can be cloned.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        *,
        timeout_seconds: float = 600.0,
    ) -> None:
        """Blocks until rank 0 has arrived.

        Args:
            store: Shared by all ranks, for as long as checkpoints are written.
            rank: Of this process, 0 to size - 1.
            size: How many ranks there are.
            timeout_seconds: For rank 0 to arrive.

        Raises:
            TimeoutError: It did not.
        """
        super().__init__()
        self._store: Any = store.clone() if hasattr(store, "clone") else store
        self._rank, self._size = rank, size
        self._outcomes: list[str] = []
        # Counted in the store and by each rank: the same number everywhere, without a collective.
        number = self._store.add(f"dsckpt/made/{rank}", 1)
        key = f"dsckpt/session/{number}"
        if rank == 0:
            self._store.set(key, secrets.token_hex(8))
        self._await({0: key}, "the session", timeout_seconds)
        self._session: str = self._store.get(key).decode()

    def rank(self) -> int:
        """Of this process."""
        return self._rank

    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    def session(self) -> str:
        """The same on all ranks, and nowhere else."""
        return self._session

    def gather(self, key: str, mine: bytes, timeout_seconds: float) -> list[bytes]:
        """Rank 0: every rank's bytes, by rank; the others: [] at once.

        Raises:
            TimeoutError: Names the ranks whose bytes did not come.
        """
        keys = {rank: self._key("gather", key, rank) for rank in range(1, self._size)}
        if self._rank != 0:
            self._store.set(keys[self._rank], mine)
            return []
        self._await(keys, key, timeout_seconds)
        found = [mine, *(self._store.get(keys[rank]) for rank in sorted(keys))]
        # Ranks report after they have read the outcome before.
        for done in [*keys.values(), *self._outcomes]:
            self._forget(done)
        self._outcomes.clear()
        return found

    def broadcast(self, key: str, value: bytes, timeout_seconds: float) -> bytes:
        """Rank 0's bytes, on every rank.

        Raises:
            TimeoutError: They did not come.
        """
        name = self._key("broadcast", key, 0)
        if self._rank == 0:
            self._store.set(name, value)
            self._outcomes.append(name)
            return value
        self._await({0: name}, key, timeout_seconds)
        found: bytes = self._store.get(name)
        return found

    def _key(self, kind: str, key: str, rank: int) -> str:
        return f"dsckpt/{self._session}/{kind}/{key}/{rank}"

    def _await(self, keys: Mapping[int, str], what: str, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while keys and not self._store.check(list(keys.values())):
            left = deadline - time.monotonic()
            if left <= 0:
                missing = [rank for rank, key in keys.items() if not self._store.check([key])]
                if not missing:
                    return
                raise TimeoutError(_timed_out(missing, what, timeout_seconds))
            # Less than a millisecond would mean for ever.
            seconds = min(max(left, 0.01), _SLICE_SECONDS)
            # A whole wait could not be told from a lost connection, nor say who is missing.
            try:
                self._store.wait(list(keys.values()), timedelta(seconds=seconds))
            except RuntimeError:
                continue

    def _forget(self, key: str) -> None:
        # A store that cannot delete keeps a few bytes more.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            self._store.delete_key(key)


def _timed_out(missing: list[int], what: str, seconds: float) -> str:
    named = ", ".join(map(str, missing[:_NAMED_RANKS]))
    more = len(missing) - _NAMED_RANKS
    ranks = f"ranks {named}" + (f" and {more} more" if more > 0 else "")
    return f"{ranks} did not send {what!r} in {seconds:.1f} s: see whether they still run"


def default_coordinator() -> _native.Coordinator:
    """The ranks of torch.distributed where it is in use, else this process alone."""
    size = ranks_here()
    if size == 1:
        return _native.single_rank()
    store = joined().distributed_c10d._get_default_store()
    return StoreCoordinator(store, own_rank(), size)
