"""How many checkpoints each rank is done with, told through the store of the job."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

logger = logging.getLogger("dsckpt.deepspeed")

_PAUSE_SECONDS = 0.005


class RankCounter:
    """One counter a rank. Thread-safe.

    Args:
        store: The job's, or None for a job of one rank.
        session: What tells these counters from others.
        rank: This rank.
    """

    def __init__(self, store: Any, session: str, rank: int) -> None:
        self._store = store
        self._session = session
        self._rank = rank
        self._lock = threading.Lock()
        self._said = 0

    def say(self, number: int) -> None:
        """Tells the others that this rank is done with its first `number` checkpoints."""
        if self._store is None:
            return
        with self._lock:
            self._said = max(self._said, number)
            try:
                self._store.set(self._key(self._rank), str(self._said))
            except RuntimeError as error:  # Another process serves the store, and has gone.
                logger.debug("the store went first: %s", error)

    def wait(self, ranks: Sequence[int], number: int, seconds: float) -> None:
        """Waits until other ranks have said `number` or more; not for ever, they may have died."""
        deadline = time.monotonic() + seconds
        keys = [self._key(rank) for rank in ranks if rank != self._rank]
        if self._store is None or not keys:
            return
        try:
            while not self._all(keys, number) and time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
        except RuntimeError as error:
            logger.debug("the store went first: %s", error)

    def _all(self, keys: list[str], number: int) -> bool:
        return bool(self._store.check(keys)) and all(
            int(self._store.get(key)) >= number for key in keys
        )

    def _key(self, rank: int) -> str:
        return f"dsckpt/done/{self._session}/{rank}"
