"""Runs, sharded checkpoints and coordinators, with ranks as threads of this process."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import dsckpt
from dsckpt import _native, dtensor
from dsckpt.checkpoint import Checkpoint
from dsckpt.coordinators import StoreCoordinator, default_coordinator
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


def test_run_saves_and_finds(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    assert run.latest() is None
    assert run.checkpoints == []
    with dsckpt.AsyncWriter(4 * MIB) as writer:
        # Old checkpoints go after the new one is announced: at close() at the latest.
        with Run(tmp_path / "run", writer, keep_last=2, keep=[1]) as saving:
            for step in (1, 2, 3, 4):
                state = {"w": torch.full((4,), float(step)), "o": [step]}
                saving.save(step, state, attributes={"loss": 0.5}).durable()
        assert [(c.name, c.step, c.shards) for c in run.checkpoints] == [
            ("step-0000000001", 1, 1),
            ("step-0000000003", 3, 1),
            ("step-0000000004", 4, 1),
        ]
        latest = run.latest()
        assert latest is not None
        assert (latest.step, latest.attributes) == (4, {"step": 4, "loss": 0.5})
        assert run.by_step(3).load()["o"] == [3]
        with pytest.raises(dsckpt.DsckptError) as caught:
            run.by_step(2)
        assert caught.value.code == "NotFound"
        with Run(tmp_path / "run", writer) as saving:
            with pytest.raises(dsckpt.DsckptError) as caught:
                saving.save(4, {}).durable()
            assert caught.value.code == "AlreadyExists"
            saving.save(4, {"new": 1}, replace=True).durable()
            assert run.by_step(4).load() == {"new": 1}
            saving.save(5, {"n": 1}, name="best").durable()
            assert dsckpt.load(tmp_path / "run" / "best") == {"n": 1}


def test_run_makes_a_writer_of_its_own(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    handle = run.save(1, {"w": torch.ones(2)}, encoding="zstd")
    run.close()
    handle.durable()
    assert dsckpt.load(tmp_path / "run")["w"].tolist() == [1, 1]
    run.close()


@pytest.mark.parametrize("ending", ["", "writer.close()", "del run, writer"])
def test_a_program_that_ends_loses_nothing(ending: str, tmp_path: Path) -> None:
    code = f"""
import sys, torch, dsckpt
writer = dsckpt.AsyncWriter(4 << 20)
run = dsckpt.Run(sys.argv[1], writer)
run.save(1, {{"w": torch.ones(1 << 20)}})
run.save(2, {{"w": torch.ones(1 << 20) * 2}})
{ending}
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True)
    assert dsckpt.load(tmp_path / "run")["w"].unique().tolist() == [2]


def test_a_program_whose_last_checkpoint_fails_says_so(tmp_path: Path) -> None:
    code = """
import sys, dsckpt
run = dsckpt.Run(sys.argv[1])
run.save(1, {}).durable()
run.save(1, {})
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True
    )
    assert ran.returncode == 1, ran.stderr
    assert "step-0000000001" in ran.stderr


def test_ranks_save_together(tmp_path: Path) -> None:
    def work(rank: int, coordinator: _native.Coordinator) -> None:
        with (
            dsckpt.AsyncWriter(4 * MIB) as writer,
            Run(tmp_path / "run", writer, coordinator=coordinator, keep_last=1) as run,
        ):
            for step in (1, 2, 3):
                handle = run.save(step, {f"w{rank}": torch.ones(2) * step, "rank": rank})
            handle.durable()

    on_ranks(3, work)
    assert [entry.step for entry in Run(tmp_path / "run").checkpoints] == [3]
    found = Checkpoint(tmp_path / "run" / "step-0000000003")
    assert sorted(found.tensors) == ["w0", "w1", "w2"]
    assert found.load(2)["rank"] == 2


def test_a_rank_that_fails_fails_all(tmp_path: Path) -> None:
    def work(rank: int, coordinator: _native.Coordinator) -> str:
        state = {"same name": torch.full((2,), float(rank)), "s": torch.ones(rank + 1)}
        with (
            dsckpt.AsyncWriter(4 * MIB) as writer,
            Run(tmp_path / "run", writer, coordinator=coordinator) as run,
        ):
            with pytest.raises(dsckpt.DsckptError) as caught:
                run.save(1, state).durable()
            return caught.value.code

    assert on_ranks(2, work) == ["Mismatch", "Mismatch"]
    assert Run(tmp_path / "run").latest() is None


def test_missing_ranks_are_named() -> None:
    store = dist.HashStore()
    two = StoreCoordinator(store, 0, 4)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: StoreCoordinator(store, 2, 4).gather("k", b"2", 1)).result()
    with pytest.raises(TimeoutError, match=r"ranks 1, 3 did not send 'k'"):
        two.gather("k", b"0", 0.05)
    with pytest.raises(TimeoutError, match="ranks 0 did not send 'the session'"):
        StoreCoordinator(dist.HashStore(), 1, 2, timeout_seconds=0.05)
    with pytest.raises(TimeoutError, match="ranks 0 did not send 'b'"):
        StoreCoordinator(store, 1, 4).broadcast("b", b"", 0.05)


def test_sessions_of_one_store_do_not_mix() -> None:
    store = dist.HashStore()
    first = [StoreCoordinator(store, rank, 2) for rank in (0, 1)]
    second = [StoreCoordinator(store, rank, 2) for rank in (0, 1)]
    assert first[0].session() == first[1].session() != second[0].session()
    for pair, value in ((first, b"1"), (second, b"2")):
        assert pair[1].gather("k", value, 1) == []
        assert pair[0].gather("k", b"0", 1) == [b"0", value]
        assert pair[0].broadcast("k", value, 1) == value
        assert pair[1].broadcast("k", b"ignored", 1) == value
    assert (first[1].rank(), first[1].size()) == (1, 2)
    # A rank that is early waits for the session that rank 0 has yet to begin.
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(StoreCoordinator, store, 1, 2)
        with pytest.raises(TimeoutError):
            early.result(0.1)
        assert StoreCoordinator(store, 0, 2).session() == early.result(10).session()


def test_the_store_does_not_fill_up() -> None:
    store = dist.HashStore()
    ranks = [StoreCoordinator(store, rank, 2) for rank in (0, 1)]
    sizes = []
    for i in range(4):
        ranks[1].gather(f"g{i}", b"\0\xff", 1)
        assert ranks[0].gather(f"g{i}", b"", 1) == [b"", b"\0\xff"]
        ranks[0].broadcast(f"b{i}", b"x", 1)
        ranks[1].broadcast(f"b{i}", b"", 1)
        sizes.append(store.num_keys())
    assert len(set(sizes)) == 1


def test_default_coordinator_alone() -> None:
    assert default_coordinator().size() == 1


def fake_mesh(rank: int, shape: tuple[int, ...]) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    size = int(np.prod(shape))
    dist.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())
    return init_device_mesh("cpu", shape)


def placements() -> dict[str, tuple[tuple[int, ...], list[Any], tuple[int, ...]]]:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    return {
        "rows": ((4,), [Shard(0)], (8, 3)),
        "uneven": ((4,), [Shard(0)], (5, 3)),
        "fewer rows than ranks": ((4,), [Shard(0)], (3, 2)),
        "columns": ((4,), [Shard(1)], (2, 6)),
        "copies": ((4,), [Replicate()], (2, 2)),
        "copies of rows": ((2, 2), [Replicate(), Shard(0)], (5, 2)),
        "both dimensions": ((2, 2), [Shard(0), Shard(1)], (5, 3)),
        "one dimension twice": ((2, 2), [Shard(0), Shard(0)], (7, 2)),
        "fsdp over tensor parallel": (
            (2, 2),
            [_StridedShard(0, split_factor=2), Shard(0)],
            (8, 2),
        ),
    }


@pytest.mark.parametrize("name", placements())
def test_boxes_of_dtensors(name: str, tmp_path: Path) -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    mesh_shape, split, shape = placements()[name]
    whole = torch.arange(float(np.prod(shape))).reshape(shape)
    for rank in range(int(np.prod(mesh_shape))):
        mesh = fake_mesh(rank, mesh_shape)
        try:
            size, offset = compute_local_shape_and_global_offset(shape, mesh, split)
            want = [(o, o + s) for o, s in zip(offset, size)]
            local = whole[tuple(slice(b, e) for b, e in want)].contiguous()
            tensor = DTensor.from_local(
                local, mesh, split, run_check=False, shape=whole.shape, stride=whole.stride()
            )
            box = dtensor.box(tensor)
            assert all(a == b or a[0] == a[1] for a, b in zip(box, want)), (rank, box, want)
            dsckpt.save({"a": {"w": tensor}}, tmp_path / f"{rank}")
            dist_free = dsckpt.load(tmp_path / f"{rank}")["a"]["w"]
            assert torch.equal(dist_free, local)
            piece = dsckpt.open(tmp_path / f"{rank}").native.pieces(0)[0]
            copies = any(p.is_replicate() for p in split)
            assert (piece.logical_name, tuple(piece.logical_shape), piece.replica_group) == (
                "a/w",
                shape,
                int(copies),
            )
            into = {
                "a": {
                    "w": DTensor.from_local(
                        torch.zeros_like(local),
                        mesh,
                        split,
                        run_check=False,
                        shape=whole.shape,
                        stride=whole.stride(),
                    )
                }
            }
            dsckpt.load_into(into, tmp_path / f"{rank}")
            assert torch.equal(into["a"]["w"].to_local(), local)
        finally:
            dist.destroy_process_group()


def test_partial_dtensors_are_refused(tmp_path: Path) -> None:
    from torch.distributed.tensor import DTensor, Partial

    mesh = fake_mesh(0, (2,))
    try:
        tensor = DTensor.from_local(torch.ones(2), mesh, [Partial()], run_check=False)
        with pytest.raises(dsckpt.DsckptError, match="partial sums"):
            dsckpt.save({"w": tensor}, tmp_path / "s")
    finally:
        dist.destroy_process_group()


def test_dtensors_get_their_box_of_what_other_ranks_wrote(tmp_path: Path) -> None:
    from torch.distributed.tensor import DTensor, Shard

    save_parts(tmp_path / "run", 2)
    for rank in range(4):
        mesh = fake_mesh(rank, (4,))
        try:
            begin, end = min(6, rank * 2), min(6, rank * 2 + 2)
            local = torch.zeros(end - begin, 4)
            tensor = DTensor.from_local(
                local, mesh, [Shard(0)], run_check=False, shape=WHOLE.shape, stride=(4, 1)
            )
            dsckpt.load_into({"w": tensor}, tmp_path / "run")
            assert torch.equal(local, WHOLE[begin:end])
        finally:
            dist.destroy_process_group()


def test_coordinators_are_thread_safe() -> None:
    store = dist.HashStore()
    ranks = [StoreCoordinator(store, rank, 2) for rank in (0, 1)]
    found: dict[int, list[bytes]] = {}

    def exchange(i: int) -> None:
        found[i] = ranks[0].gather(f"{i}", b"", 5)

    threads = [threading.Thread(target=exchange, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for i in reversed(range(8)):
        ranks[1].gather(f"{i}", str(i).encode(), 5)
    for thread in threads:
        thread.join()
    assert found == {i: [b"", str(i).encode()] for i in range(8)}


def test_a_dropped_run_frees_its_directory(tmp_path: Path) -> None:
    state = {"w": torch.ones(4)}
    run: Run | None = Run(tmp_path / "run")
    assert run is not None
    run.save(1, state)
    run = Run(tmp_path / "run")  # As in a notebook: nobody closed the one before.
    run.save(2, state).durable()
    assert [entry.step for entry in run.checkpoints] == [1, 2]
    circle: list[Any] = [run]
    circle.append(circle)  # One that only the collector of garbage can drop.
    run = None
    del circle
    with Run(tmp_path / "run") as last:
        last.save(3, state).durable()
        assert [entry.step for entry in last.checkpoints] == [1, 2, 3]
        other = Run(tmp_path / "run")  # While one is in use, another is still refused.
        with pytest.raises(dsckpt.DsckptError, match="close it") as caught:
            other.save(4, state)
        assert caught.value.code == "FailedPrecondition"


def test_roll_back(tmp_path: Path) -> None:
    def state(value: int) -> dict[str, Any]:
        return {"w": torch.full((2,), float(value))}

    with Run(tmp_path / "run", keep_last=2) as run:
        for step in (3, 7, 8):
            run.save(step, state(step), replace=False).durable()
        with pytest.raises(dsckpt.DsckptError, match="roll the run back") as caught:
            run.save(8, state(0))
        assert caught.value.code == "AlreadyExists"
        assert run.roll_back(7).step == 7
        found = run.latest()
        assert found is not None
        assert found.step == 7
        assert [(c.step, c.serial, c.abandoned) for c in run.checkpoints][-2:] == [
            (7, 2, False),
            (8, 3, True),
        ]
        run.save(4, state(4)).durable()
        found = run.latest()
        assert found is not None
        assert found.step == 4
        run.save(8, state(80)).durable()
        found = run.latest()
        assert found is not None
        assert torch.equal(found.load()["w"], state(80)["w"])
    # The last save may remove others behind its answer: at close() it has.
    assert [(c.step, c.abandoned) for c in run.checkpoints] == [(4, False), (8, False)]
    with pytest.raises(dsckpt.DsckptError) as caught:
        Run(tmp_path / "run").roll_back(7)
    assert caught.value.code == "NotFound"
    # From outside, while no job is alive.
    assert Run(tmp_path / "run").roll_back(4).step == 4


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


def test_a_run_has_one_step(tmp_path: Path) -> None:
    with Run(tmp_path / "run") as run:
        with pytest.raises(dsckpt.DsckptError, match=r"'step' is 6, but .* step 5") as caught:
            run.save(5, {"w": torch.ones(1)}, attributes={"step": 6})
        assert caught.value.code == "InvalidArgument"
        run.save(5, {"w": torch.ones(1)}, attributes={"step": 5, "loss": 0.5}).durable()
        assert [entry.step for entry in run.checkpoints] == [5]


def test_latest_is_found_where_a_crash_left_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with Run(path) as run:
        run.save(1, {"w": torch.ones(2)}).durable()
    # A replacement of it that stopped between its renames.
    (path / "step-0000000001").rename(path / "step-0000000001.replaced-0011-6")
    assert Run(path).checkpoints == []
    found = Run(path).latest()
    assert found is not None
    assert found.load()["w"].tolist() == [1, 1]
    assert dsckpt.load(path)["w"].tolist() == [1, 1]
    (path / "latest").unlink()
    assert Run(path).latest() is None
    assert Run(tmp_path / "none").latest() is None


def test_strict_knows_the_ranks_of_any_coordinator(tmp_path: Path) -> None:
    def work(rank: int, coordinator: _native.Coordinator) -> Any:
        with (
            dsckpt.AsyncWriter(4 * MIB) as writer,
            Run(tmp_path / "run", writer, coordinator=coordinator) as run,
        ):
            run.save(1, {"a": torch.ones(2), "b": torch.ones(2)}).durable()
            last = run.latest()
            assert last is not None
            with pytest.raises(dsckpt.DsckptError, match=r"b.*: in the file only") as caught:
                last.load_into({"a": torch.zeros(2)})
            return caught.value.code

    assert on_ranks(2, work) == ["Mismatch", "Mismatch"]
    # Another number of ranks than wrote it.
    Checkpoint(tmp_path / "run" / "step-0000000001", ranks=3).load_into({"a": torch.zeros(2)})


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
