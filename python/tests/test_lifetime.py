"""What an interpreter that ends, forks or is interrupted does to saves under way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_writer import MIB, content, tensors

import dsckpt

PRELUDE = "import sys, torch, dsckpt\nwriter = dsckpt.AsyncWriter(1 << 20)\n"


def run(program: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + program, *args],
        capture_output=True,
        text=True,
        timeout=120,
    )


SAVE = "writer.save({'w': torch.full((1 << 22,), 3.0)}, sys.argv[1], capture='until_fence')\n"


@pytest.mark.parametrize(
    "ending", ["", "sys.exit()\n", "del writer\n", "raise SystemExit(0)\n"], ids=repr
)
def test_c17_the_last_save_before_exit_is_not_lost(tmp_path: Path, ending: str) -> None:
    done = run(SAVE + ending, str(tmp_path / "a"))
    assert (done.returncode, done.stderr) == (0, "")
    assert tensors(tmp_path / "a")["w"] == content(torch.full((1 << 22,), 3.0))


def test_c17_a_failure_at_exit_is_told_and_is_the_exit_status(tmp_path: Path) -> None:
    done = run(SAVE + "print('end')\n", str(tmp_path / "no" / "a"))
    assert done.returncode == 1
    assert done.stdout == "end\n"
    assert f"'{tmp_path / 'no'}' does not exist" in done.stderr


def test_an_exception_of_the_program_keeps_its_own_status(tmp_path: Path) -> None:
    done = run(SAVE + "raise SystemExit(7)\n", str(tmp_path / "a"))
    assert done.returncode == 7
    assert (tmp_path / "a").exists()


def test_a_child_of_multiprocessing_loses_nothing(tmp_path: Path) -> None:
    program = """
import multiprocessing
def child(path):
    dsckpt.AsyncWriter(1 << 20).save({'w': torch.ones(1 << 20)}, path, capture='until_fence')
if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=child, args=(sys.argv[1],))
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""
    done = run(program, str(tmp_path / "a"))
    assert (done.returncode, done.stderr) == (0, "")
    assert tensors(tmp_path / "a")["w"] == content(torch.ones(1 << 20))


def test_a_forked_child_leaves_the_writer_alone(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(1 * MIB) as writer:
        handle = writer.save({"w": torch.ones(1 << 22)}, tmp_path / "a", capture="until_fence")
        child = os.fork()
        if child == 0:
            try:
                writer.save({"w": torch.ones(3)}, tmp_path / "b")
                os._exit(1)
            except dsckpt.DsckptError as error:
                os._exit(0 if "parent process" in str(error) else 2)
        assert os.waitpid(child, 0)[1] == 0
        handle.durable()
    assert {path.name for path in tmp_path.iterdir()} == {"a"}


def test_import_needs_neither_torch_nor_numpy(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
import dsckpt
dsckpt.save({"a": [1, 2.5, None, b"x"], 3: "y"}, sys.argv[1])
from dsckpt import _native
print(_native.File(sys.argv[1]).build([], print, print))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout == "{'a': [1, 2.5, None, b'x'], 3: 'y'}\n"
