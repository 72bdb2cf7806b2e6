"""The state that all candidates save, and the files they leave."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Iterable

import torch

# Sizes relative to each other, and dtypes with their bytes, as bench/tensors.cc has them.
_WEIGHTS = (4096, 1, 1024, 1, 1024, 4, 256, 16, 64, 1)
_DTYPES = ((torch.bfloat16, 2), (torch.float32, 4), (torch.int64, 8))


def mixed_tensors(total: int, count: int, device: str) -> dict[str, torch.Tensor]:
    """`count` tensors of random bits, of about `total` bytes in all.

    Each has memory of its own: torch.save would store all of a buffer for each view of it.
    """
    weights = [_WEIGHTS[i % len(_WEIGHTS)] for i in range(count)]
    state = {}
    for i, weight in enumerate(weights):
        dtype, size = _DTYPES[i % len(_DTYPES)]
        elements = int(weight / sum(weights) * total) // size
        raw = torch.randint(0, 256, (elements * size,), dtype=torch.uint8, device=device)
        state[f"layers.{i:07}.weight"] = raw.view(dtype)
    return state


def payload_bytes(state: dict[str, torch.Tensor]) -> int:
    """Bytes of all elements."""
    return sum(tensor.nbytes for tensor in state.values())


def as_parameters(state: Iterable[torch.Tensor]) -> torch.nn.Module:
    """A module whose parameters are these tensors: what an optimizer would update."""
    return torch.nn.ParameterList(torch.nn.Parameter(t, requires_grad=False) for t in state)


def synchronize(device: str) -> None:
    """Waits for the device's work."""
    if device == "cuda":
        torch.cuda.synchronize()


def settle(path: str) -> None:
    """Removes what a save left; freeing its blocks must not count in what is measured next."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)
    os.sync()


def sync_file(path: str) -> None:
    """What a durable save has to do: sync the data, then the directory's entry."""
    for each in (path, os.path.dirname(path) or "."):
        descriptor = os.open(each, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def median(samples: Iterable[float]) -> float:
    """The median."""
    return statistics.median(samples)
