"""Classes of DeepSpeed that checkpoints hold objects of, each looked at.

They are plain data: making one, or setting its attributes, calls nothing that a file could choose.
"""

from __future__ import annotations

import importlib

REVIEWED = (
    "argparse.Namespace",
    "deepspeed.checkpoint.universal_checkpoint.SubparamShape",
    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
    "deepspeed.runtime.zero.config.ZeroStageEnum",
    "deepspeed.utils.tensor_fragment.fragment_address",
)

# What instances of these hold, by the name that a pickle gives it.
_VALUES = ("float16", "float32", "float64", "bfloat16", "device", "Size")

ALLOWED = (*REVIEWED, *(f"torch.{name}" for name in _VALUES))


def resolve(names: tuple[str, ...]) -> list[type]:
    """The classes that are called so; those that this installation lacks are left out."""
    return [cls for cls in map(_find, names) if isinstance(cls, type)]


def _find(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        return None
