"""Jobs of several processes: DTensors, another number of ranks, and the run's own coordinator."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import dsckpt

JOB = Path(__file__).with_name("distributed_job.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def job(size: int, action: str, run: Path) -> None:
    port = str(free_port())
    ranks = [
        subprocess.Popen(
            [sys.executable, str(JOB), action, str(run)],
            env={
                **os.environ,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "OMP_NUM_THREADS": "1",
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=120)
        assert rank.returncode == 0, errors


MANY = """
import sys, torch, torch.distributed as dist
import dsckpt
from dsckpt import dtensor
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor import init_device_mesh

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
sharded = [distribute_tensor(torch.full((2, 3), float(i)), mesh, [Shard(0)]) for i in range(60)]
whole = [distribute_tensor(torch.ones(4), mesh, [Replicate()]) for i in range(3)]
DTensor.to_local = None  # It asks autograd: a save does without.
for _ in range(2):
    dsckpt.save({"sharded": sharded, "whole": whole}, sys.argv[1])
made = dtensor._box.cache_info()
found = dsckpt.load(sys.argv[1])
assert [int(t[1, 2]) for t in found["sharded"]] == list(range(60))
print(made.misses, made.hits)
dist.destroy_process_group()
"""


def test_boxes_of_shards_are_made_once(tmp_path: Path) -> None:
    """One for each shape, mesh, place in it and placement; not for each tensor."""
    ran = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path / "s")], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["2", "124"]


@pytest.mark.slow
def test_what_belongs_to_a_rank(tmp_path: Path) -> None:
    run = tmp_path / "run"
    job(2, "save-own", run)
    assert dsckpt.verify(run / "step-0000000001").ok
    job(1, "load-own", run)
    job(2, "load-own", run)
    job(3, "load-own", run)


@pytest.mark.slow
def test_dtensors_across_numbers_of_ranks(tmp_path: Path) -> None:
    run = tmp_path / "run"
    job(2, "save", run)
    found = dsckpt.Run(run).latest()
    assert found is not None
    assert sorted(found.tensors) == ["columns", "copies", "plain", "rows"]
    assert {name: info.pieces for name, info in found.tensors.items()} == {
        "columns": 2,
        "copies": 2,
        "plain": 2,
        "rows": 2,
    }
    whole = torch.arange(100.0, 115).reshape(5, 3)
    for rank in (0, 1):
        state = found.load(rank)
        assert torch.equal(state["rows"], whole)
        assert torch.equal(state["columns"], whole + 1)
        assert torch.equal(state["copies"], whole + 2)
        assert torch.equal(state["plain"], whole + 3)
        assert state["rank"] == {rank: rank}
    assert torch.equal(dsckpt.load(run)["rows"], whole)
    merged = tmp_path / "merged"
    dsckpt.merge(found.path, merged)
    assert torch.equal(dsckpt.load(merged)["columns"], whole + 1)
    job(3, "load", run)
