"""Whether all ranks save under one tag, told through the store of the job."""

from __future__ import annotations

import contextlib
from typing import Any

from .store import default_store, next_number


class Tags:
    """The tags of one `save_checkpoint()`. Every rank of the job makes one, in the same order.

    No collective: DeepSpeed itself has all ranks meet before `save_checkpoint()` returns, and
    between its beginning and that meeting each rank says its tag.
    """

    def __init__(self) -> None:
        self._store: Any = default_store()
        self._number = next_number(self._store, "tags")

    def say(self, tag: str) -> None:
        """Tells the others this rank's tag."""
        if self._store is None:
            return
        first = self._store.compare_set(self._key(self._number, "first"), "", tag)
        if bytes(first).decode() != tag:
            self._store.set(self._key(self._number, "differ"), "1")

    def differ(self) -> bool:
        """Whether two ranks said different tags. To be called when all have said theirs."""
        if self._store is None:
            return False
        found = bool(self._store.check([self._key(self._number, "differ")]))
        self._forget(self._number - 1)  # All ranks have looked at those: they have met since.
        return found

    def _forget(self, number: int) -> None:
        for what in ("first", "differ"):
            # A store that cannot delete keeps a few bytes more.
            with contextlib.suppress(NotImplementedError, RuntimeError):
                self._store.delete_key(self._key(number, what))

    @staticmethod
    def _key(number: int, what: str) -> str:
        return f"dsckpt/tag/{number}/{what}"
