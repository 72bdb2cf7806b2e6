#!/usr/bin/env python3
"""Trains a small model with DeepSpeed ZeRO on two CPU processes, is killed on the way, and resumes.

    python3 train_deepspeed.py             starts the ranks, kills them, starts them again, compares
    deepspeed train_deepspeed.py --directory runs/a --steps 100

dsckpt is one line of the configuration, "datastates_ckpt". Training goes on while a checkpoint is
written; `latest` names it when the files of all ranks are durable. A run that was killed goes on
from there, and its losses are those of a run that was not, to the last bit.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTH = 64

CONFIG = {
    "train_micro_batch_size_per_gpu": 16,
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
    "steps_per_print": 1_000_000,
    "datastates_ckpt": {"host_cache_size": 0.0625},  # GiB for each rank
}


def train(options: argparse.Namespace) -> None:
    """One rank, from the last checkpoint to the last step."""
    import deepspeed
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)
    )
    CONFIG["zero_optimization"] = {"stage": options.stage}
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2), config=CONFIG
    )
    first = engine.global_rank == 0
    engine.load_checkpoint(options.directory)  # Nothing there: begins anew.
    if first:
        print(f"from step {engine.global_steps}", flush=True)
    while engine.global_steps < options.steps:
        data = torch.Generator().manual_seed(1000 * engine.global_steps + engine.global_rank)
        batch = torch.randn(16, WIDTH, generator=data).to(engine.device)
        loss = (engine(batch) - batch.roll(1, dims=1)).square().mean()
        engine.backward(loss)
        engine.step()  # Waits where a save still reads what the update changes.
        if first:
            print(f"step {engine.global_steps} loss {loss.item().hex()}", flush=True)
        if engine.global_steps % options.every == 0:
            engine.save_checkpoint(options.directory)
        if engine.global_steps == options.die_at:
            die()
    engine.destroy()


def die() -> None:
    """What a failing machine does, here only after the last save has become durable."""
    import datastates

    datastates.drain()
    os.kill(os.getpid(), signal.SIGKILL)


def run_ranks(directory: Path, options: argparse.Namespace, die_at: int = 0) -> list[str]:
    """Starts two ranks as DeepSpeed's launcher does. Returns what rank 0 said of its steps."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    environment |= {"LOCAL_WORLD_SIZE": "2", "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, __file__, "--directory", str(directory), "--die-at", str(die_at)]
    command += ["--steps", str(options.steps), "--every", str(options.every)]
    command += ["--stage", str(options.stage)]
    ranks = [
        subprocess.Popen(
            command,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    printed = [rank.communicate()[0] for rank in ranks]
    for rank, said in zip(ranks, printed):
        expected = -signal.SIGKILL if die_at else 0
        if rank.returncode != expected:
            print(said, file=sys.stderr)
            sys.exit(f"train_deepspeed.py: a rank ended with {rank.returncode}, not {expected}")
    lines = printed[0].splitlines()
    return [line for line in lines if line.startswith(("from step", "step"))]


def show_resuming(options: argparse.Namespace) -> None:
    """A run that is killed and resumed, beside one that is not."""
    with tempfile.TemporaryDirectory(dir=options.directory) as work:
        whole = run_ranks(Path(work) / "whole", options)
        halves = Path(work) / "halves"
        killed = run_ranks(halves, options, die_at=options.steps * 2 // 3 + 1)
        latest = (halves / "latest").read_text().strip()
        print(f"killed after {killed[-1].split(' loss')[0]}; latest is {latest}")
        resumed = run_ranks(halves, options)
        print(f"resumed {resumed[0]}")
        if resumed[0] == "from step 0" or resumed[1:] != whole[-len(resumed) + 1 :]:
            sys.exit(
                "train_deepspeed.py: the losses differ from those of the run that went through"
            )
        print(f"the last {len(resumed) - 1} losses are those of the run that was not killed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", default=".", help="of the run; without ranks: for work")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--every", type=int, default=4, help="steps between checkpoints")
    parser.add_argument("--stage", type=int, default=2, help="of ZeRO")
    parser.add_argument("--die-at", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--local_rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "RANK" in os.environ:
        train(options)
    else:
        show_resuming(options)


if __name__ == "__main__":
    main()
