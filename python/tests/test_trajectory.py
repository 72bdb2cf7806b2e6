"""Many checkpoints of a run as one thing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dsckpt
from dsckpt import tools


def _weights(step: int) -> dict[str, Any]:
    return {
        "layers": [
            {"up": np.full((3, 4), step, np.float32), "down": np.full(6, 7, np.float32)},
            {"up": np.arange(4).astype(ml_dtypes.bfloat16) + step},
        ]
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for step in (20, 0, 10):
        path = tmp_path / "run" / f"step{step}.dsckpt"
        path.parent.mkdir(exist_ok=True)
        dsckpt.save(_weights(step), path, attributes={"step": step, "loss": 1 / (step + 1)})
    return tmp_path / "run"


def _digest(path: Path, name: str) -> str:
    with dsckpt.open(path) as file:
        found = file.digest(name)
    assert found is not None
    return found


def test_what_indexes_say(run: Path) -> None:
    trajectory = dsckpt.Trajectory(run)
    assert trajectory.steps == [0, 10, 20]
    assert trajectory.paths[1] == str(run / "step10.dsckpt")
    assert trajectory.names == ["layers/0/down", "layers/0/up", "layers/1/up"]
    assert trajectory.attributes[2] == {"step": 20, "loss": 1 / 21}
    assert trajectory.skipped == []
    sizes = sum(path.stat().st_size for path in run.iterdir())
    assert 0 < trajectory.index_bytes <= sizes
    assert "layers/0/up" in trajectory
    assert "layers/9/up" not in trajectory
    with pytest.raises(KeyError):
        trajectory["layers/9/up"]


def test_digests_are_an_array(run: Path) -> None:
    trajectory = dsckpt.Trajectory(run)
    digests = trajectory.digests("layers/0/*")
    assert trajectory.matching("layers/0/*") == ["layers/0/down", "layers/0/up"]
    assert digests.shape == (3, 2)
    assert digests.dtype == np.dtype("V16")
    assert (digests[:, 0] == digests[0, 0]).all()
    assert len(set(digests[:, 1].tolist())) == 3
    assert digests[1, 1].tobytes().hex() == _digest(run / "step10.dsckpt", "layers/0/up")
    tree = subprocess.run(
        [tools.program(), "hash", "--tree", run / "step10.dsckpt"], capture_output=True, text=True
    )
    assert trajectory.tree_digests[1] == tree.stdout[:32]


def test_a_tensor_over_the_steps(run: Path) -> None:
    up = dsckpt.Trajectory(run)["layers/0/up"]
    assert len(up) == 3
    assert up.shape == (3, 4)
    assert up.dtype == "F32"
    assert up.forms == 1
    assert up[1].tolist() == [[10.0] * 4] * 3
    assert up[-1][0, 0] == 20
    assert up[2, 1:, 0].tolist() == [20, 20]
    assert up[:, 0, :2].tolist() == [[0, 0], [10, 10], [20, 20]]
    assert up.at(step=20)[0, 0] == 20
    assert [(step, float(x[0, 0])) for step, x in up] == [(0, 0), (10, 10), (20, 20)]
    assert not up[0].flags.owndata
    assert not up[0].flags.writeable
    for wrong in (3, -4):
        with pytest.raises(IndexError):
            up[wrong]
    with pytest.raises(KeyError):
        up.at(step=5)
    small = dsckpt.Trajectory(run)["layers/1/up"]
    assert small[1].dtype == ml_dtypes.bfloat16
    assert small[1].tolist() == [10, 11, 12, 13]


def test_views_outlive_the_trajectory(run: Path) -> None:
    values = dsckpt.Trajectory(run, max_open_files=1)["layers/0/up"][2]
    (run / "step20.dsckpt").unlink()
    assert (values == 20).all()


def test_lists_patterns_and_steps(run: Path, tmp_path: Path) -> None:
    assert dsckpt.Trajectory(f"{run}/step[12]*.dsckpt").steps == [10, 20]
    assert dsckpt.Trajectory([f"{run}@20", f"{run}@-3"]).steps == [0, 20]
    given = dsckpt.Trajectory({7: run / "step0.dsckpt", 3: run / "step20.dsckpt"})
    assert given.steps == [3, 7]
    assert given["layers/0/up"][0][0, 0] == 20
    with pytest.raises(dsckpt.DsckptError, match="no path matches"):
        dsckpt.Trajectory(f"{tmp_path}/nothing*")
    with pytest.raises(dsckpt.DsckptError, match="next to it are 10 and 20"):
        dsckpt.Trajectory([f"{run}@15"])


def test_plain_safetensors_have_no_digests(run: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for step in (1, 2):
        dsckpt.save_safetensors({"x": np.full(3, step)}, plain / f"model-step{step}.safetensors")
    trajectory = dsckpt.Trajectory(plain)
    assert trajectory.steps == [1, 2]
    assert trajectory.tree_digests == [None, None]
    assert not np.frombuffer(trajectory.digests().tobytes(), np.uint8).any()
    assert [x.tolist() for _, x in trajectory["x"]] == [[1] * 3, [2] * 3]


def test_a_tensor_that_some_lack(run: Path) -> None:
    dsckpt.save({"more": np.zeros(2)}, run / "step30.dsckpt", attributes={"step": 30})
    trajectory = dsckpt.Trajectory(run)
    assert [step for step, _ in trajectory["more"]] == [30]
    with pytest.raises(KeyError, match="has no tensor 'more'"):
        trajectory["more"][0]
    kinds = [(event.kind, event.step, event.name) for event in trajectory.events()]
    assert ("added", 30, "more") in kinds
    assert ("removed", 30, "layers/0/up") in kinds


def test_events_and_the_document_of_trace(run: Path) -> None:
    events = dsckpt.Trajectory(run).events()
    assert [(event.kind, event.name) for event in events] == [("frozen", "layers/0/down")]
    document = dsckpt.trace(run, exclude="*/down")
    assert document["events"] == []
    assert [row["name"] for row in document["rows"]] == ["layers/0/up"] * 3 + ["layers/1/up"] * 3
    assert document["steps"][1]["changed"] == 2


def test_functions_take_checkpoints_of_a_run(run: Path, tmp_path: Path) -> None:
    assert dsckpt.inspect(f"{run}@10")["path"] == str(run / "step10.dsckpt")
    assert dsckpt.verify(f"{run}@-1").ok
    dsckpt.merge(f"{run}@latest", tmp_path / "one.dsckpt")
    with dsckpt.open(tmp_path / "one.dsckpt") as file:
        assert file["layers/0/up"].numpy()[0, 0] == 20
