"""A plain PyTorch training loop that is killed and goes on as if nothing had happened.

The loop saves after every few steps without stopping, keeps the last two checkpoints, and resumes
from the newest one when it is started again:

    python train_torch.py RUN_DIRECTORY        # trains; start it again after a crash

Without an argument it shows that this works: it trains once to the end, then trains in child
processes that kill themselves in the middle, and compares the losses bit for bit.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dsckpt
from dsckpt.random import StatefulLoader, rng_state, set_rng_state

STEPS = 60
SAVE_EVERY = 7
DIE_AT = (25, 44)


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1)
    )


def make_loader() -> DataLoader[tuple[torch.Tensor, ...]]:
    inputs = torch.randn(512, 8, generator=torch.Generator().manual_seed(1))
    targets = inputs.square().sum(1, keepdim=True)
    return DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)


def train(directory: str, die_at: int | None = None) -> list[float]:
    """Trains to the end and returns the losses of all steps, those before a resume included."""
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    batches = StatefulLoader(make_loader())
    losses: list[float] = []

    with dsckpt.AsyncWriter(pool_bytes=16 << 20) as writer:
        run = dsckpt.Run(directory, writer, keep_last=2)
        if (last := run.latest()) is not None:
            state = last.load()
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            schedule.load_state_dict(state["schedule"])
            batches.load_state_dict(state["batches"])
            losses = state["losses"]
            set_rng_state(state["rng"])  # Last: everything before may draw.
            print(f"resumed after step {last.step}")

        while len(losses) < STEPS:
            for inputs, targets in batches:
                loss = nn.functional.mse_loss(model(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()  # Waits by itself until a pending save has read the weights.
                schedule.step()
                losses.append(loss.item())
                step = len(losses)
                if step % SAVE_EVERY == 0:
                    state = {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(),
                        "batches": batches.state_dict(),
                        "losses": losses,
                        "rng": rng_state(),
                    }
                    run.save(step, state, attributes={"loss": losses[-1]})
                if step == die_at:
                    run.wait()  # So that this demonstration has something to resume from.
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == STEPS:
                    break
        run.close()
    return losses


def demonstrate() -> None:
    with tempfile.TemporaryDirectory() as folder:
        want = train(os.path.join(folder, "uninterrupted"))
        directory = os.path.join(folder, "killed")
        for die_at in DIE_AT:
            child = subprocess.run([sys.executable, __file__, directory, str(die_at)], check=False)
            if child.returncode != -signal.SIGKILL:
                sys.exit(f"the child ended with {child.returncode}, but should have been killed")
            print(f"killed at step {die_at}")
        got = train(directory)
    if got != want:
        sys.exit(f"the losses differ: {got[-1]} after resuming, {want[-1]} without")
    print(f"loss after {STEPS} steps, killed twice: {got[-1]:.6f}, as in the uninterrupted run")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        demonstrate()
    else:
        train(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
