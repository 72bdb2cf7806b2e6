"""What belongs to a rank: marked, saved, given back to that rank and to no other."""

from __future__ import annotations

import collections
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import dsckpt
from dsckpt.checkpoint import Checkpoint
from dsckpt.coordinators import StoreCoordinator
from dsckpt.own import OwnDict, RankOwn

MIB = 1 << 20


Pair = collections.namedtuple("Pair", "mean own")


StateOf = Callable[[int], Any]


def save_ranks(path: Path, size: int, state_of: StateOf) -> Checkpoint:
    """A checkpoint of `size` ranks, which are threads."""
    store = dist.HashStore()

    def work(rank: int) -> None:
        with (
            dsckpt.AsyncWriter(4 * MIB) as writer,
            dsckpt.Run(path, writer, coordinator=StoreCoordinator(store, rank, size)) as run,
        ):
            run.save(1, state_of(rank)).durable()

    with ThreadPoolExecutor(size) as pool:
        for one in [pool.submit(work, rank) for rank in range(size)]:
            one.result(timeout=60)
    found = dsckpt.Run(path).latest()
    assert found is not None
    return found


def program(*args: object) -> subprocess.CompletedProcess[str]:
    code = "import sys; from dsckpt._cli import main; sys.argv[0] = 'dsckpt'; main()"
    run = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)


def job_state(rank: int) -> dict[str, Any]:
    """Weights that ranks share; a random state and a loader of their own."""
    generator = torch.Generator().manual_seed(100 + rank)
    data = torch.utils.data.TensorDataset(torch.arange(8))
    loader = dsckpt.random.StatefulLoader(DataLoader(data, shuffle=True, generator=generator))
    next(iter(loader))
    rng = dsckpt.random.rng_state()
    rng["torch"] = generator.get_state()  # Threads share the global one.
    rng["python"] = random.Random(rank).getstate()
    return {"model": {"w": torch.arange(4.0)}, "rng": rng, "loader": loader.state_dict()}


def check_own(state: dict[str, Any], rank: int) -> None:
    expected = job_state(rank)
    assert type(state["rng"]) is type(state["loader"]) is dict
    assert torch.equal(state["rng"]["torch"], expected["rng"]["torch"])
    assert state["rng"]["python"] == expected["rng"]["python"]
    assert state["loader"]["batches"] == 1
    assert torch.equal(
        state["loader"]["generator"]["own"][0][1], expected["loader"]["generator"]["own"][0][1]
    )


def test_marks_disappear(tmp_path: Path) -> None:
    state = {
        "tensor": dsckpt.rank_own(torch.arange(3)),
        "list": [1, dsckpt.rank_own({"a": np.ones(2), "b": dsckpt.rank_own("text")}), (2, 3)],
        "pair": Pair(torch.ones(2), dsckpt.rank_own(5)),
        "object": dsckpt.rank_own(Path("x")),
        "ordered": dsckpt.rank_own(collections.OrderedDict(k=1)),
        "self-marked": OwnDict({"k": [torch.zeros(1)], 3: None}),
    }
    path = tmp_path / "state"
    dsckpt.save(state, path)
    found = dsckpt.load(path, allow_pickle=True)
    assert torch.equal(found["tensor"], torch.arange(3))
    assert found["list"][1]["a"].tolist() == [1, 1]
    assert (found["list"][1]["b"], found["list"][2]) == ("text", (2, 3))
    assert type(found["pair"]) is Pair
    assert found["pair"].own == 5
    assert found["object"] == Path("x")
    assert type(found["ordered"]) is collections.OrderedDict
    assert type(found["self-marked"]) is dict
    assert list(found["self-marked"]) == ["k", 3]
    native = dsckpt._native.File(str(path))
    names = ["list/1", "object", "ordered", "pair/own", "self-marked", "tensor"]
    assert native.rank_own() == names
    info = native.find_tensor("list/1/a")
    ordinal = [one[0] for one in native.tensors()].index(info[0])
    assert native.pieces(ordinal)[0].logical_name == "ranks/0/list/1/a"
    assert program("verify", path).returncode == 0


def test_a_marked_root(tmp_path: Path) -> None:
    for number, state in enumerate(
        (
            dsckpt.rank_own({"a": torch.ones(1), 2: "b"}),
            dsckpt.rank_own([torch.ones(1)]),
            OwnDict(a=torch.ones(1)),
            dsckpt.rank_own(torch.ones(1)),
        )
    ):
        path = tmp_path / str(number)
        dsckpt.save(state, path)
        inner = state.value if isinstance(state, RankOwn) else dict(state)
        found = dsckpt.load(path)
        assert type(found) is type(inner)
        assert repr(found) == repr(inner)
        assert len(dsckpt._native.File(str(path)).rank_own()) >= 1


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


class DictOfOurs(dict[str, Any]):
    pass


@pytest.mark.parametrize("marked", [dsckpt.rank_own(torch.ones(1)), OwnDict(a=1)])
def test_marks_in_pickled_objects_are_refused(marked: Any, tmp_path: Path) -> None:
    deep = np.array([[marked], None], dtype=object)
    inner = Holder([{"k": Holder(marked)}])
    states: list[Any] = [Holder(marked), DictOfOurs(r=marked), inner, deep]
    for held in states:
        with pytest.raises(dsckpt.DsckptError, match=r"state\['x'\]\[1\] is a .*mark") as caught:
            dsckpt.save({"x": [0, held]}, tmp_path / "state")
        assert caught.value.code == "InvalidArgument"
        assert "mark the object with rank_own()" in str(caught.value)
        with pytest.raises(dsckpt.DsckptError, match=r"state\['x'\] is a .*mark"):
            dsckpt.Run(tmp_path / "run").save(1, {"x": held}).durable()
    assert not (tmp_path / "state").exists()
    dsckpt.save({"x": dsckpt.rank_own(Holder({"a": 1}))}, tmp_path / "state")
    assert dsckpt.load(tmp_path / "state", allow_pickle=True)["x"].value == {"a": 1}


def test_a_mark_is_one_mark() -> None:
    marked = dsckpt.rank_own(1)
    assert dsckpt.rank_own(marked) is marked
    assert repr(marked) == "rank_own(1)"


def test_plain_safetensors_take_no_notice(tmp_path: Path) -> None:
    dsckpt.save_safetensors({"a": dsckpt.rank_own(torch.ones(2))}, tmp_path / "plain")
    assert dsckpt.load(tmp_path / "plain")["a"].tolist() == [1, 1]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_states_of_their_own(size: int, tmp_path: Path) -> None:
    found = save_ranks(tmp_path / "run", size, job_state)
    assert found.tensors["model/w"].pieces == size
    own = sorted(
        name for name in found.tensors if name.startswith("ranks/") and "/rng/cuda/" not in name
    )
    kept = (
        "loader/generator/global/numpy/state/key",
        "loader/generator/global/torch",
        "loader/generator/own/0/1",
        "rng/numpy/state/key",
        "rng/torch",
    )
    assert own == [f"ranks/{rank}/{name}" for rank in range(size) for name in kept]
    checked = program("verify", found.path)
    assert checked.returncode == 0, checked.stdout + checked.stderr

    for rank in range(size):
        check_own(found.load(rank), rank)
        mine = job_state(rank + 10)
        mine["model"]["w"].zero_()
        assert found.load_into(mine, rank) is mine
        assert torch.equal(mine["model"]["w"], torch.arange(4.0))
        expected = job_state(rank)
        assert torch.equal(mine["rng"]["torch"], expected["rng"]["torch"])
        assert mine["rng"]["python"] == expected["rng"]["python"]
        assert torch.equal(
            mine["loader"]["generator"]["own"][0][1], expected["loader"]["generator"]["own"][0][1]
        )

    for form in ("dsckpt", "safetensors"):
        merged = tmp_path / f"merged.{form}"
        done = program("merge", found.path, "-o", merged, "--format", form)
        assert done.returncode == 0, done.stderr
        tensors = dsckpt.open(merged)
        assert [name for name in tensors if name.startswith("ranks/")] == own
        for rank in range(size):
            kept_state = tensors[f"ranks/{rank}/rng/torch"].torch()
            assert torch.equal(kept_state, job_state(rank)["rng"]["torch"])
    state = dsckpt.load(tmp_path / "merged.dsckpt")
    assert sorted(state) == ["model", "ranks"]
    for rank in range(size):
        check_own(state["ranks"][rank], rank)
        mine = job_state(20)
        Checkpoint(tmp_path / "merged.dsckpt").load_into(mine, rank)
        assert torch.equal(mine["rng"]["torch"], job_state(rank)["rng"]["torch"])
        assert mine["rng"]["python"] == job_state(rank)["rng"]["python"]
    mine = job_state(20)
    assert dsckpt.load_into(mine, tmp_path / "merged.dsckpt") is mine  # As the only rank, 0.
    assert torch.equal(mine["rng"]["torch"], job_state(0)["rng"]["torch"])

    converted = program("convert", found.path, "-o", tmp_path / "out.safetensors")
    assert converted.returncode == 0, converted.stderr


def test_a_rank_that_saved_nothing_is_told(tmp_path: Path) -> None:
    found = save_ranks(tmp_path / "run", 2, job_state)
    mine = job_state(7)
    mine["model"]["w"].zero_()
    with pytest.raises(dsckpt.DsckptError, match=r"rank 2's own for state\['rng'\], ") as caught:
        found.load_into(mine, 2)
    assert caught.value.code == "NotFound"
    assert "strict=False" in str(caught.value)
    assert torch.equal(mine["model"]["w"], torch.zeros(4))  # Nothing was loaded.

    with pytest.warns(RuntimeWarning, match=r"rank 2's own .*state\['loader'\]: it was left"):
        found.load_into(mine, 2, strict=False)
    assert torch.equal(mine["model"]["w"], torch.arange(4.0))
    assert torch.equal(mine["rng"]["torch"], job_state(7)["rng"]["torch"])
    assert mine["rng"]["python"] == job_state(7)["rng"]["python"]
    assert torch.equal(
        mine["loader"]["generator"]["own"][0][1], job_state(7)["loader"]["generator"]["own"][0][1]
    )

    with pytest.raises(dsckpt.DsckptError, match=r"no file of rank 2; .*or_shared=True") as caught:
        found.load(2)
    assert caught.value.code == "NotFound"
    shared = found.load(2, or_shared=True)
    assert list(shared) == ["model"]
    assert torch.equal(shared["model"]["w"], torch.arange(4.0))
    check_own(found.load(1, or_shared=True), 1)


def test_unmarked_values_that_differ_are_told(tmp_path: Path) -> None:
    """A data loader of others, say: its state holds no tensor and bears no mark."""

    def state_of(rank: int) -> dict[str, Any]:
        loader = {"position": 100 + rank, "epoch": 3, "nan": float("nan"), "done": rank == 1}
        return {
            "w": torch.ones(2),
            "loader": loader,
            "list": [1, rank],
            "object": Path(str(rank)),
            "only": {rank: rank},
            "same": Path("same"),
        }

    found = save_ranks(tmp_path / "run", 2, state_of)

    def load(rank: int) -> tuple[dict[str, Any], list[str]]:
        target = state_of(9)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found.load_into(target, rank, strict=False, allow_pickle=True)
        return target, [str(one.message) for one in told]

    for rank in (0, 1):
        target, told = load(rank)
        assert told == []
        assert (target["loader"]["position"], target["object"]) == (100 + rank, Path(str(rank)))
    target, told = load(2)
    assert target["loader"]["position"] == 100
    assert len(told) == 1
    places = ("['loader']['position']", "['loader']['done']", "['list'][1]", "['object']")
    listed = ", ".join(f"state{one}" for one in places)
    assert f"gets rank 0's for {listed}, which differs from rank to rank" in told[0]

    alone = save_ranks(tmp_path / "alone", 1, state_of)
    target = state_of(9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone.load_into(target, 2, strict=False, allow_pickle=True)
    assert target["loader"]["position"] == 100


def test_a_run_knows_its_rank(tmp_path: Path) -> None:
    save_ranks(tmp_path / "run", 2, job_state)
    store = dist.HashStore()
    for rank in (0, 1):
        run = dsckpt.Run(tmp_path / "run", coordinator=StoreCoordinator(store, rank, 2))
        for found in (run.latest(), run.by_step(1)):
            assert found is not None
            mine = job_state(9)
            found.load_into(mine)
            assert torch.equal(mine["rng"]["torch"], job_state(rank)["rng"]["torch"])


def test_loading_without_a_rank_is_told(tmp_path: Path) -> None:
    found = save_ranks(tmp_path / "run", 2, job_state)
    with pytest.warns(RuntimeWarning, match="is rank 1, and loads rank 0's own of .*: loader, rng"):
        check_own(Checkpoint(found.path, rank=1).load(), 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_own(found.load(), 0)
        check_own(Checkpoint(found.path, rank=1).load(0), 0)
        check_own(Checkpoint(found.path, rank=1).load(1), 1)


def test_the_checkpoint_says_what_is_anothers(tmp_path: Path) -> None:
    """The state to load into has no marks: it was loaded, or made by hand."""

    def state_of(rank: int) -> dict[str, Any]:
        seen = Pair(torch.full((2,), 3), dsckpt.rank_own(rank))
        return {"list": [0, dsckpt.rank_own(rank)], "seen": seen, "shared": 5}

    found = save_ranks(tmp_path / "run", 2, state_of)
    plain = {"list": [1, 50], "seen": Pair(torch.zeros(2, dtype=torch.int64), 50), "shared": 1}
    with pytest.raises(dsckpt.DsckptError, match="nothing of rank 4's own"):
        found.load_into(plain, 4)
    assert plain["shared"] == 1
    with pytest.warns(RuntimeWarning, match="left as it is"):
        found.load_into(plain, 4, strict=False)
    assert plain["list"] == [0, 50]
    assert plain["seen"].own == 50  # type: ignore[attr-defined]
    assert plain["shared"] == 5
    shared = found.load(4, or_shared=True)
    assert shared["list"] == [0, None]
    assert type(shared["seen"]) is Pair
    assert shared["seen"].own is None


def test_marks_in_a_state_to_load_into(tmp_path: Path) -> None:
    def state_of(rank: int) -> dict[str, Any]:
        return {"mean": dsckpt.rank_own(torch.full((2,), float(rank))), "n": dsckpt.rank_own(rank)}

    found = save_ranks(tmp_path / "run", 2, state_of)
    mean = torch.zeros(2)
    target = {"mean": dsckpt.rank_own(mean), "n": dsckpt.rank_own(None)}
    found.load_into(target, 1)
    assert mean.tolist() == [1, 1]
    assert target["n"].value == 1
    plain = {"mean": mean, "n": None}
    found.load_into(plain, 0)
    assert (mean.tolist(), plain["n"]) == ([0, 0], 0)
    missing = {"more": dsckpt.rank_own(1)}
    with pytest.raises(dsckpt.DsckptError, match=r"rank 1's own for state\['more'\]"):
        found.load_into(missing, 1)


def test_a_mark_in_the_state_alone_is_enough(tmp_path: Path) -> None:
    found = save_ranks(tmp_path / "run", 2, lambda rank: {"a": torch.ones(2), "n": 5})
    target = {"a": dsckpt.rank_own(torch.zeros(2)), "n": dsckpt.rank_own(0)}
    with pytest.raises(dsckpt.DsckptError, match=r"rank 2's own for state\['a'\], state\['n'\]"):
        found.load_into(target, 2)
    with pytest.warns(RuntimeWarning, match="left as it is"):
        found.load_into(target, 2, strict=False)
    assert (target["a"].value.tolist(), target["n"].value) == ([0, 0], 0)
    found.load_into(target, 1)
    assert (target["a"].value.tolist(), target["n"].value) == ([1, 1], 5)


def test_unmarked_tensors_that_differ_are_refused(tmp_path: Path) -> None:
    def state_of(rank: int) -> dict[str, Any]:
        return {"model": {"w": torch.ones(2)}, "rng": {"torch": torch.full((4,), rank)}}

    with pytest.raises(dsckpt.DsckptError) as caught:
        save_ranks(tmp_path / "run", 2, state_of)
    assert caught.value.code == "Mismatch"
    for part in ("'rng/torch' differs between rank 0 and rank 1", "dsckpt.rank_own()"):
        assert part in str(caught.value)
    assert dsckpt.Run(tmp_path / "run").latest() is None
    assert [one.name for one in (tmp_path / "run").iterdir() if one.name[0] != "."] == []


def test_a_part_of_a_shared_tensor_is_nobodys_own(tmp_path: Path) -> None:
    spec = dsckpt._native.TensorSpec(
        0, "F32", [0], pieces=[dsckpt._native.Piece("w", [4], box=[(0, 0)])]
    )
    walker = dsckpt._native.Walker(
        {"w": spec},
        classify=lambda value, path: (
            ("own", value) if path == ["w"] and first() else ("tensor", value)
        ),
        rank=0,
    )
    asked: list[int] = []

    def first() -> bool:
        asked.append(1)
        return len(asked) == 1

    engine = dsckpt._native.Engine(pool_bytes=4 * MIB)
    with pytest.raises(dsckpt.DsckptError, match="which several ranks hold, and so no rank's own"):
        engine.save_durably(str(tmp_path / "f"), walker)
    engine.close()


def plain(value: Any) -> Any:
    """As it should come back, in a form that == compares."""
    if isinstance(value, RankOwn):
        return plain(value.value)
    if isinstance(value, torch.Tensor):
        return ("tensor", value.tolist())
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value
