"""A resumed run draws what it would have drawn."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import dsckpt
from dsckpt import reader
from dsckpt.random import StatefulLoader, rng_state, set_rng_state


def draw() -> tuple[float, ...]:
    return (
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.randn()),
        float(torch.rand(())),
        float(torch.randn(())),
    )


def test_generators_go_on_where_they_were(tmp_path: Path) -> None:
    draw()
    dsckpt.save({"rng": rng_state()}, tmp_path / "s")
    want = [draw(), draw()]
    draw()
    set_rng_state(reader.load(tmp_path / "s")["rng"])
    assert [draw(), draw()] == want


def test_a_state_is_a_copy() -> None:
    state = rng_state()
    want = draw()
    draw()
    set_rng_state(state)
    assert draw() == want


def test_states_of_more_devices_are_refused() -> None:
    state = {**rng_state(), "cuda": [torch.zeros(16, dtype=torch.uint8)] * 99}
    with pytest.raises(ValueError, match="99 CUDA devices"):
        set_rng_state(state)


class Noisy(Dataset[float]):
    """Draws from the global generator, as augmentations do."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> float:
        return index + float(torch.rand(())) / 2


def loader(kind: str) -> Any:
    if kind == "own generator":
        generator = torch.Generator()
        generator.manual_seed(5)
        return DataLoader(Noisy(), batch_size=3, shuffle=True, generator=generator)
    if kind == "workers":
        return DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=1)
    if kind == "in order":
        return DataLoader(Noisy(), batch_size=3)
    return DataLoader(Noisy(), batch_size=3, shuffle=True)


@pytest.mark.parametrize("kind", ["shuffled", "own generator", "in order", "workers"])
@pytest.mark.parametrize("stop", [1, 3, 4, 6])
def test_a_loader_goes_on_in_the_middle_of_an_epoch(kind: str, stop: int, tmp_path: Path) -> None:
    def train(batches: StatefulLoader, until: int) -> list[list[float]]:
        seen: list[list[float]] = []
        while batches.epoch < 2:
            for batch in batches:
                seen.append([*batch.tolist(), float(torch.rand(()))])
                if len(seen) == until:
                    dsckpt.save(
                        {"loader": batches.state_dict(), "rng": rng_state()}, tmp_path / "s"
                    )
        return seen

    torch.manual_seed(1)
    whole = train(StatefulLoader(loader(kind)), until=stop)
    assert len(whole) == 8

    torch.manual_seed(99)
    resumed = StatefulLoader(loader(kind))
    state = reader.load(tmp_path / "s")
    set_rng_state(state["rng"])
    resumed.load_state_dict(state["loader"])
    assert train(resumed, until=0) == whole[stop:]


def test_an_epoch_left_early_begins_anew() -> None:
    batches = StatefulLoader(loader("in order"))
    next(iter(batches))
    assert batches.state_dict()["batches"] == 1
    assert len(list(batches)) == len(batches) == 4
    assert batches.state_dict() == {"epoch": 1, "batches": 0, "generator": None}
