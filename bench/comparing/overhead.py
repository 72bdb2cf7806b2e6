"""What the Python side of a save costs, in calls that have next to nothing to copy."""

from __future__ import annotations

import os
import time
from typing import Any

import torch

from .report import Table
from .state import as_parameters, median, settle, synchronize

SMALL = 100_000
FEW = 1000
SHARDED = 600
_LAZY_ELEMENTS = 128 << 10  # 512 KiB: more than what is copied at save all the same.


def compare(options: Any) -> list[Table]:
    """Tables of small tensors, and of tensors that are captured lazily."""
    table = Table("Python overhead", ["first", "again", "us a tensor, first", "us a tensor, again"])
    table.units = ["ms", "ms", "us", "us"]
    small = {f"layers.{i}.w": torch.zeros(16, device=options.device) for i in range(SMALL)}
    _add_saves(table, f"save() of {SMALL:,} tensors of 64 B returns", small, options, lazy=False)
    _add_loads(table, small, options)
    lazy = {f"layers.{i}.w": torch.zeros(_LAZY_ELEMENTS, device=options.device) for i in range(FEW)}
    name = f"save() of {FEW:,} tensors of 512 KiB, lazy, returns"
    _add_saves(table, name, lazy, options, lazy=True)
    name = f"save() of {SHARDED} DTensors of 16 KiB returns"
    _add_saves(table, name, _dtensors(options.device), options, lazy=False)
    return [table]


def _dtensors(device: str) -> dict[str, torch.Tensor]:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu" if device == "cpu" else "cuda", (1,))
    return {
        f"layers.{i}.w": distribute_tensor(torch.zeros(64, 64, device=device), mesh, [Shard(0)])
        for i in range(SHARDED)
    }


def _add_saves(
    table: Table, name: str, state: dict[str, torch.Tensor], options: Any, *, lazy: bool
) -> None:
    import dsckpt

    path = os.path.join(options.dir, "compare.tmp")
    model = as_parameters(state.values())
    times = []
    with dsckpt.AsyncWriter(pool_bytes=options.pool, lazy_cpu=lazy) as writer:
        if lazy:
            writer.watch(model)
        for _ in range(options.runs + 1):
            synchronize(options.device)
            start = time.perf_counter()
            handle = writer.save(state, path)
            times.append(time.perf_counter() - start)
            handle.durable()
    settle(path)
    _add(table, name, len(state), times)


def _add_loads(table: Table, state: dict[str, torch.Tensor], options: Any) -> None:
    from safetensors.torch import load_file

    import dsckpt

    path = os.path.join(options.dir, "compare.tmp")
    dsckpt.save(state, path)
    for name, load in (
        ("dsckpt.load()", dsckpt.load),
        ("safetensors.torch.load_file() of the same file", load_file),
    ):
        times = []
        for _ in range(options.runs + 1):
            start = time.perf_counter()
            load(path)
            times.append(time.perf_counter() - start)
        _add(table, f"{name}, {len(state):,} tensors", len(state), times)
    settle(path)


def _add(table: Table, name: str, count: int, times: list[float]) -> None:
    first, again = times[0], median(times[1:])
    table.add(name, [first, again, first / count, again / count])
