"""RUN@STEP, RUN@latest and RUN@-2 wherever a path is read: the rule of the commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsckpt


def _state(step: int) -> dict[str, Any]:
    return {"w": np.full(4, step, np.float32)}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A run of which each checkpoint is a file."""
    (tmp_path / "files").mkdir()
    for step in (20, 0, 10):
        path = tmp_path / "files" / f"step{step}.dsckpt"
        dsckpt.save(_state(step), path, attributes={"step": step})
    return tmp_path / "files"


@pytest.fixture
def directories(tmp_path: Path) -> Path:
    """A run as dsckpt.Run writes it, set back from 30 to 20."""
    with dsckpt.Run(tmp_path / "directories") as run:
        for step in (10, 20, 30):
            run.save(step, _state(step)).durable()
        run.roll_back(20)
    return tmp_path / "directories"


def _loaded(path: str) -> float:
    found = dsckpt.load(path)["w"]
    return float(found[0])


def _filled(path: str) -> float:
    state = {"w": np.zeros(4, np.float32)}
    dsckpt.load_into(state, path)
    return float(state["w"][0])


def _checkpoint(path: str) -> float:
    return float(dsckpt.Checkpoint(path).read("w")[0])


def _mean(path: str) -> float:
    (found,) = dsckpt.stats(path)
    assert found.mean is not None
    return found.mean


_READERS: list[Callable[[str], float]] = [_loaded, _filled, _checkpoint, _mean]


@pytest.mark.parametrize("read", _READERS)
def test_whatever_reads_takes_them(
    files: Path, directories: Path, read: Callable[[str], float]
) -> None:
    assert read(f"{files}@10") == 10
    assert read(f"{files}@-3") == 0
    assert read(f"{files}@latest") == 20
    assert read(f"{directories}@30") == 30
    # What was set back does not count from the end, and is not the latest.
    assert read(f"{directories}@-1") == 20
    assert read(f"{directories}@latest") == 20


@pytest.mark.parametrize("read", [*_READERS, dsckpt.open, dsckpt.File, dsckpt.verify])
def test_errors_are_those_of_the_commands(files: Path, read: Callable[[str], Any]) -> None:
    with pytest.raises(dsckpt.DsckptError, match="next to it are 10 and 20") as found:
        read(f"{files}@15")
    assert found.value.code == "NotFound"
    with pytest.raises(dsckpt.DsckptError, match="behind @ stands a step") as found:
        read(f"{files}@newest")
    assert found.value.code == "InvalidArgument"


@pytest.mark.parametrize("read", [_loaded, _filled, _mean])
def test_a_path_that_exists_stands_for_itself(files: Path, read: Callable[[str], float]) -> None:
    dsckpt.save(_state(77), f"{files}@10")
    assert read(f"{files}@10") == 77
    assert read(f"{files}@20") == 20


def test_open(files: Path, directories: Path) -> None:
    with dsckpt.open(f"{files}@10") as file:
        assert file.path == str(files / "step10.dsckpt")
        assert file["w"].numpy()[0] == 10
    assert dsckpt.File(f"{files}@-1").attributes["step"] == 20
    with pytest.raises(dsckpt.DsckptError, match="step-0000000020 is a directory"):
        dsckpt.open(f"{directories}@latest")


def test_paths_of_other_types(files: Path) -> None:
    assert dsckpt.load(Path(f"{files}@10"))["w"][0] == 10
    assert dsckpt.load(os.fsencode(f"{files}@10"))["w"][0] == 10  # type: ignore[arg-type]


def test_two_steps_differ(files: Path) -> None:
    (found,) = dsckpt.diff(f"{files}@10", f"{files}@latest")
    assert found.state == "changed"
    assert found.difference is not None
    assert found.difference.max_abs == 10


def test_conversions_take_them(files: Path, tmp_path: Path) -> None:
    out = dsckpt.convert.convert(f"{files}@10", tmp_path / "out.safetensors")
    assert dsckpt.open(out)["w"].numpy()[0] == 10


def test_models_and_the_latest_of_a_run(directories: Path, tmp_path: Path) -> None:
    for step in (1, 2):
        model = tmp_path / "models" / f"checkpoint-{step}"
        model.mkdir(parents=True)
        dsckpt.save_safetensors(_state(step), model / "model.safetensors")
    assert _loaded(f"{tmp_path}/models@2") == 2
    assert _mean(f"{tmp_path}/models/checkpoint-1") == 1
    assert _mean(str(directories)) == 20
    with pytest.raises(dsckpt.DsckptError, match="give it without @1"):
        dsckpt.load(f"{tmp_path}/models/checkpoint-1@1")


def test_a_save_that_is_under_way_is_waited_for(files: Path) -> None:
    from dsckpt import pending

    asked: list[str] = []
    pending.register(asked.append)
    try:
        dsckpt.load(f"{files}@10")
    finally:
        pending._settlers.remove(asked.append)
    assert str(files) in asked
