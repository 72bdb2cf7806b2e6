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


def test_an_interpreter_whose_last_save_fails_ends_like_any_other(tmp_path: Path) -> None:
    program = """
import atexit, sys, tempfile, weakref
class Finalized:
    def __del__(self):
        sys.stdout.write("finalized,")
atexit.register(print, "first in, last out", end=",")
kept = Finalized()
sys.stdout.write("buffered,")
"""
    done = subprocess.run(
        [sys.executable, "-c", program + PRELUDE + SAVE, str(tmp_path / "no" / "a")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "buffered,first in, last out,finalized,")
    assert done.stderr.count("does not exist") == 1


@pytest.mark.parametrize("folder", [".", "no"])
def test_an_exception_of_the_program_keeps_its_own_status(tmp_path: Path, folder: str) -> None:
    done = run(SAVE + "raise SystemExit(7)\n", str(tmp_path / folder / "a"))
    assert done.returncode == 7
    assert (tmp_path / "a").exists() == (folder == ".")
    assert ("does not exist" in done.stderr) == (folder == "no")


def test_a_dropped_writer_is_closed_at_exit_where_no_thread_can_start(tmp_path: Path) -> None:
    program = """
import _thread
def refuse(*_):
    raise RuntimeError("can't start new thread")
_thread.start_new_thread = refuse
del writer
from dsckpt import lifetime
lifetime.wait_for_dropped()
print("end")
"""
    done = run(SAVE + program, str(tmp_path / "a"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert tensors(tmp_path / "a")["w"] == content(torch.full((1 << 22,), 3.0))


CHILD = """
import multiprocessing
def child(path, ending):
    dsckpt.AsyncWriter(1 << 20).save({'w': torch.ones(1 << 20)}, path, capture='until_fence')
    exec(ending)
if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=child, args=sys.argv[1:])
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


def test_a_child_of_multiprocessing_loses_nothing(tmp_path: Path) -> None:
    done = run(CHILD, str(tmp_path / "a"), "")
    assert (done.returncode, done.stderr) == (0, "")
    assert tensors(tmp_path / "a")["w"] == content(torch.ones(1 << 20))


@pytest.mark.parametrize(
    ("ending", "status"), [("", 1), ("sys.exit()", 1), ("sys.exit(7)", 7), ("1 / 0", 1)]
)
def test_a_child_of_multiprocessing_tells_of_a_failure(
    tmp_path: Path, ending: str, status: int
) -> None:
    done = run(CHILD, str(tmp_path / "no" / "a"), ending)
    assert done.returncode == status
    assert "does not exist" in done.stderr
    assert ("ZeroDivisionError" in done.stderr) == (ending == "1 / 0")


def test_nothing_in_the_package_ends_the_process() -> None:
    files = list(Path(dsckpt.__file__).parent.rglob("*.py"))
    assert len(files) > 50
    assert [file.name for file in files if "os._exit" in file.read_text()] == []


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


def test_loading_needs_neither_where_there_are_no_tensors(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
import dsckpt
class Tensor: pass
dsckpt.save({"a": [1, {2}], "t": Tensor()}, sys.argv[1])
print(dsckpt.load(sys.argv[1], allow_pickle=True)["a"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[1, {2}]\n", "")


INTERRUPTED = """
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # Shells ignore it for background jobs.
state = {"w": torch.randn(1 << 25)}  # Slow to write: compressed.
def interrupted(call):
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        call()
        print("not interrupted")
    except KeyboardInterrupt:
        pass
    timer.join()
"""


def test_a_signal_ends_a_blocking_save_and_nothing_reads_on(tmp_path: Path) -> None:
    program = (
        INTERRUPTED
        + """
interrupted(lambda: dsckpt.save(state, sys.argv[1], encoding="zstd"))
print(os.listdir(os.path.dirname(sys.argv[1])))
"""
    )
    done = run(program, str(tmp_path / "a"))
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_signal_ends_a_wait_but_not_the_save(tmp_path: Path) -> None:
    program = (
        INTERRUPTED
        + """
from dsckpt.prepared import Prepared
gate, check = threading.Event(), Prepared.before_publish
Prepared.before_publish = lambda self: (gate.wait(60), check(self))
handle = writer.save({"w": torch.ones(3)}, sys.argv[1])
for wait in handle.durable, writer.wait, writer.close:
    interrupted(wait)
gate.set()
"""
    )
    done = run(program, str(tmp_path / "a"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "a").exists()


def test_a_writer_closed_while_other_threads_use_it(tmp_path: Path) -> None:
    program = """
import threading
def use(number):
    try:
        while True:
            writer.save({"w": torch.ones(1000)}, f"{sys.argv[1]}{number}", capture="until_fence")
            writer.fence()
    except dsckpt.DsckptError as error:
        assert "closed" in str(error), error
threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
threads[0].join(0.1)
writer.close()
for thread in threads: thread.join()
"""
    done = run(program, str(tmp_path / "a"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow  # On a busy machine the interpreter's end has cut a thread off, once.
def test_a_writer_collected_on_its_own_thread(tmp_path: Path) -> None:
    program = """
import gc
from dsckpt.prepared import Prepared
class Holder: pass
holder = Holder()
holder.itself, holder.writer = holder, writer
gc.disable()
check = Prepared.before_publish
Prepared.before_publish = lambda self: (gc.collect(), check(self))
handle = writer.save({"w": torch.ones(3)}, sys.argv[1])
del holder, writer
handle.durable()
"""
    done = run(program, str(tmp_path / "a"))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_trains_on_while_its_parent_saves(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.ones(3))  # OpenMP's threads are not in the child.
    parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with dsckpt.AsyncWriter(1 * MIB) as writer:
        state = {"w": parameter, "more": torch.ones(1 << 22)}
        writer.save(state, tmp_path / "a", capture="until_fence")
        child = os.fork()
        if child == 0:
            try:
                optimizer.step()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


def test_more_files_of_a_checkpoint_than_saves_in_flight(tmp_path: Path) -> None:
    program = """
from dsckpt import _native
from dsckpt.prepared import Shard
group = _native.CheckpointWriter(writer.native, sys.argv[1])
shards = [Shard(f"{i}.dsckpt", {"w": torch.ones(9)}) for i in range(5)]
prepared = writer.prepare(shards, "raw", "until_fence")
begin = lambda: group.save(1, prepared.shards, on_captured=prepared.before_publish)
writer.submit(prepared, begin).durable()
group.close()
"""
    done = run(program, str(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")


AT_WORK = """
import os, sys, threading
import dsckpt

kind, folder = sys.argv[1:]
state = {"a": bytes(1 << 20), "b": list(range(20_000)), "s": {1, 2}}
dsckpt.save(state, os.path.join(folder, "whole"))
begun = threading.Event()
writer = dsckpt.AsyncWriter(8 << 20) if kind == "AsyncWriter" else None

def work():
    path = os.path.join(folder, str(threading.get_ident()))
    while True:
        if kind == "load":
            dsckpt.load(os.path.join(folder, "whole"))
        elif writer is None:
            dsckpt.save(state, path)
        else:
            writer.save(state, path).durable()
        begun.set()

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
assert begun.wait(60)
"""


@pytest.mark.parametrize("kind", ["save", "AsyncWriter", "load"])
@pytest.mark.parametrize(
    "runs",
    [pytest.param(range(4), id="4"), pytest.param(range(40), id="40", marks=pytest.mark.slow)],
)
def test_threads_at_work_when_the_interpreter_ends(kind: str, runs: range, tmp_path: Path) -> None:
    for _ in runs:
        ran = subprocess.run(
            [sys.executable, "-c", AT_WORK, kind, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr
