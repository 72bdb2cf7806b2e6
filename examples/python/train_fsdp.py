#!/usr/bin/env python3
"""Trains a small FSDP2 model on two CPU processes, is killed on the way, and resumes.

    python3 train_fsdp.py                    starts the ranks, kills and restarts them, compares
    torchrun --nproc-per-node 2 train_fsdp.py --directory runs/a --steps 100

Every few steps the state goes to torch.distributed.checkpoint's async_save() with dsckpt's writer.
The ranks train on while it is written. A run that was killed goes on from its last complete
checkpoint, and its losses are those of a run that was not, to the last bit.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import dsckpt
from dsckpt.dcp import DcpReader, DcpWriter

WIDTH = 64


class Training:
    """The model, its optimizer, and the step: what a checkpoint holds (DCP's Stateful)."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)
        )
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in self.model:
            fully_shard(layer, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.step = 0

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.step = state["step"]

    def train_step(self) -> float:
        """One update on a batch that depends on step and rank alone. Returns the mean loss."""
        data = torch.Generator().manual_seed(1000 * self.step + dist.get_rank())
        batch = torch.randn(16, WIDTH, generator=data)
        loss = (self.model(batch) - batch.roll(1, dims=1)).square().mean()
        loss.backward()
        self.optimizer.step()  # Waits for a save that still reads what the update changes.
        self.optimizer.zero_grad()
        self.step += 1
        mean = loss.detach()
        dist.all_reduce(mean)
        return float(mean) / dist.get_world_size()


def train(options: argparse.Namespace) -> None:
    """One rank, from the last checkpoint to the last step."""
    dist.init_process_group("cpu:gloo")
    first = dist.get_rank() == 0
    training = Training()
    directory = Path(options.directory)
    directory.mkdir(parents=True, exist_ok=True)
    last = dsckpt.Run(directory).latest()
    if last is not None:
        dcp.load({"training": training}, storage_reader=DcpReader(last.path))
    if first:
        print(f"from step {training.step}", flush=True)

    # DCP plans a save on a thread of its own: its messages need a group of their own.
    group: Any = dist.new_group(backend="gloo")
    engine = dsckpt.AsyncWriter(pool_bytes=64 << 20)
    writer = DcpWriter(writer=engine, process_group=group, run=True)
    saving: Any = None
    while training.step < options.steps:
        loss = training.train_step()
        if first:
            print(f"step {training.step} loss {loss.hex()}", flush=True)
        if training.step % options.every == 0:
            if saving is not None:
                saving.result()  # Raises what went wrong with the save before.
            saving = dcp.async_save(
                {"training": training},
                storage_writer=writer,
                process_group=group,
                checkpoint_id=directory / f"step-{training.step:06}",
            )
        if training.step == options.die_at:
            if saving is not None:
                saving.result()
            os.kill(os.getpid(), signal.SIGKILL)
    if saving is not None:
        saving.result()
    writer.close()
    dist.destroy_process_group()


def run_ranks(directory: Path, options: argparse.Namespace, die_at: int = 0) -> list[str]:
    """Starts two ranks as torchrun does. Returns what rank 0 printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    command = [sys.executable, __file__, "--directory", str(directory), "--die-at", str(die_at)]
    command += ["--steps", str(options.steps), "--every", str(options.every)]
    ranks = [
        subprocess.Popen(
            command,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE if rank == 0 else None,
            text=True,
        )
        for rank in range(2)
    ]
    printed = (ranks[0].communicate()[0] or "").splitlines()
    for rank in ranks:
        rank.wait()
        expected = -signal.SIGKILL if die_at else 0
        if rank.returncode != expected:
            sys.exit(f"train_fsdp.py: a rank ended with {rank.returncode}, expected {expected}")
    return printed


def show_resuming(options: argparse.Namespace) -> None:
    """A run that is killed and resumed, beside one that is not."""
    with tempfile.TemporaryDirectory(dir=options.directory) as work:
        whole = run_ranks(Path(work) / "whole", options)
        halves = Path(work) / "halves"
        killed = run_ranks(halves, options, die_at=options.steps * 2 // 3 + 1)
        print(f"killed after {killed[-1].split(' loss')[0]}; checkpoints:")
        for entry in dsckpt.Run(halves).checkpoints:
            print(f"  {entry.name}")
        resumed = run_ranks(halves, options)
        print(f"resumed {resumed[0]}")
        if resumed[0] == "from step 0" or resumed[1:] != whole[-len(resumed) + 1 :]:
            sys.exit("train_fsdp.py: the losses differ from those of the run that was not killed")
        print(f"the last {len(resumed) - 1} losses are those of the run that was not killed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", default=".", help="of the run; without torchrun: for work")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--every", type=int, default=4, help="steps between checkpoints")
    parser.add_argument("--die-at", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="torch.distributed is")
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        train(options)
    else:
        show_resuming(options)


if __name__ == "__main__":
    main()
