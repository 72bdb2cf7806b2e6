"""What commands read and hold: two equal checkpoints, and a run of a thousand."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import numpy as np

from . import commands

_CHECKPOINTS = 1000
_TENSORS = 16
_ELEMENTS = 4096
_DESCRIPTORS = 256
_MEMORY = 512 << 20


def compare(options: Any) -> None:
    """Prints a line for each, with its bar."""
    directory = os.path.join(options.dir, "compare.many")
    try:
        os.makedirs(directory)
        _equal(directory, options.equal_bytes, options.runs)
        _thousand(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _equal(directory: str, size: int, runs: int) -> None:
    """Of zeros: the copies, in which they are holes, take no room."""
    import dsckpt

    tensors = {f"t{i:02}": np.zeros(size // 64 // 4, np.float32) for i in range(64)}
    written = os.path.join(directory, "written")
    dsckpt.save(tensors, written)
    copies = [os.path.join(directory, name) for name in ("a", "b")]
    for copy in copies:
        subprocess.run(["cp", "--sparse=always", written, copy], check=True)
    os.remove(written)
    took = [commands.run("diff", *copies) for _ in range(runs + 1)][1:]
    seconds = sorted(each.seconds for each in took)[len(took) // 2]
    read = max(each.answer["read_bytes"] for each in took)
    print(
        f"diff of two equal checkpoints of {size / 2**30:.1f} GiB: {seconds:.3f} s (bar 0.1), "
        f"{read} bytes read (bar 0)"
    )


def _thousand(directory: str) -> None:
    import dsckpt

    run = os.path.join(directory, "run")
    os.makedirs(run)
    random = np.random.default_rng(1)
    state = {f"layers.{i}.weight": random.normal(size=_ELEMENTS) for i in range(_TENSORS)}
    with dsckpt.AsyncWriter(64 << 20) as writer:
        for step in range(_CHECKPOINTS):
            # A tensor of each kind: one that moves at every step, one now and then, one never.
            for i, tensor in enumerate(state.values()):
                if i % 3 == 0 or (i % 3 == 1 and step % 10 == 0):
                    tensor += 1e-3 * random.normal(size=_ELEMENTS)
            path = os.path.join(run, f"step{step}.dsckpt")
            writer.save(state, path, attributes={"step": step}).durable()
    there = _CHECKPOINTS * _TENSORS * _ELEMENTS * 8
    for options in ([], ["--quick"]):
        try:
            took = commands.run("trace", run, *options, watch=True)
        except commands.Failed as error:
            print(error)
            continue
        read = took.answer["read_bytes"]
        print(
            f"{' '.join(['trace', *options])} of {_CHECKPOINTS:,}: {took.seconds:.2f} s, "
            f"{read / 1e6:.1f} MB read of {there / 1e6:.1f} MB there (bar: each byte once), "
            f"{took.memory >> 20} MiB at most (bar {_MEMORY >> 20}), "
            f"{took.descriptors} descriptors (bar {_DESCRIPTORS})"
        )
