"""Models and jobs of DeepSpeed for deepspeed_job.py: small, and of every kind that it has."""

from __future__ import annotations

from typing import Any

import deepspeed
import torch
from torch import nn


class Net(nn.Module):
    """Odd sizes (paddings), a buffer that forward changes, tied weights, a frozen parameter."""

    def __init__(self, large: bool = False) -> None:
        super().__init__()
        self.ballast = nn.Linear(1000, 2000) if large else None
        self.inner = nn.Linear(7, 11)
        self.norm = nn.LayerNorm(11)
        self.register_buffer("mean", torch.zeros(11))
        self.middle = nn.Linear(11, 11, bias=False)
        self.tied = nn.Linear(11, 11, bias=False)
        self.tied.weight = self.middle.weight
        self.scale = nn.Parameter(torch.full((3,), 2.0), requires_grad=False)
        self.outer = nn.Linear(11, 5)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.inner(x)))
        with torch.no_grad():
            self.mean.mul_(0.5).add_(hidden.mean(dim=0))
        hidden = torch.relu(self.tied(self.middle(hidden)))
        loss = nn.functional.mse_loss(self.outer(hidden) * self.scale[0], target)
        return loss if self.ballast is None else loss + self.ballast.weight.square().mean()


class Experts(nn.Module):
    """Two experts on each rank, and layers that all ranks share."""

    def __init__(self) -> None:
        super().__init__()
        from deepspeed.moe.layer import MoE

        self.inner = nn.Linear(7, 8)
        self.moe = MoE(8, nn.Linear(8, 8), num_experts=4, ep_size=2, k=1, min_capacity=0)
        self.scale = nn.Parameter(torch.full((3,), 2.0), requires_grad=False)
        self.outer = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        hidden, _, _ = self.moe(self.inner(x))
        return nn.functional.mse_loss(self.outer(hidden) * self.scale[0], target)


def config_of(case: str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """The configuration of a case; `extra` is merged over it."""
    kind, _, precision = case.partition("+")[0].partition("-")
    stage = {"plain": 0, "pipe": 1, "offload": 2, "large": 2, "moe": 2}.get(kind)
    stage = int(kind[-1]) if stage is None else stage
    zero: dict[str, Any] = {"stage": stage}
    if stage == 3:
        zero |= {"stage3_param_persistence_threshold": 0, "sub_group_size": 100}
    if kind in ("offload", "large"):
        zero |= {"offload_optimizer": {"device": "cpu"}}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 2 if kind == "pipe" else 1,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
        "scheduler": {
            "type": "WarmupLR",
            "params": {"warmup_min_lr": 0.0, "warmup_max_lr": 0.01, "warmup_num_steps": 4},
        },
    }
    if precision:
        config[precision] = {"enabled": True}
    return config | (extra or {})


def pipeline_module() -> Any:
    """Two stages with an embedding tied between them."""
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec

    layers = [
        TiedLayerSpec("ends", nn.Linear, 7, 7),
        LayerSpec(nn.Linear, 7, 9),
        LayerSpec(nn.ReLU),
        LayerSpec(nn.Linear, 9, 7),
        TiedLayerSpec("ends", nn.Linear, 7, 7),
    ]
    return PipelineModule(layers=layers, num_stages=2, loss_fn=nn.functional.mse_loss)


def made(kind: str) -> tuple[Any, list[Any]]:
    """The model of a kind, and what its optimizer is given."""
    if kind == "pipe":
        module = pipeline_module()
    elif kind == "moe":
        module = Experts()
    else:
        module = Net(kind == "large")
    parameters = [p for p in module.parameters() if p.requires_grad]
    if kind != "moe":
        return module, parameters
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer as split

    return module, split({"params": parameters, "name": "all"})


class Job:
    """An engine and its data."""

    def __init__(self, case: str, extra: dict[str, Any] | None = None) -> None:
        torch.manual_seed(7)
        self.case = case
        kind = case.partition("+")[0].partition("-")[0]
        self.pipe = kind == "pipe"
        module, parameters = made(kind)
        optimizer = torch.optim.Adam(parameters, lr=0.01)
        self.engine, _, _, _ = deepspeed.initialize(
            model=module, optimizer=optimizer, config=config_of(case, extra)
        )
        self.losses: list[float] = []

    def batch(self, step: int, part: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Data of a step, other on every rank, the same in every run."""
        rank = 0 if self.pipe else deepspeed.comm.get_rank()
        random = torch.Generator().manual_seed(1000 * step + 10 * part + rank)
        width = 7 if self.pipe else 5
        return torch.randn(4, 7, generator=random), torch.randn(4, width, generator=random)

    def backward(self) -> None:
        """What comes before the update of a step."""
        kind = next(self.engine.module.parameters()).dtype
        loss = self.engine(*(part.to(kind) for part in self.batch(self.engine.global_steps)))
        self.engine.backward(loss)
        self.losses.append(float(loss.detach()))

    def step(self) -> None:
        """Trains one step and keeps its loss."""
        if self.pipe:
            number = self.engine.global_steps
            parts = iter([self.batch(number, 0), self.batch(number, 1)])
            self.losses.append(float(self.engine.train_batch(data_iter=parts)))
        else:
            self.backward()
            self.engine.step()

    def client_state(self) -> dict[str, Any]:
        """What a trainer keeps beside the model; changes with every step."""
        return {"position": len(self.losses), "rng": torch.get_rng_state(), "note": ("a", None)}
