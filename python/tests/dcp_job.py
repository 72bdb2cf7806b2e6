"""The jobs of test_dcp.py: ranks that save or load states that are spread over them.

python dcp_job.py DIRECTORY save:4 load:2
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import dsckpt
from dsckpt.dcp import DcpReader, DcpWriter

SHAPES = {"even": (8, 4), "uneven": (5, 3), "few": (1, 7), "cube": (3, 4, 5), "none": (0, 4)}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(6, 7)
        self.norm = torch.nn.BatchNorm1d(7)
        self.outer = torch.nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.relu(self.norm(self.inner(x))))


def trained(seed: int, size: int) -> tuple[Model, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = Model()
    mesh = init_device_mesh("cpu", (size,))
    fully_shard(model.inner, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.randn(8, 6)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def fsdp_state(seed: int, size: int) -> tuple[Any, dict[str, Any]]:
    model, optimizer = trained(seed, size)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return (model, optimizer), {"model": model_state, "optimizer": optimizer_state, "step": seed}


def dtensors(size: int, scale: float) -> dict[str, Any]:
    """Every shape in every placement on a mesh of two dimensions."""
    mesh = init_device_mesh("cpu", (size // 2, 2))
    placements = {
        "rows": [Shard(0), Replicate()],
        "tiles": [Shard(0), Shard(1)],
        "twice": [Shard(0), Shard(0)],
        "columns": [Replicate(), Shard(1)],
        "copies": [Replicate(), Replicate()],
    }
    state: dict[str, Any] = {}
    for shape_name, shape in SHAPES.items():
        count = torch.Size(shape).numel()
        whole = scale * torch.arange(count, dtype=torch.float64).reshape(shape)
        for name, placement in placements.items():
            state[f"{shape_name}.{name}"] = distribute_tensor(whole, mesh, placement)
    return {"tensors": state, "plain": scale * torch.ones(2), "0/~": scale * torch.ones(3)}


def whole(state: Any) -> Any:
    """The state with every DTensor whole."""
    if isinstance(state, DTensor):
        return state.full_tensor().clone()
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, dict):
        return {key: whole(value) for key, value in state.items()}
    return state


def assert_equal(found: Any, expected: Any, path: str = "") -> None:
    assert type(found) is type(expected), path
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype, path
        assert torch.equal(found, expected), path
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for key, value in expected.items():
            assert_equal(found[key], value, f"{path}[{key!r}]")
    else:
        assert found == expected, path


def expect_error(call: Callable[[], Any], words: str) -> None:
    with pytest.raises((CheckpointException, dsckpt.DsckptError)) as raised:
        call()
    assert words in str(raised.value)


def save(directory: Path, rank: int, size: int) -> None:
    pool = dsckpt.AsyncWriter(pool_bytes=16 << 20)
    writer = DcpWriter(writer=pool)

    (model, _), state = fsdp_state(3, size)
    reference = {"fsdp": whole(state), "dtensors": whole(dtensors(size, 1.0))}
    if rank == 0:
        torch.save(reference, directory / "reference.pt")
    dcp.save(state, storage_writer=writer, checkpoint_id=directory / "fsdp-3")
    expect_error(
        lambda: dcp.save(state, storage_writer=writer, checkpoint_id=directory / "fsdp-3"),
        "stands already",
    )

    # What changes after async_save() has returned is not in the checkpoint.
    future = dcp.async_save(state, storage_writer=writer, checkpoint_id=directory / "later")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.to_local().zero_()
    future.result()

    # One rank cannot save: nobody can, nothing stays, and the next save is not confused.
    bad = dict(state, rank=torch.eye(2).to_sparse() if rank == 2 else torch.ones(rank + 1))
    planner = dcp.DefaultSavePlanner()
    expect_error(
        lambda: dcp.save(
            {f"of {rank}": bad["rank"]},
            storage_writer=writer,
            checkpoint_id=directory / "bad",
            planner=planner,
        ),
        "only strided tensors",
    )
    dcp.save(dtensors(size, 1.0), storage_writer=writer, checkpoint_id=directory / "dtensors")
    writer.close()

    # A group of its own, into a run directory.
    pair = dist.new_group([1, 3])
    if rank in (1, 3):
        paired = DcpWriter(directory / "run" / "pair-7", pool, process_group=pair, run=True)
        dcp.save({"t": torch.arange(6.0)}, storage_writer=paired, process_group=pair)
        paired.close()
    dist.barrier()


def load(directory: Path, rank: int, size: int) -> None:
    reference = torch.load(directory / "reference.pt")
    for name in ("fsdp-3", "later"):
        (model, optimizer), state = fsdp_state(1, size)
        dcp.load(state, storage_reader=DcpReader(), checkpoint_id=directory / name)
        assert state["step"] == 3
        set_state_dict(
            model,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        assert_equal(whole(state), reference["fsdp"])
    state = dtensors(size, 0.0)
    dcp.load(state, storage_reader=DcpReader(directory / "dtensors"))
    assert_equal(whole(state), reference["dtensors"])


def run_rank(action: str, directory: Path, rank: int, size: int, port: int) -> None:
    warnings.simplefilter("ignore")
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size)
    )
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    {"save": save, "load": load}[action](directory, rank, size)
    dist.destroy_process_group()


def run(action: str, directory: Path, size: int) -> None:
    """Forks the ranks, so that PyTorch is imported once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            run_rank(action, directory, rank, size, port)
            sys.exit(0)
        ranks.append(child)
    failed = [rank for rank, child in enumerate(ranks) if os.waitpid(child, 0)[1] != 0]
    if failed:
        sys.exit(f"dcp_job.py: {action}: ranks {failed} failed")


if __name__ == "__main__":
    for job in sys.argv[2:]:
        name, _, ranks = job.partition(":")
        run(name, Path(sys.argv[1]), int(ranks))
