"""Loads of page-cached files: the first tensor, the whole state, and with every page touched."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch

from .report import Table
from .state import median, settle, synchronize

State = dict[str, torch.Tensor]


def compare(state: State, options: Any) -> list[Table]:
    """Writes the state three times and loads each, in turn."""
    paths = {name: os.path.join(options.dir, f"compare.{name}") for name in ("pt", "st", "dsckpt")}
    try:
        _write(state, paths)
        samples: dict[str, list[tuple[float, float, float]]] = {}
        for turn in range(options.runs + 1):
            for name, (first, whole) in _loaders(paths, options.device).items():
                times = _measure(first, whole, options.device)
                if turn > 0:
                    samples.setdefault(name, []).append(times)
    finally:
        for path in paths.values():
            settle(path)
    table = Table(
        "Loading, page cache warm", ["first tensor", "whole", "whole, every page touched"]
    )
    for name, each_run in samples.items():
        table.add(name, [median(run[i] for run in each_run) for i in range(3)])
    table.reference = "dsckpt.load"
    return [table]


def _write(state: State, paths: dict[str, str]) -> None:
    from safetensors.torch import save_file

    import dsckpt

    torch.save(state, paths["pt"])
    save_file(state, paths["st"])
    dsckpt.save(state, paths["dsckpt"])
    for path in paths.values():  # O_DIRECT leaves nothing in the page cache.
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def _loaders(paths: dict[str, str], device: str) -> dict[str, tuple[Callable[[], Any], Any]]:
    from safetensors import safe_open
    from safetensors.torch import load_file

    import dsckpt

    def torch_load() -> State:
        loaded: State = torch.load(paths["pt"], mmap=True, weights_only=True, map_location=device)
        return loaded

    def safetensors_first() -> torch.Tensor:
        with safe_open(paths["st"], "pt", device=device) as file:
            found: torch.Tensor = file.get_tensor(next(iter(file.keys())))
            return found

    def dsckpt_first() -> torch.Tensor:
        with dsckpt.open(paths["dsckpt"]) as file:
            return file[next(iter(file))].torch().to(device)

    return {
        "torch.load(mmap=True)": (lambda: next(iter(torch_load().values())), torch_load),
        "safetensors.torch.load_file": (
            safetensors_first,
            lambda: load_file(paths["st"], device=device),
        ),
        "dsckpt.load": (
            dsckpt_first,
            lambda: dsckpt.load(paths["dsckpt"], map_location=device),
        ),
    }


def _measure(
    first: Callable[[], torch.Tensor], whole: Callable[[], State], device: str
) -> tuple[float, float, float]:
    start = time.perf_counter()
    first().reshape(-1)[:1].clone()
    synchronize(device)
    at_first = time.perf_counter() - start
    start = time.perf_counter()
    loaded = whole()
    synchronize(device)
    at_whole = time.perf_counter() - start
    for tensor in loaded.values():
        tensor.reshape(-1).view(torch.uint8)[::4096].sum()
    synchronize(device)
    return at_first, at_whole, time.perf_counter() - start
