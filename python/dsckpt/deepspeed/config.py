"""What `"datastates_ckpt"` in a DeepSpeed configuration says."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

logger = logging.getLogger("dsckpt.deepspeed")

KEY = "datastates_ckpt"
GIB = 1 << 30
SMALLEST_POOL = 64 << 20
_KNOWN = ("host_cache_size", "allow_pickle", "allow", "file_calls_wait")
_LOCAL_SIZES = (
    "LOCAL_WORLD_SIZE",
    "LOCAL_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "SLURM_NTASKS_PER_NODE",
)


@dataclass(frozen=True)
class Settings:
    """The settings of one engine.

    Attributes:
        pool_bytes: Host memory of this rank that saves pass through; None: chosen at the first
            save.
        allow_pickle: Whether loads may unpickle anything, running code the file's author chose.
        allow: "module.QualName" of further classes that loads may unpickle.
        file_calls_wait: Whether Python's file calls wait for checkpoints that they look at.
    """

    pool_bytes: int | None = None
    allow_pickle: bool = False
    allow: tuple[str, ...] = ()
    file_calls_wait: bool = True


def parse(raw: object) -> Settings:
    """Reads the value under `"datastates_ckpt"`.

    Args:
        raw: The dict; True and None count as an empty one, as they do for DeepSpeed.

    Raises:
        ValueError: A value that cannot be meant, or more memory than the machine has.
    """
    if raw is None or raw is True:
        raw = {}
    if not isinstance(raw, Mapping):
        raise ValueError(f'"{KEY}" must be a dict such as {{"host_cache_size": 16}}, not {raw!r}')
    for key in raw:
        if key not in _KNOWN:
            logger.warning('"%s": key %r is not known and has no effect', KEY, key)
    return Settings(
        _pool_bytes(raw.get("host_cache_size")),
        _flag("allow_pickle", raw.get("allow_pickle", False)),
        _names(raw.get("allow", ())),
        _flag("file_calls_wait", raw.get("file_calls_wait", True)),
    )


def default_pool_bytes(state_bytes: int) -> int:
    """The pool where no size is given: the state, or this rank's part of a quarter of memory."""
    return min(max(state_bytes, SMALLEST_POOL), memory_bytes() // 4 // local_ranks())


def memory_bytes() -> int:
    """Memory that this machine, or the container this runs in, has, in bytes."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
    return min([physical, *_numbers_in(limits)])


def local_ranks() -> int:
    """How many ranks of the job share this machine, as its launcher says; else 1."""
    for name in _LOCAL_SIZES:
        text = os.environ.get(name, "")
        if text.isdigit() and int(text) > 0:
            return int(text)
    return 1


def _numbers_in(paths: Iterable[str]) -> list[int]:
    numbers = []
    for path in paths:
        try:
            numbers.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # No such limit, or "max".
            continue
    return numbers


def _pool_bytes(value: object) -> int | None:
    if value is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:  # type: ignore[operator, arg-type]
        raise ValueError(
            f'"{KEY}": host_cache_size must be a number of GiB for each rank, not {value!r}'
        )
    size = int(value * GIB)  # type: ignore[operator]
    ranks, memory = local_ranks(), memory_bytes()
    if size * ranks > memory:
        raise ValueError(
            f'"{KEY}": host_cache_size is {value} GiB for each of {ranks} local rank(s), but this '
            f"machine has {memory / GIB:.1f} GiB of memory: give at most {memory / GIB / ranks:.1f}"
        )
    return size


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f'"{KEY}": {key} must be true or false, not {value!r}')
    return value


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise ValueError(f'"{KEY}": allow must be a list of "module.Class" names, not {value!r}')
    return tuple(value)
