"""Numbers about checkpoints: the loop that people write with safetensors and NumPy, and dsckpt.

The loop reads a step after the other, takes everything as 64-bit floating point, keeps the tensors
and updates of the step before, and computes what `dsckpt trace` does of it.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from . import commands
from .report import Table
from .state import median

Array = np.ndarray[Any, np.dtype[np.float64]]
Sample = tuple[float, float]
"""Seconds, and seconds of processor time."""

BAR = 50
"""How many times faster than the loop `dsckpt trace` is to be, by processor time."""
_STEPS = 4
_TENSOR_BYTES = 32 << 20


def compare(options: Any) -> list[Table]:
    """Writes a run, and measures it in turn with the loop and with commands."""
    directory = os.path.join(options.dir, "compare.analysis")
    try:
        plain, own = _write(directory, options.bytes // _STEPS)
        samples = _rounds(plain, own, options.runs)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    tables = []
    for title, names in (
        ("Moments of one checkpoint", ("numpy moments", "dsckpt stats")),
        ("Difference of two checkpoints", ("numpy difference", "dsckpt diff")),
        (f"A run of {_STEPS} checkpoints", ("numpy loop", "dsckpt trace", "dsckpt trace, own")),
    ):
        table = Table(title, ["wall", "processor"])
        for name in names:
            if samples.get(name):
                table.add(name, [median(each[i] for each in samples[name]) for i in range(2)])
        table.reference = names[1] if names[1] in table.rows else ""
        tables.append(table)
    _judge(tables[-1])
    return tables


def _judge(table: Table) -> None:
    if table.reference:
        loop, ours = (table.rows[name][1] for name in ("numpy loop", table.reference))
        verdict = "reached" if loop / ours >= BAR else "missed"
        print(f"The loop takes {loop / ours:.0f} times as much processor time: {BAR} is {verdict}.")


def _write(directory: str, checkpoint_bytes: int) -> tuple[list[str], list[str]]:
    """Files of safetensors and of dsckpt, the same steps of the same state; half is BF16."""
    import dsckpt

    generator = torch.Generator().manual_seed(1)
    count = max(2, checkpoint_bytes // _TENSOR_BYTES // 2 * 2)
    state: dict[str, torch.Tensor] = {}
    for i in range(count):
        dtype, size = ((torch.bfloat16, 2), (torch.float32, 4))[i % 2]
        elements = checkpoint_bytes // count // size
        state[f"layers.{i:04}.weight"] = 0.02 * torch.randn(elements, generator=generator)
        state[f"layers.{i:04}.weight"] = state[f"layers.{i:04}.weight"].to(dtype)
    paths: tuple[list[str], list[str]] = ([], [])
    for kind in ("plain", "own"):
        os.makedirs(os.path.join(directory, kind))
    for step in range(_STEPS):
        paths[0].append(os.path.join(directory, "plain", f"step{step}.safetensors"))
        paths[1].append(os.path.join(directory, "own", f"step{step}.dsckpt"))
        dsckpt.save_safetensors(state, paths[0][-1])
        dsckpt.save(state, paths[1][-1], attributes={"step": step})
        for tensor in state.values():
            noise = torch.randn(tensor.shape, generator=generator)
            tensor.add_((1e-4 * noise).to(tensor.dtype))
    for path in (*paths[0], *paths[1]):  # O_DIRECT leaves nothing in the page cache.
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass
    return paths


def _rounds(plain: list[str], own: list[str], runs: int) -> dict[str, list[Sample]]:
    ways: dict[str, Callable[[], Sample]] = {
        "numpy moments": lambda: _timed(lambda: _loop(plain[:1])),
        "dsckpt stats": lambda: _command("stats", plain[0]),
        "numpy difference": lambda: _timed(lambda: _difference(*plain[:2])),
        "dsckpt diff": lambda: _command("diff", *plain[:2]),
        "numpy loop": lambda: _timed(lambda: _loop(plain)),
        "dsckpt trace": lambda: _command("trace", os.path.dirname(plain[0])),
        "dsckpt trace, own": lambda: _command("trace", os.path.dirname(own[0])),
    }
    samples: dict[str, list[Sample]] = {name: [] for name in ways}
    for turn in range(runs + 1):
        for name, way in list(ways.items()):
            try:
                sample = way()
            except commands.Failed as error:
                print(f"compare.py: {name}: {error}", file=sys.stderr)
                del ways[name]
                continue
            print(f"run {turn}, {name}: {sample[0]:.4f}, {sample[1]:.4f}", file=sys.stderr)
            if turn > 0:
                samples[name].append(sample)
    return samples


def _timed(work: Callable[[], Any]) -> Sample:
    start, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - processor


def _command(*arguments: str) -> Sample:
    took = commands.run(*arguments)
    return took.seconds, took.processor


def _loop(paths: list[str]) -> list[list[float]]:
    from safetensors import safe_open

    before: dict[str, Array] = {}
    moved: dict[str, Array] = {}
    rows = []
    for path in paths:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                weight: Array = file.get_tensor(name).to(torch.float64).numpy()
                row = [weight.mean(), weight.std(), np.linalg.norm(weight)]
                if name in before:
                    update = weight - before[name]
                    length = np.linalg.norm(update)
                    row.append(length)
                    if name in moved:
                        product = np.sum(update * moved[name])
                        row.append(product / (length * np.linalg.norm(moved[name])))
                    moved[name] = update
                before[name] = weight
                rows.append([float(number) for number in row])
    return rows


def _difference(a: str, b: str) -> list[list[float]]:
    from safetensors import safe_open

    rows = []
    with safe_open(a, "pt") as first, safe_open(b, "pt") as second:
        for name in first.keys():  # noqa: SIM118
            x: Array = first.get_tensor(name).to(torch.float64).numpy()
            y: Array = second.get_tensor(name).to(torch.float64).numpy()
            difference = y - x
            lengths = [np.linalg.norm(each) for each in (difference, x, y)]
            greatest = np.abs(difference)
            largest = np.maximum(np.abs(x), np.abs(y))
            relative = np.divide(greatest, largest, out=np.zeros_like(x), where=largest > 0)
            numbers = [greatest.max(), relative.max(), np.mean(x != y), np.sum(x * y), *lengths]
            rows.append([float(number) for number in numbers])
    return rows
