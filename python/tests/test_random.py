"""A resumed run draws what it would have drawn."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, WeightedRandomSampler

import dsckpt
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
    set_rng_state(dsckpt.load(tmp_path / "s")["rng"])
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
    state = dsckpt.load(tmp_path / "s")
    set_rng_state(state["rng"])
    resumed.load_state_dict(state["loader"])
    assert train(resumed, until=0) == whole[stop:]


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> int:
        return index


class Shuffled:
    """No loader of torch: draws from a generator of its own, or from the global ones."""

    def __init__(self, rng: Any = None) -> None:
        self.rng = rng

    def __iter__(self) -> Any:
        order = list(range(7))
        if self.rng is not None:
            self.rng.shuffle(order)
        else:
            random.shuffle(order)
            np.random.shuffle(order)
        yield from map(torch.tensor, order)


class Augmented(Numbers):
    """Draws with a generator of its own."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(8)

    def __getitem__(self, index: int) -> float:
        return float(super().__getitem__(index) + self.rng.random())


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def persistent(**options: Any) -> Any:
    return DataLoader(Numbers(), 2, num_workers=1, persistent_workers=True, **options)


ORDERS: dict[str, Any] = {
    "own generator": lambda: DataLoader(Numbers(), 2, shuffle=True, generator=generator()),
    "global generator": lambda: DataLoader(Numbers(), 2, shuffle=True),
    "in order": lambda: DataLoader(Numbers(), 2),
    "sampler's generator": lambda: DataLoader(
        Numbers(), 2, sampler=RandomSampler(Numbers(), generator=generator())
    ),
    "generators of both": lambda: DataLoader(
        Numbers(),
        2,
        sampler=RandomSampler(Numbers(), generator=generator()),
        generator=generator(6),
    ),
    "own generator, global sampler": lambda: DataLoader(
        Numbers(), 2, sampler=RandomSampler(Numbers()), generator=generator()
    ),
    "with replacement": lambda: DataLoader(
        Numbers(),
        2,
        sampler=RandomSampler(Numbers(), True, num_samples=40, generator=generator()),
    ),
    "weighted": lambda: DataLoader(
        Numbers(), 2, sampler=WeightedRandomSampler([1.0] * 7, 7, generator=generator())
    ),
    "batch sampler": lambda: DataLoader(
        Numbers(),
        batch_sampler=BatchSampler(RandomSampler(Numbers(), generator=generator()), 3, True),
    ),
    "dataset's generator": lambda: DataLoader(Augmented(), 2),
    "Python's generator": lambda: Shuffled(random.Random(3)),
    "NumPy's generator": lambda: Shuffled(np.random.default_rng(3)),
    "NumPy's old generator": lambda: Shuffled(np.random.RandomState(3)),
    "global ones of Python and NumPy": Shuffled,
}
WORKERS: dict[str, Any] = {
    "persistent workers": lambda: persistent(shuffle=True),
    "persistent workers, own generator": lambda: persistent(shuffle=True, generator=generator()),
    "persistent workers, sampler's generator": lambda: persistent(
        sampler=RandomSampler(Numbers(), generator=generator())
    ),
}


def draws(batches: StatefulLoader, note: Any, epochs: int = 3) -> list[Any]:
    """What a run sees; `note` is called before, between and in its epochs."""
    seen: list[Any] = []
    note(seen)
    while batches.epoch < epochs:
        for batch in batches:
            seen.append((batch.tolist(), random.random(), float(torch.rand(()))))
            note(seen)
        note(seen)
    return seen


def check_every_place(make: Any, path: Path, places: Any = None) -> None:
    batches = StatefulLoader(make())
    saved: list[tuple[int, Path]] = []

    def note(seen: list[Any]) -> None:
        saved.append((len(seen), path / f"{len(saved)}"))
        dsckpt.save({"loader": batches.state_dict(), "rng": rng_state()}, saved[-1][1])

    seed(1)
    whole = draws(batches, note)
    seed(99)
    for count, name in saved if places is None else [saved[place] for place in places]:
        resumed = StatefulLoader(make())
        state = dsckpt.load(name)
        resumed.load_state_dict(state["loader"])
        set_rng_state(state["rng"])
        again = resumed.state_dict()
        assert again["epoch"] == state["loader"]["epoch"]
        assert again["batches"] == state["loader"]["batches"]
        assert draws(resumed, lambda _: None) == whole[count:], name.name


def seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


@pytest.mark.parametrize("kind", ORDERS)
def test_whatever_is_saved_goes_on_as_one_run_does(kind: str, tmp_path: Path) -> None:
    check_every_place(ORDERS[kind], tmp_path)


@pytest.mark.parametrize("kind", WORKERS)
def test_workers_that_persist_take_their_seed_once(kind: str, tmp_path: Path) -> None:
    check_every_place(WORKERS[kind], tmp_path, places=(0, 2, 5, 7, -2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORKERS)
def test_workers_that_persist_at_every_place(kind: str, tmp_path: Path) -> None:
    check_every_place(WORKERS[kind], tmp_path)


def test_a_loader_with_other_generators_is_refused() -> None:
    state = StatefulLoader(ORDERS["own generator"]()).state_dict()
    with pytest.raises(ValueError, match=r"generators \['torch'\], this one has \[\]"):
        StatefulLoader(ORDERS["in order"]()).load_state_dict(state)


def test_a_loader_in_use_goes_back(tmp_path: Path) -> None:
    """Persistent workers are there already, and had their seed in the epoch that begins again."""
    random.seed(1)
    torch.manual_seed(1)
    batches = StatefulLoader(persistent(shuffle=True))
    before, rng = batches.state_dict(), rng_state()
    first = [batch.tolist() for batch in batches]
    batches.load_state_dict(before)
    set_rng_state(rng)
    assert [batch.tolist() for batch in batches] == first


def test_an_epoch_left_early_begins_anew() -> None:
    batches = StatefulLoader(loader("in order"))
    next(iter(batches))
    assert batches.state_dict()["batches"] == 1
    assert len(list(batches)) == len(batches) == 4
    assert batches.state_dict() == {
        "epoch": 1,
        "batches": 0,
        "generator": None,
        "own": [],
        "seeds_workers": True,
    }
