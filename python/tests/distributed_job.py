"""One rank of a job that test_distributed.py starts: saves or loads DTensors through a run."""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import dsckpt


def whole(begin: float) -> torch.Tensor:
    return torch.arange(begin, begin + 15).reshape(5, 3)


def state(rank: int, begin: float) -> dict[str, object]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return {
        "rows": distribute_tensor(whole(begin), mesh, [Shard(0)]),
        "columns": distribute_tensor(whole(begin) + 1, mesh, [Shard(1)]),
        "copies": distribute_tensor(whole(begin) + 2, mesh, [Replicate()]),
        "plain": whole(begin) + 3,
        "rank": {rank: rank},
    }


def own_state(rank: int) -> dict[str, Any]:
    """Weights that ranks share, and the random state that each has drawn from for itself."""
    torch.manual_seed(1000 + rank)
    torch.rand(rank + 1)
    random.seed(rank)
    statistics = dsckpt.rank_own({"mean": torch.full((3,), float(rank)), "count": rank})
    return {"w": torch.arange(6.0), "rng": dsckpt.random.rng_state(), "statistics": statistics}


def check_own(rank: int, drawn_by: int) -> None:
    """Whether this process draws what another one would have drawn next."""
    drawn = torch.rand(3).tolist(), random.random()
    own_state(drawn_by)
    assert drawn == (torch.rand(3).tolist(), random.random()), rank


def load_own(rank: int, run_directory: str) -> None:
    saved = 2
    mine = own_state(rank + 10)
    if rank < saved:
        dsckpt.load_into(mine, run_directory)
        assert mine["statistics"].value["count"] == rank
        assert mine["statistics"].value["mean"].tolist() == [rank] * 3
    else:
        with pytest.raises(dsckpt.DsckptError) as caught:
            dsckpt.load_into(mine, run_directory)
        assert caught.value.code == "NotFound"
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            dsckpt.load_into(mine, run_directory, strict=False)
        assert "rank 2's own" in str(told[0].message)
        assert mine["statistics"].value["count"] == rank + 10
    assert mine["w"].tolist() == [0, 1, 2, 3, 4, 5]
    dsckpt.random.set_rng_state(mine["rng"])
    check_own(rank, rank if rank < saved else rank + 10)


def main(action: str, run_directory: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if action == "load-own":
        load_own(rank, run_directory)
        dist.destroy_process_group()
        return
    with dsckpt.AsyncWriter(4 << 20) as writer, dsckpt.Run(run_directory, writer) as run:
        if action == "save":
            run.save(1, state(rank, 100.0)).durable()
        elif action == "save-own":
            run.save(1, own_state(rank)).durable()
        else:
            mine = state(rank, 0.0)
            mine["rank"] = None
            dsckpt.load_into(mine, run_directory)
            for offset, name in enumerate(("rows", "columns", "copies")):
                found = mine[name].full_tensor()  # type: ignore[attr-defined]
                assert torch.equal(found, whole(100.0) + offset), (rank, name, found)
            assert torch.equal(mine["plain"], whole(100.0) + 3)
            assert mine["rank"] == ({rank: rank} if rank < 2 else {0: 0}), mine["rank"]
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
