"""Run directories: what is saved, found, rolled back, and lost never."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from test_checkpoint import MIB

import dsckpt
from dsckpt.run import Run


def test_run_saves_and_finds(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    assert run.latest() is None
    assert run.checkpoints == []
    with dsckpt.AsyncWriter(4 * MIB) as writer:
        # Old checkpoints go after the new one is announced: at close() at the latest.
        with Run(tmp_path / "run", writer, keep_last=2, keep=[1]) as saving:
            for step in (1, 2, 3, 4):
                state = {"w": torch.full((4,), float(step)), "o": [step]}
                saving.save(step, state, attributes={"loss": 0.5}).durable()
        assert [(c.name, c.step, c.shards) for c in run.checkpoints] == [
            ("step-0000000001", 1, 1),
            ("step-0000000003", 3, 1),
            ("step-0000000004", 4, 1),
        ]
        latest = run.latest()
        assert latest is not None
        assert (latest.step, latest.attributes) == (4, {"step": 4, "loss": 0.5})
        assert run.by_step(3).load()["o"] == [3]
        with pytest.raises(dsckpt.DsckptError) as caught:
            run.by_step(2)
        assert caught.value.code == "NotFound"
        with Run(tmp_path / "run", writer) as saving:
            with pytest.raises(dsckpt.DsckptError) as caught:
                saving.save(4, {}).durable()
            assert caught.value.code == "AlreadyExists"
            saving.save(4, {"new": 1}, replace=True).durable()
            assert run.by_step(4).load() == {"new": 1}
            saving.save(5, {"n": 1}, name="best").durable()
            assert dsckpt.load(tmp_path / "run" / "best") == {"n": 1}


def test_run_makes_a_writer_of_its_own(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    handle = run.save(1, {"w": torch.ones(2)}, encoding="zstd")
    run.close()
    handle.durable()
    assert dsckpt.load(tmp_path / "run")["w"].tolist() == [1, 1]
    run.close()


@pytest.mark.parametrize("ending", ["", "writer.close()", "del run, writer"])
def test_a_program_that_ends_loses_nothing(ending: str, tmp_path: Path) -> None:
    code = f"""
import sys, torch, dsckpt
writer = dsckpt.AsyncWriter(4 << 20)
run = dsckpt.Run(sys.argv[1], writer)
run.save(1, {{"w": torch.ones(1 << 20)}})
run.save(2, {{"w": torch.ones(1 << 20) * 2}})
{ending}
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True)
    assert dsckpt.load(tmp_path / "run")["w"].unique().tolist() == [2]


def test_a_program_whose_last_checkpoint_fails_says_so(tmp_path: Path) -> None:
    code = """
import sys, dsckpt
run = dsckpt.Run(sys.argv[1])
run.save(1, {}).durable()
run.save(1, {})
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True
    )
    assert ran.returncode == 1, ran.stderr
    assert "step-0000000001" in ran.stderr


def test_a_dropped_run_frees_its_directory(tmp_path: Path) -> None:
    state = {"w": torch.ones(4)}
    run: Run | None = Run(tmp_path / "run")
    assert run is not None
    run.save(1, state)
    run = Run(tmp_path / "run")  # As in a notebook: nobody closed the one before.
    run.save(2, state).durable()
    assert [entry.step for entry in run.checkpoints] == [1, 2]
    circle: list[Any] = [run]
    circle.append(circle)  # One that only the collector of garbage can drop.
    run = None
    del circle
    with Run(tmp_path / "run") as last:
        last.save(3, state).durable()
        assert [entry.step for entry in last.checkpoints] == [1, 2, 3]
        other = Run(tmp_path / "run")  # While one is in use, another is still refused.
        with pytest.raises(dsckpt.DsckptError, match="close it") as caught:
            other.save(4, state)
        assert caught.value.code == "FailedPrecondition"


def test_a_run_is_closed_again_after_a_signal(tmp_path: Path) -> None:
    code = """
import os, signal, sys, threading, dsckpt
from dsckpt.prepared import Prepared
signal.signal(signal.SIGINT, signal.default_int_handler)  # Shells may ignore it.
gate, check = threading.Event(), Prepared.before_publish
Prepared.before_publish = lambda self: (gate.wait(60), check(self))
run = dsckpt.Run(sys.argv[1])
run.save(1, {"n": 1})
timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    timer.start()
    run.close()
    print("not interrupted")
except KeyboardInterrupt:
    pass
timer.join()
gate.set()
run.close()
with dsckpt.Run(sys.argv[1]) as other:
    other.save(2, {"n": 2}).durable()
print([entry.step for entry in other.checkpoints])
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[1, 2]\n", "")


def test_roll_back(tmp_path: Path) -> None:
    def state(value: int) -> dict[str, Any]:
        return {"w": torch.full((2,), float(value))}

    with Run(tmp_path / "run", keep_last=2) as run:
        for step in (3, 7, 8):
            run.save(step, state(step), replace=False).durable()
        with pytest.raises(dsckpt.DsckptError, match="roll the run back") as caught:
            run.save(8, state(0))
        assert caught.value.code == "AlreadyExists"
        assert run.roll_back(7).step == 7
        found = run.latest()
        assert found is not None
        assert found.step == 7
        assert [(c.step, c.serial, c.abandoned) for c in run.checkpoints][-2:] == [
            (7, 2, False),
            (8, 3, True),
        ]
        run.save(4, state(4)).durable()
        found = run.latest()
        assert found is not None
        assert found.step == 4
        run.save(8, state(80)).durable()
        found = run.latest()
        assert found is not None
        assert torch.equal(found.load()["w"], state(80)["w"])
    # The last save may remove others behind its answer: at close() it has.
    assert [(c.step, c.abandoned) for c in run.checkpoints] == [(4, False), (8, False)]
    with pytest.raises(dsckpt.DsckptError) as caught:
        Run(tmp_path / "run").roll_back(7)
    assert caught.value.code == "NotFound"
    # From outside, while no job is alive.
    assert Run(tmp_path / "run").roll_back(4).step == 4


def test_a_run_has_one_step(tmp_path: Path) -> None:
    with Run(tmp_path / "run") as run:
        with pytest.raises(dsckpt.DsckptError, match=r"'step' is 6, but .* step 5") as caught:
            run.save(5, {"w": torch.ones(1)}, attributes={"step": 6})
        assert caught.value.code == "InvalidArgument"
        run.save(5, {"w": torch.ones(1)}, attributes={"step": 5, "loss": 0.5}).durable()
        assert [entry.step for entry in run.checkpoints] == [5]


def test_latest_is_found_where_a_crash_left_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with Run(path) as run:
        run.save(1, {"w": torch.ones(2)}).durable()
    # A replacement of it that stopped between its renames.
    (path / "step-0000000001").rename(path / "step-0000000001.replaced-0011-6")
    assert Run(path).checkpoints == []
    found = Run(path).latest()
    assert found is not None
    assert found.load()["w"].tolist() == [1, 1]
    assert dsckpt.load(path)["w"].tolist() == [1, 1]
    (path / "latest").unlink()
    assert Run(path).latest() is None
    assert Run(tmp_path / "none").latest() is None
