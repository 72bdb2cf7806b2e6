"""Paths of every kind: bytes, not UTF-8, relative, taken for options, no files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import dsckpt

STATE = {"w": torch.ones(3)}
ODD = os.fsdecode(b"odd-\xff")


def test_bytes(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "a")
    dsckpt.save(STATE, path)  # type: ignore[arg-type]
    assert dsckpt.load(path)["w"].tolist() == [1, 1, 1]  # type: ignore[arg-type]


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / ODD
    events: list[str] = []
    with dsckpt.AsyncWriter(1 << 20, on_event=lambda _, message: events.append(message)) as writer:
        writer.save(STATE, path).durable()
        missing = writer.save(STATE, path / "no" / "a")
        with pytest.raises(dsckpt.DsckptError, match="Not a directory"):
            missing.durable()
        run = dsckpt.Run(tmp_path / ("run" + ODD), writer)
        run.save(7, STATE).durable()
        run.close()
    assert len(events) == 1
    assert r"odd-\xff" in events[0]
    assert dsckpt.load(path)["w"].tolist() == [1, 1, 1]
    assert dsckpt.open(path).path == str(path)
    assert dsckpt.verify(path)
    assert dsckpt.verify(run.path)
    found = run.latest()
    assert found is not None
    assert found.step == 7
    assert run.checkpoints[0].step == 7


def test_a_run_stays_where_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = dsckpt.Run("run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run.save(1, STATE).durable()
    run.close()
    assert run.latest() is not None
    assert (tmp_path / "run").is_dir()
    assert not (tmp_path / "elsewhere" / "run").exists()


def test_names_that_look_like_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dsckpt.save(STATE, "-a")
    assert dsckpt.inspect("-a")["schema"] == "dsckpt.inspect/1"
    dsckpt.merge("-a", "--b")
    assert dsckpt.load("--b")["w"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("mmap", [True, False])
def test_a_pipe_does_not_block(mmap: bool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(dsckpt.DsckptError, match="FIFO"):
        dsckpt.load(tmp_path / "pipe", mmap=mmap)
