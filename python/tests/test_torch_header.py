"""include/dsckpt/torch.h against the headers of the PyTorch that is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
HEADERS = Path(torch.__file__).parent / "include"
COMPILER = shutil.which("c++")


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
@pytest.mark.skipif(not HEADERS.exists(), reason="PyTorch without headers")
def test_the_example_compiles() -> None:
    assert COMPILER is not None
    includes = [HEADERS, HEADERS / "torch" / "csrc" / "api" / "include"]
    command = [COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{ROOT / 'include'}", *(f"-isystem{path}" for path in includes)]
    command.append(str(ROOT / "examples" / "libtorch.cc"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
