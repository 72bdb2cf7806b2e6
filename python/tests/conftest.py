"""Files that tests of reading share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsckpt


@pytest.fixture
def state() -> dict[str, Any]:
    # Not every environment of the tests has it.
    torch = pytest.importorskip("torch")
    return {
        "model": {"w": torch.arange(24.0).reshape(2, 3, 4), "b": torch.ones(3).bfloat16()},
        "array": np.arange(5, dtype="i2"),
        "step": 7,
        "names": ("x", None),
    }


@pytest.fixture
def path(state: dict[str, Any], tmp_path: Path) -> Path:
    file = tmp_path / "state.dsckpt"
    dsckpt.save(state, file, attributes={"step": 7}, metadata={"who": "test"})
    return file
