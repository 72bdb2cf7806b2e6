"""The examples that measure one run with several processes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import dsckpt

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    random = np.random.default_rng(2)
    for step in (0, 100, 200, 300):
        state = {f"layers.{i}.w": random.standard_normal((20, 10 + i)) for i in range(8)}
        state["layers.3.w"][1, 2] = np.nan if step == 200 else 0
        path = tmp_path / "run" / f"step{step}.dsckpt"
        path.parent.mkdir(exist_ok=True)
        dsckpt.save(state, path, attributes={"step": step})
    return tmp_path / "run"


@pytest.mark.slow
@pytest.mark.parametrize("library", ["dask", "ray"])
def test_workers_have_the_bits_of_one_process(library: str, run: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("distributed" if library == "dask" else library) is None:
        pytest.skip(f"{library} is not installed")
    package = Path(dsckpt.__file__).parents[1]
    out = tmp_path / "updates.parquet"
    # Names of sockets are short.
    with tempfile.TemporaryDirectory() as short:
        environment = {"PYTHONPATH": str(package), "RAY_USAGE_STATS_ENABLED": "0"}
        found = subprocess.run(
            [sys.executable, EXAMPLES / f"trace_{library}.py", run, "-o", out, "--workers", "2"],
            capture_output=True,
            text=True,
            timeout=200,
            cwd=tmp_path,
            env={**os.environ, **environment, "RAY_TMPDIR": short},
        )
    assert found.returncode == 0, found.stderr
    assert "32 rows of 4 checkpoints" in found.stdout
    from pyarrow import parquet

    whole = pyarrow.table(dsckpt.Trajectory(run).updates())
    written = parquet.read_table(out)
    assert written.schema.equals(whole.schema)
    assert written.equals(whole)
    assert whole["nan"].to_pylist().count(1) == 1
