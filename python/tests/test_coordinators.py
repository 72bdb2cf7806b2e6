"""Ranks that meet through a store and save together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from test_checkpoint import MIB, on_ranks

import dsckpt
from dsckpt import _native
from dsckpt.checkpoint import Checkpoint
from dsckpt.coordinators import StoreCoordinator, default_coordinator
from dsckpt.run import Run


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
