"""Merged files give each rank its own; states at random, as they are and merged."""

from __future__ import annotations

import collections
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_rank_own import Pair, plain, program, save_ranks

import dsckpt
from dsckpt.checkpoint import Checkpoint


def merge(found: Checkpoint) -> Path:
    """All ranks of a checkpoint in one file."""
    merged = Path(found.path).parent / "merged.dsckpt"
    done = program("merge", found.path, "-o", merged)
    assert done.returncode == 0, done.stderr
    return merged


def test_a_merged_file_gives_each_rank_its_own_unmarked_values(tmp_path: Path) -> None:
    def state_of(rank: int) -> dict[str, Any]:
        return {
            "w": torch.ones(2),
            "lr": 0.1 * (rank + 1),
            "list": [1, rank, torch.zeros(1)],
            "pair": Pair(rank, "same"),
            "pairs": {(1, 2): rank, (3, 4): "same"},
            "set": {7 + rank},
            "range": range(rank),
            "either": torch.ones(1) if rank == 0 else 5,
            "ordered": collections.OrderedDict(a=rank, b=2),
            "rng": dsckpt.rank_own({"t": torch.tensor([rank])}),
        }

    merged = merge(save_ranks(tmp_path / "run", 2, state_of))
    for strict in (True, False):
        for rank in (0, 1):
            target = state_of(rank)
            target.update(lr=9.0, range=range(9), set=set(), list=[9, 9, torch.ones(1)])
            target.update(pair=Pair(9, 9), pairs={(1, 2): 9, (3, 4): 9})
            target["rng"].value["t"].fill_(9)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                Checkpoint(merged, rank=rank).load_into(target, strict=strict)
            assert target.pop("rng").value["t"].tolist() == [rank]
            expected = state_of(rank)
            del expected["rng"]
            assert repr(target) == repr(expected)

    whole = state_of(0)
    del whole["rng"]
    target = {"lr": 9.0, "pairs": {(1, 2): 9, (3, 4): 9}, "set": set()}
    with pytest.raises(dsckpt.DsckptError, match=r"state\['lr'\].*differs from rank") as caught:
        Checkpoint(merged, rank=2).load_into(whole)
    assert caught.value.code == "NotFound"
    with pytest.warns(RuntimeWarning, match=r"rank 0's for .*\['lr'\].*\[\(1, 2\)\].*\['set'\]"):
        Checkpoint(merged, rank=2).load_into(target, strict=False)
    assert (target["lr"], target["pairs"], target["set"]) == (0.1, {(1, 2): 0, (3, 4): "same"}, {7})


def test_what_was_taken_out_of_a_merged_list_is_put_in(tmp_path: Path) -> None:
    def merged_of(rank_1: Any) -> dict[Any, Any]:
        return {
            "list": [1, None, 3],
            "pair": Pair(None, torch.ones(1)),
            "ranks": {0: {"list": {1: 10}, "pair": {"mean": 5}}, 1: rank_1},
        }

    path = tmp_path / "merged"
    dsckpt.save(merged_of({"list": {1: torch.ones(2)}, "pair": {"mean": {"k": 6}}}), path)
    mean: dict[str, int] = {"k": 0}
    one = torch.zeros(2)
    target = {"list": [0, dsckpt.rank_own(one), 0], "pair": Pair(mean, torch.zeros(1))}
    Checkpoint(path, rank=1).load_into(target)
    assert (target["list"][0], one.tolist(), target["list"][2]) == (1, [1, 1], 3)
    assert (mean, target["pair"].own.tolist()) == ({"k": 6}, [1])  # type: ignore[attr-defined]
    target = {"list": [0, 0, 0], "pair": Pair(0, torch.zeros(1))}
    dsckpt.load_into(target, path)  # As the only rank, 0.
    assert target["list"] == [1, 10, 3]
    assert target["pair"].mean == 5  # type: ignore[attr-defined]

    target = {"list": [0, 50, 0], "pair": Pair(50, torch.zeros(1))}
    with pytest.raises(dsckpt.DsckptError, match=r"rank 2's own for state\['list'\]\[1\], state\["):
        Checkpoint(path, rank=2).load_into(target)
    with pytest.warns(RuntimeWarning, match="left as it is"):
        Checkpoint(path, rank=2).load_into(target, strict=False)
    assert target["list"] == [1, 50, 3]
    assert target["pair"].mean == 50  # type: ignore[attr-defined]

    literal = merged_of(None)
    dsckpt.save(literal, path)
    target = merged_of(7)
    dsckpt.load_into(target, path)  # With "ranks" in the state that is a value as others are.
    assert target["ranks"] == {0: {"list": {1: 10}, "pair": {"mean": 5}}, 1: None}


def test_a_merged_root_that_is_no_dict(tmp_path: Path) -> None:
    found = save_ranks(tmp_path / "run", 2, lambda rank: [dsckpt.rank_own(rank), 1])
    merged = merge(found)
    for rank in (0, 1, np.int64(1)):
        assert Checkpoint(merged, rank=rank).load_into([9, 9]) == [rank, 1]
    for where in (found, Checkpoint(merged)):
        with pytest.warns(RuntimeWarning, match=r"rank 4's own for state\[0\]"):
            assert where.load_into([9, 9], 4, strict=False) == [9, 1]


class Maker:
    """Random states of some ranks that agree on what is shared: a value's place decides."""

    def __init__(self, seed: int, rank: int) -> None:
        self.shape = random.Random(seed)
        self.rank = rank

    def value(self, depth: int, own: bool) -> Any:
        mark = not own and self.shape.random() < 0.25
        made = self.inner(depth, own or mark)
        return dsckpt.rank_own(made) if mark else made

    def inner(self, depth: int, own: bool) -> Any:
        kind = self.shape.choice("tdlnso" if depth > 0 else "tnso")
        number = self.shape.randrange(100) + (1000 * self.rank if own else 0)
        size = self.shape.randrange(3)
        if kind == "t":
            return torch.full((size + 1,), number)
        if kind == "d":
            keys = self.shape.sample(["a", "b/c", "0", 0, "~", "ranks", ""], size + 1)
            return {key: self.value(depth - 1, own) for key in keys}
        if kind == "l":
            return [self.value(depth - 1, own) for _ in range(size + 1)]
        return {"n": number, "s": f"text {number}", "o": bytes([number % 251])}[kind]


@pytest.mark.parametrize("seed", range(12))
def test_random_states(seed: int, tmp_path: Path) -> None:
    size = 1 + seed % 3

    def state_of(rank: int) -> dict[str, Any]:
        maker = Maker(seed, rank)
        return {f"k{i}": maker.value(3, False) for i in range(4)}

    found = save_ranks(tmp_path / "run", size, state_of)
    checked = program("verify", found.path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for rank in range(size):
        assert plain(found.load(rank)) == plain(state_of(rank))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            target = state_of(rank + 5)
            found.load_into(target, rank)
        assert plain(target) == plain(state_of(rank))
    # What is marked, and nothing else, is of no further rank.
    target = state_of(size + 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.load_into(target, size + 1, strict=False)
    assert plain(target) == plain(state_of(size + 5))
    merged = tmp_path / "merged"
    done = program("merge", found.path, "-o", merged)
    assert done.returncode == 0, done.stderr
    assert program("verify", merged).returncode == 0
    kept = dsckpt.open(merged)
    assert list(kept) == sorted(found.tensors)
    for name in found.tensors:
        assert torch.equal(kept[name].torch(), found.read(name))
