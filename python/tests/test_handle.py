"""The handle of a save as a Future: its end, its errors, its callbacks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_checkpoint import on_ranks

import dsckpt
from dsckpt import _native
from dsckpt.prepared import Prepared

STATE = {"w": b"abc" * 1000, "n": 3}
LONG = 60.0
"""Seconds that nothing here takes."""


@pytest.fixture
def writer() -> Iterator[dsckpt.AsyncWriter]:
    with dsckpt.AsyncWriter(1 << 20) as made:
        yield made


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No save is published before it is set."""
    opened, check = threading.Event(), Prepared.before_publish

    def wait(self: Prepared) -> None:
        assert opened.wait(LONG)
        check(self)

    monkeypatch.setattr(Prepared, "before_publish", wait)
    yield opened
    opened.set()


Begin = Callable[[dsckpt.AsyncWriter, Path], dsckpt.SaveHandle]


def begin_file(writer: dsckpt.AsyncWriter, folder: Path) -> dsckpt.SaveHandle:
    return writer.save(STATE, folder / "a")


def begin_checkpoint(writer: dsckpt.AsyncWriter, folder: Path) -> dsckpt.SaveHandle:
    run = dsckpt.Run(folder / "run", writer)
    handle = run.save(1, STATE)
    handle.run = run  # type: ignore[attr-defined]
    return handle


@pytest.mark.parametrize("begin", [begin_file, begin_checkpoint])
def test_a_save_runs_and_then_is_done(
    begin: Begin, writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    handle = begin(writer, tmp_path)
    assert (handle.done(), handle.running(), handle.cancelled()) == (False, True, False)
    for wait in (handle.result, handle.exception):
        with pytest.raises(concurrent.futures.TimeoutError):
            wait(0)
    gate.set()
    assert handle.exception(LONG) is None
    handle.result()
    handle.result(0)
    assert handle.exception() is None
    assert (handle.done(), handle.running(), handle.cancelled()) == (True, False, False)
    assert handle.cancel() is False


def test_a_handle_is_done_after_its_writer_was_waited_for(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    good, bad = writer.save(STATE, tmp_path / "a"), writer.save(STATE, tmp_path / "no" / "a")
    with pytest.raises(dsckpt.DsckptError, match="does not exist"):
        writer.wait()
    assert (good.done(), good.cancelled(), good.exception()) == (True, False, None)
    assert (bad.done(), bad.cancelled()) == (True, False)
    assert "does not exist" in str(bad.exception())
    writer.wait()


@pytest.mark.parametrize("timeout", [None, LONG])
def test_a_failure_is_raised_and_returned(
    writer: dsckpt.AsyncWriter, tmp_path: Path, timeout: float | None
) -> None:
    handle = writer.save(STATE, tmp_path / "no" / "a")
    with pytest.raises(dsckpt.DsckptError, match="does not exist") as caught:
        handle.result(timeout)
    assert (caught.value.code, caught.value.errno) == ("NotFound", 2)
    found = handle.exception(timeout)
    assert isinstance(found, dsckpt.DsckptError)
    assert (found.code, found.path) == ("NotFound", str(tmp_path / "no" / "a"))
    assert (handle.done(), handle.cancelled(), handle.cancel()) == (True, False, False)
    writer.wait()  # Somebody has looked at it.


def test_a_cancelled_save_says_so(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    first = writer.save(STATE, tmp_path / "first")  # Nothing behind it is published.
    handle = writer.save(STATE, tmp_path / "a")
    calls: list[object] = []
    handle.add_done_callback(calls.append)
    assert handle.cancel() is True
    gate.set()
    for wait in (handle.result, handle.exception, handle.durable):
        with pytest.raises(concurrent.futures.CancelledError) as caught:
            wait()
        assert isinstance(caught.value, dsckpt.SaveCancelled)
        assert caught.value.code == "Cancelled"
    assert (handle.done(), handle.cancelled(), handle.cancel()) == (True, True, False)
    assert (first.exception(), first.cancelled()) == (None, False)
    writer.close()
    assert calls == [handle]
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (dsckpt.SaveCancelled, str(caught.value))


def test_a_skipped_save_counts_as_cancelled(gate: threading.Event, tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(1 << 20, max_in_flight=1, when_busy="skip") as writer:
        first, second = writer.save(STATE, tmp_path / "a"), writer.save(STATE, tmp_path / "b")
        with pytest.raises(dsckpt.SaveCancelled):
            second.exception(LONG)
        assert (second.cancelled(), first.done()) == (True, False)
        gate.set()


def test_a_checkpoint_is_cancelled_on_all_ranks(gate: threading.Event, tmp_path: Path) -> None:
    def work(rank: int, coordinator: _native.Coordinator) -> None:
        with (
            dsckpt.AsyncWriter(1 << 20) as writer,
            dsckpt.Run(tmp_path / "run", writer, coordinator=coordinator) as run,
        ):
            handle = run.save(1, STATE)
            if rank == 1:
                assert handle.cancel() is True
                gate.set()
            for wait in (handle.result, handle.exception, handle.durable):
                with pytest.raises(dsckpt.SaveCancelled):
                    wait()
            assert (handle.done(), handle.cancelled(), handle.cancel()) == (True, True, False)
            assert run.checkpoints == []

    on_ranks(2, work)


@pytest.mark.parametrize("watched", [False, True])
def test_a_cancelled_checkpoint_is_no_failure_for_its_run(
    watched: bool, writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    with dsckpt.Run(tmp_path / "run", writer) as run:
        handle = run.save(1, STATE)
        if watched:
            handle.add_done_callback(lambda _: None)
        assert handle.cancel() is True
        gate.set()
        run.wait()
        assert handle.cancelled() is True
        run.save(1, STATE).durable()


def test_a_run_tells_of_a_checkpoint_that_another_rank_cancelled(
    gate: threading.Event, tmp_path: Path
) -> None:
    def work(rank: int, coordinator: _native.Coordinator) -> None:
        with (
            dsckpt.AsyncWriter(1 << 20) as writer,
            dsckpt.Run(tmp_path / "run", writer, coordinator=coordinator) as run,
        ):
            handle = run.save(1, STATE)
            if rank == 0:
                handle.cancel()
                gate.set()
                run.wait()
            else:
                with pytest.raises(dsckpt.SaveCancelled):
                    run.wait()

    on_ranks(2, work)


def test_a_cancelled_save_that_has_failed_is_still_a_failure(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    handle = writer.save(STATE, tmp_path / "no" / "a")
    writer.save(STATE, tmp_path / "a").durable()  # Saves end in their order.
    handle.cancel()
    with pytest.raises(dsckpt.DsckptError, match="does not exist"):
        writer.wait()
    writer.wait()


def test_a_checkpoint_reports_progress(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    handle = begin_checkpoint(writer, tmp_path)
    handle.captured()
    progress = handle.progress()
    assert (progress["captured"], progress["durable"]) == (True, False)
    assert repr(handle).startswith("SaveHandle(captured, ")
    gate.set()
    handle.durable()
    progress = handle.progress()
    assert progress["durable"] is True
    assert progress["flushed_bytes"] == progress["total_bytes"] > 3000
    assert repr(handle).startswith("SaveHandle(durable, ")


@pytest.mark.parametrize("folder", [".", "no"])
def test_callbacks_are_called_once_in_order(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path, folder: str
) -> None:
    handle = writer.save(STATE, tmp_path / folder / "a")
    calls: list[tuple[int, object, bool, str]] = []

    def note(number: int) -> Callable[[dsckpt.SaveHandle], None]:
        return lambda found: calls.append(
            (number, found, found.done(), threading.current_thread().name)
        )

    # A save into a directory that is not there may have failed by now: both are right then.
    handle.add_done_callback(note(1))
    handle.add_done_callback(note(2))
    gate.set()
    handle.exception()
    writer.close()
    here = threading.current_thread().name
    handle.add_done_callback(note(3))
    assert [call[:3] for call in calls] == [(1, handle, True), (2, handle, True), (3, handle, True)]
    assert calls[2][3] == here
    if folder == ".":
        assert [call[3] for call in calls[:2]] == ["dsckpt-watch"] * 2


def test_what_a_callback_raises_is_logged_and_the_next_is_called(
    writer: dsckpt.AsyncWriter,
    gate: threading.Event,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    handle = writer.save(STATE, tmp_path / "a")
    calls: list[object] = []
    handle.add_done_callback(lambda _: 1 / 0)
    handle.add_done_callback(calls.append)
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        gate.set()
        writer.close()
        handle.add_done_callback(lambda _: [].pop())
    raised = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert raised == [ZeroDivisionError, IndexError]
    assert calls == [handle]


def test_a_callback_may_save_wait_and_close(tmp_path: Path) -> None:
    writer = dsckpt.AsyncWriter(1 << 20)
    ended = threading.Event()

    def go_on(found: dsckpt.SaveHandle) -> None:
        found.durable()
        writer.save(STATE, tmp_path / "b").durable()
        writer.wait()
        writer.close()
        ended.set()

    writer.save(STATE, tmp_path / "a").add_done_callback(go_on)
    assert ended.wait(LONG)
    assert dsckpt.load(tmp_path / "b") == STATE


@pytest.mark.parametrize("told_by", ["wait", "fence", "close"])
def test_a_failure_that_only_a_callback_heard_of_is_raised_once(
    tmp_path: Path, told_by: str
) -> None:
    writer = dsckpt.AsyncWriter(1 << 20)
    heard = threading.Event()
    handle = writer.save(STATE, tmp_path / "no" / "a")
    handle.add_done_callback(lambda _: heard.set())
    assert heard.wait(LONG)
    assert handle.done()
    for thread in threading.enumerate():
        if thread.name == "dsckpt-watch":
            thread.join()
    with pytest.raises(dsckpt.DsckptError, match="does not exist"):
        getattr(writer, told_by)()
    writer.fence()
    writer.close()


def test_a_failure_that_a_callback_looked_at_is_not_raised_again(tmp_path: Path) -> None:
    errors: list[object] = []
    with dsckpt.AsyncWriter(1 << 20) as writer:
        handle = writer.save(STATE, tmp_path / "no" / "a")
        handle.add_done_callback(lambda found: errors.append(found.exception()))
    assert ["does not exist" in str(error) for error in errors] == [True]


def test_a_failed_checkpoint_of_which_a_callback_heard_is_raised_by_its_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(_: Prepared) -> None:
        raise ValueError("not to be published")

    monkeypatch.setattr(Prepared, "before_publish", refuse)
    heard = threading.Event()
    with dsckpt.AsyncWriter(1 << 20) as writer, dsckpt.Run(tmp_path / "run", writer) as run:
        run.save(1, STATE).add_done_callback(lambda _: heard.set())
        assert heard.wait(LONG)
        writer.wait()
        with pytest.raises(dsckpt.DsckptError, match="not to be published"):
            run.wait()
        run.wait()


def test_a_tensor_that_changed_too_early_is_no_cancelled_save(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.ones(1 << 20)  # Small ones are copied inside save().
    handle = writer.save({"t": tensor}, tmp_path / "a", capture="until_fence")
    tensor.add_(1)
    gate.set()
    assert isinstance(handle.exception(LONG), dsckpt.ModifiedTooEarly)
    assert handle.cancelled() is False
    writer.fence()


def test_handles_are_awaited_together(writer: dsckpt.AsyncWriter, tmp_path: Path) -> None:
    async def save_all() -> list[Any]:
        handles = [writer.save(STATE, tmp_path / name) for name in ("a", "b", "no/c")]
        return await asyncio.gather(*handles, return_exceptions=True)

    *good, bad = asyncio.run(save_all())
    assert good == [None, None]
    assert bad.code == "NotFound"


def test_awaiting_for_a_time_does_not_cancel(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    handle = writer.save(STATE, tmp_path / "a")

    async def wait() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(handle, 0.01)

    asyncio.run(wait())
    gate.set()
    assert handle.exception() is None


def test_other_threads_run_and_signals_end_the_wait(tmp_path: Path) -> None:
    program = """
import concurrent.futures, os, signal, sys, threading, dsckpt
from dsckpt.prepared import Prepared
signal.signal(signal.SIGINT, signal.default_int_handler)
gate, check = threading.Event(), Prepared.before_publish
Prepared.before_publish = lambda self: (gate.wait(60), check(self))
writer = dsckpt.AsyncWriter(1 << 20)
handle = writer.save({"a": b"x"}, sys.argv[1])
for wait in handle.result, handle.exception, lambda: handle.result(60), handle.durable:
    # The timer's thread needs the GIL while the main thread waits.
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        timer.start()
        wait()
        print("not interrupted")
    except KeyboardInterrupt:
        pass
    timer.join()
gate.set()
handle.result()
print(handle.done(), handle.exception())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True None\n", "")


EXIT = """
import os, sys, threading, dsckpt
from dsckpt.prepared import Prepared
main, check = threading.main_thread(), Prepared.before_publish
# Not published before the program is at its end.
Prepared.before_publish = lambda self: (main.join(60), check(self))
writer = dsckpt.AsyncWriter(1 << 20)
handle = writer.save({"a": b"x"}, sys.argv[1])
def say(*words):  # A whole line at once: two threads do.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
handle.add_done_callback(lambda found: say("called", found.done()))
handle.add_done_callback(lambda found: say(type(found.exception()).__name__))
say("end")
"""


@pytest.mark.parametrize(("folder", "outcome"), [(".", "NoneType"), ("no", "DsckptError")])
def test_callbacks_are_called_before_the_interpreter_ends(
    tmp_path: Path, folder: str, outcome: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXIT, str(tmp_path / folder / "a")], capture_output=True, text=True
    )
    assert sorted(done.stdout.split("\n")) == sorted(["end", "called True", outcome, ""])
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failure_that_nobody_looked_at_is_the_exit_status(tmp_path: Path) -> None:
    program = EXIT.replace("found.exception()", "found")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "no" / "a")], capture_output=True, text=True
    )
    assert "called True" in done.stdout
    assert done.returncode == 1
    assert done.stderr.count("does not exist") == 1


def test_a_forked_child_has_a_handle_that_failed(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    handle = writer.save(STATE, tmp_path / "a")
    calls: list[int] = []
    handle.add_done_callback(lambda _: calls.append(os.getpid()))
    child = os.fork()
    if child == 0:
        signal.alarm(int(LONG))
        status = 1
        try:
            error = handle.exception(LONG)
            late: list[object] = []
            handle.add_done_callback(late.append)
            good = error is not None and "parent process" in str(error)
            good = good and handle.done() and not handle.cancelled() and not handle.cancel()
            status = 0 if good and late == [handle] and calls == [] else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    gate.set()
    writer.close()
    assert calls == [os.getpid()]
    assert handle.exception() is None
