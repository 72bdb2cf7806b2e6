"""CUDA streams, as the native library takes them: their handles. Imports no torch."""

from __future__ import annotations

import sys
from typing import Any


def in_use() -> bool:
    """Whether this process has used CUDA through torch."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def current(device: int) -> int:
    """This thread's stream of a device."""
    torch: Any = sys.modules["torch"]
    stream: int = torch.cuda.current_stream(device).cuda_stream
    return stream


def all_current() -> list[int]:
    """This thread's streams of all devices; none where CUDA is not in use."""
    torch: Any = sys.modules.get("torch")
    return [current(device) for device in range(torch.cuda.device_count())] if in_use() else []
