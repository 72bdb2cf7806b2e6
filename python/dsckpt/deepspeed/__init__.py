"""dsckpt as DeepSpeed's checkpoint engine. See docs/how-to/deepspeed.md.

DeepSpeed itself is imported when an engine is made, not here.
"""

from __future__ import annotations

from .consolidate import fp32_state_dict
from .engine import CheckpointEngine
from .patches import apply_all as apply_patches
from .service import drain, fence

__all__ = ["CheckpointEngine", "apply_patches", "drain", "fence", "fp32_state_dict"]
