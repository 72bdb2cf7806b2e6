"""Checkpoints of any number of ranks: tensors put together from their files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import dsckpt
from dsckpt import _native
from dsckpt.checkpoint import Checkpoint
from dsckpt.coordinators import StoreCoordinator
from dsckpt.run import Run
from dsckpt.tensor_info import TensorTable

MIB = 1 << 20


OnRank = Callable[[int, _native.Coordinator], Any]


def on_ranks(size: int, work: OnRank) -> list[Any]:
    """Runs `work` for each rank of a group that shares a store, and returns what each returned."""
    store = dist.HashStore()
    with ThreadPoolExecutor(size) as pool:
        running = [
            pool.submit(lambda r: work(r, StoreCoordinator(store, r, size)), rank)
            for rank in range(size)
        ]
        return [one.result(timeout=60) for one in running]


def part(name: str, whole: torch.Tensor, begin: int, end: int) -> _native.TensorSpec:
    """Rows of a tensor, described as a part of it."""
    rows = whole[begin:end].contiguous()
    box = [(begin, end), *((0, size) for size in whole.shape[1:])]
    return _native.TensorSpec(
        rows.data_ptr(),
        "F32",
        list(rows.shape),
        owner=rows,
        pieces=[_native.Piece(name, list(whole.shape), box=box)],
    )


WHOLE = torch.arange(24.0).reshape(6, 4)


def save_parts(run: Path, size: int) -> None:
    """A checkpoint of `size` ranks that each hold some rows of 'w', and all of 'same'."""
    rows = -(-6 // size)

    def work(rank: int, coordinator: _native.Coordinator) -> None:
        spec = part("w", WHOLE, min(6, rank * rows), min(6, (rank + 1) * rows))
        state = {"w": spec, "same": torch.ones(2), "rank": rank, "only": {rank: torch.ones(1)}}
        engine = _native.Engine(pool_bytes=4 * MIB)
        writer = _native.CheckpointWriter(engine, str(run), coordinator=coordinator)
        walker = _native.Walker(
            state,
            classify=lambda value, path: ("tensor", value),
            tensor_types=(torch.Tensor,),
            attributes={"step": 5},
        )
        writer.save(5, [("", walker)]).wait_durable()
        writer.close()
        engine.close()

    on_ranks(size, work)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_parts_of_any_number_of_ranks(size: int, tmp_path: Path) -> None:
    save_parts(tmp_path / "run", size)
    found = Run(tmp_path / "run").latest()
    assert found is not None
    assert (found.step, found.ranks, len(found.shards)) == (5, size, size)
    assert found.attributes == {"step": 5}
    info = found.tensors["w"]
    assert (info.dtype, info.shape, info.nbytes, info.pieces) == ("F32", (6, 4), 96, size)
    assert torch.equal(found.read("w"), WHOLE)
    assert torch.equal(found.read("w", [(1, 4), (2, 3)]), WHOLE[1:4, 2:3])
    assert torch.equal(found.read("w", (slice(1, 6, 2), -1)), WHOLE[1:6:2, -1])
    assert found.read("w", [(2, 2), (0, 4)]).shape == (0, 4)
    with pytest.raises(KeyError, match="no tensor 'nothing' in "):
        found.read("nothing")
    with pytest.raises(dsckpt.DsckptError, match=f"no file of rank 9; .* {size} rank"):
        found.load(9)
    with pytest.raises(IndexError):
        found.read("w", [(0, 7), (0, 4)])

    for rank in range(size):
        state = found.load(rank)
        assert torch.equal(state["w"], WHOLE)
        assert (state["rank"], list(state["only"]), state["same"].tolist()) == (
            rank,
            [rank],
            [1, 1],
        )
    assert dsckpt.load(tmp_path / "run")["rank"] == 0
    with pytest.raises(dsckpt.DsckptError, match=f"no file of rank {size}") as caught:
        found.load(size)
    assert caught.value.code == "NotFound"


def test_load_into_takes_tensors_by_name(tmp_path: Path) -> None:
    save_parts(tmp_path / "run", 2)
    state = {
        "w": torch.zeros(6, 4),
        "same": np.zeros(2, "f4"),
        "rank": -1,
        "only": {0: torch.zeros(1), 1: torch.zeros(1)},
    }
    w = state["w"]
    assert dsckpt.load_into(state, tmp_path / "run") is state
    assert torch.equal(w, WHOLE)
    assert (state["same"].tolist(), state["rank"]) == ([1, 1], 0)
    assert (state["only"][0].item(), state["only"][1].item()) == (1, 1)  # From another rank.

    found = Checkpoint(Run(tmp_path / "run").by_step(5).path)
    mine = {"w": torch.zeros(4, 6).T, "rank": -1}
    found.load_into(mine, rank=1)
    assert torch.equal(mine["w"], WHOLE)
    assert mine["rank"] == 1
    local = {"w": torch.zeros(3, 4)}  # What rank 1 stored itself.
    found.load_into(local, rank=1)
    assert torch.equal(local["w"], WHOLE[3:])
    assert found.load_into({"rank": 0}, rank=7)["rank"] == 0
    with pytest.raises(dsckpt.DsckptError, match=r"\['w'\]: F32 \[5, 4\].*F32 \[6, 4\]"):
        found.load_into({"w": torch.zeros(5, 4)})
    with pytest.raises(dsckpt.DsckptError, match=r"\['x'\]: in the state only"):
        found.load_into({"x": torch.zeros(5)})
    assert not found.load_into({"x": torch.zeros(5), "y": 1}, strict=False)["x"].any()


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    save_parts(tmp_path / "run", 2)
    found = Checkpoint(tmp_path / "run" / "step-0000000005")
    (tmp_path / "run" / "step-0000000005" / "shard-00001.dsckpt").unlink()
    again = Checkpoint.__new__(Checkpoint)
    again._native = _native.Checkpoint(found.path, retry_seconds=0)
    again._table = TensorTable(again._native)
    with pytest.raises(dsckpt.DsckptError, match="shard-00001") as caught:
        again.read("w")
    assert caught.value.code == "Incomplete"


def test_imported_files_have_the_step_that_they_say(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("step1000.dsckpt", "step9000.dsckpt", "step19000.dsckpt", "final.dsckpt"):
        dsckpt.save({"w": torch.ones(1)}, run / name)
    found = Run(run)
    assert [(c.name, c.step) for c in found.checkpoints] == [
        ("step1000.dsckpt", 1000),
        ("step9000.dsckpt", 9000),
        ("step19000.dsckpt", 19000),
        ("final.dsckpt", None),
    ]
    last = found.latest()
    assert last is not None
    assert last.step == 19000
    assert found.by_step(9000).step == 9000
    assert Checkpoint(run / "final.dsckpt").step is None


def test_read_is_a_view_where_one_file_holds_the_whole(tmp_path: Path) -> None:
    state = {"w": torch.arange(12.0).view(3, 4), "z": torch.ones(3000), "b": torch.ones(3)}
    with dsckpt.AsyncWriter(4 << 20) as writer, Run(tmp_path / "run", writer) as run:
        run.save(1, state).durable()
    checkpoint = dsckpt.Checkpoint(tmp_path / "run" / "step-0000000001")
    first, second = checkpoint.read("w"), checkpoint.read("w")
    assert torch.equal(first, state["w"])
    assert first.data_ptr() == second.data_ptr()
    assert checkpoint.read("w", mmap=False).data_ptr() != first.data_ptr()
    assert torch.equal(checkpoint.read("w", (1, slice(1, 3))), state["w"][1, 1:3])
    assert torch.equal(checkpoint.read("w", [(1, 3), (0, 2)]), state["w"][1:3, :2])
    assert checkpoint.read("w", (1, slice(1, 3))).data_ptr() == first[1, 1:3].data_ptr()
    first[0, 0] = 99  # Memory changes, the file does not.
    assert torch.equal(checkpoint.read("w", mmap=False), state["w"])
    # Encoded ones are read.
    dsckpt.save(state, tmp_path / "z", encoding="zstd")
    packed = dsckpt.Checkpoint(tmp_path / "z")
    assert torch.equal(packed.read("z"), state["z"])
    assert packed.read("z").data_ptr() != packed.read("z").data_ptr()


def test_attributes_where_rank_0_wrote_nothing(tmp_path: Path) -> None:
    def work(rank: int, coordinator: _native.Coordinator) -> None:
        engine = _native.Engine(pool_bytes=4 * MIB)
        writer = _native.CheckpointWriter(engine, str(tmp_path / "run"), coordinator=coordinator)
        walker = _native.Walker(
            {"r": rank},
            classify=lambda value, path: ("tensor", value),
            tensor_types=(torch.Tensor,),
            attributes={"by": rank},
        )
        writer.save(5, [("", walker)] if rank else []).wait_durable()
        writer.close()
        engine.close()

    on_ranks(3, work)
    found = Run(tmp_path / "run").latest()
    assert found is not None
    assert [rank for _, rank, _ in found.shards] == [1, 2]
    assert found.attributes["by"] == 1


def test_content_digest_is_of_what_all_files_hold(tmp_path: Path) -> None:
    values = torch.arange(6, dtype=torch.float32)
    with Run(str(tmp_path / "run")) as run:
        for step, changed in ((1, 0.0), (2, 0.0), (3, 1.0)):
            values[0] = changed
            run.save(step, {"w": values}).result()
    one, two, three = (
        Checkpoint(tmp_path / "run" / f"step-{step:010}").content_digest for step in (1, 2, 3)
    )
    assert one is not None
    assert len(one) == 32
    assert one == two
    assert three is not None
    assert three != one
    dsckpt.save_safetensors({"w": values}, tmp_path / "plain.safetensors")
    assert Checkpoint(tmp_path / "plain.safetensors").content_digest is None


VECTORS = Path(__file__).resolve().parents[2] / "spec/conformance/valid"


def test_a_hash_that_is_not_known_is_said_and_loaded() -> None:
    path = VECTORS / "other-hash-sharded"
    shard = path / "0.dsckpt"
    with dsckpt.open(shard) as file:
        assert file.verifiable is False
        assert file.digest("w") is None
        assert file.digest("w", compute=True) is not None
    hash_200 = r"0\.dsckpt: what is loaded is not verified, .* hash id 200"
    for verify in (None, True):
        with pytest.warns(RuntimeWarning, match=hash_200) as told:
            state = dsckpt.load(shard, verify=verify)
        assert len(told) == 1
        assert (state["config"], state["rng"]) == (b"of all", b"rank 0")
    with pytest.warns(RuntimeWarning, match=hash_200):
        whole = dsckpt.load(path)
    assert whole["w"].flatten().tolist() == [1, 2, 3, 4] * 2
    target = {"w": torch.zeros(2, 2), "config": b"", "rng": b""}
    with pytest.warns(RuntimeWarning, match=hash_200) as told:
        dsckpt.load_into(target, shard)
    assert Path(told[0].filename) == Path(__file__)
    assert target["w"].flatten().tolist() == [1, 2, 3, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dsckpt.load(shard, verify=False)
        dsckpt.load_into(target, shard, verify=False)


def test_where_the_hash_is_not_known_bytes_say_what_ranks_share() -> None:
    found = Checkpoint(VECTORS / "other-hash-sharded")
    target = {"w": torch.zeros(2, 2), "config": b"", "rng": b""}
    with pytest.warns(RuntimeWarning) as told:
        found.load_into(target, 2, strict=False)
    listed = [str(one.message) for one in told if "differs from rank" in str(one.message)]
    assert len(listed) == 1
    assert "gets rank 0's for state['rng'], which" in listed[0]


def test_a_merge_refuses_what_cannot_be_verified(tmp_path: Path) -> None:
    path = VECTORS / "other-hash-sharded"
    with pytest.raises(dsckpt.DsckptError, match="hash id 200") as refused:
        dsckpt.merge(path, tmp_path / "out")
    assert refused.value.code == "Unsupported"
    dsckpt.merge(path, tmp_path / "out", verify=False)
    merged = dsckpt.load(tmp_path / "out")
    assert (merged["rng"], merged["ranks"][1]["rng"]) == (b"rank 0", b"rank 1")
