"""fp32 weights out of a checkpoint, whatever number of ranks wrote it."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from dsckpt.checkpoint import MANIFEST, Checkpoint
from dsckpt.errors import DsckptError
from dsckpt.loading import load

from .allow import ALLOWED
from .pieces import MAIN

if TYPE_CHECKING:
    import torch


def fp32_state_dict(
    directory: str | os.PathLike[str], tag: str | None = None, exclude_frozen: bool = False
) -> OrderedDict[str, torch.Tensor] | None:
    """The model's state dict with parameters in the optimizer's precision, on the CPU.

    Args:
        directory: DeepSpeed's `save_dir`.
        tag: Which checkpoint; None: the one that `latest` names.
        exclude_frozen: Leaves out parameters that no optimizer owns.

    Returns:
        What DeepSpeed's function of zero_to_fp32 returns for its own checkpoints; None where no
        dsckpt checkpoint stands.

    Raises:
        dsckpt.DsckptError: The checkpoint is damaged, or does not hold what is asked for.
    """
    if tag is None:
        latest = Path(directory, "latest")
        tag = latest.read_text().strip() if latest.is_file() else None
    if tag is None or not Path(directory, tag, MANIFEST).is_file():
        return None
    return read_fp32(str(Path(directory, tag)), exclude_frozen)


def read_fp32(checkpoint: str, exclude_frozen: bool = False) -> OrderedDict[str, torch.Tensor]:
    """As fp32_state_dict(), given the directory of one checkpoint."""
    whole = Checkpoint(checkpoint)
    mains = sorted(path for path in Path(checkpoint).iterdir() if MAIN.fullmatch(path.name))
    if not mains:
        raise DsckptError(
            f"{checkpoint} has no file of model states that names its parameters: read them with "
            "dsckpt.Checkpoint(...).read('fp32/NAME')",
            "Unsupported",
            checkpoint,
        )
    state = load(mains[0], mmap=True, allow=ALLOWED)
    module, buffers = state["module"], set(state["buffer_names"])
    found: OrderedDict[str, torch.Tensor] = OrderedDict()
    for name, value in module.items():
        if name in buffers:
            found[name] = value.float() if value.is_floating_point() else value.clone()
    if not exclude_frozen:
        for name in state.get("frozen_param_shapes") or ():
            found[name] = whole.read(f"module/{name}")
    for group in state["param_shapes"] or ():
        for name in group:
            found[name] = whole.read(f"fp32/{name}")
    for name, owner in (state["shared_params"] or {}).items():
        if owner in found:
            found[name] = found[owner]
    return found
