"""What DeepSpeed imports when its configuration has `"datastates_ckpt"`.

Importing it repairs DeepSpeed's adapter (`dsckpt.deepspeed.patches`); nothing else has to be done.
"""

from __future__ import annotations

from dsckpt.deepspeed import CheckpointEngine, apply_patches, drain, fence

__all__ = ["CheckpointEngine", "drain", "fence"]

apply_patches()
