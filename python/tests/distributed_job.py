"""One rank of a job that test_distributed.py starts: saves or loads DTensors through a run."""

from __future__ import annotations

import sys

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


def main(action: str, run_directory: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with dsckpt.AsyncWriter(4 << 20) as writer, dsckpt.Run(run_directory, writer) as run:
        if action == "save":
            run.save(1, state(rank, 100.0)).durable()
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
