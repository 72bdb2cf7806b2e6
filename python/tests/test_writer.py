"""AsyncWriter: handles, order, errors, options."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

import dsckpt
from dsckpt import _native
from dsckpt.prepared import Prepared

MIB = 1 << 20


def tensors(path: Path) -> dict[str, bytes]:
    file = _native.File(str(path))
    return {info[0]: bytes(file.view(info[0])[0]) for info in file.tensors()}


def content(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def test_save_blocks_until_the_file_stands(tmp_path: Path) -> None:
    weight = torch.randn(300, 1000)
    dsckpt.save({"w": weight, "step": 3}, tmp_path / "a", attributes={"loss": 0.5})
    assert tensors(tmp_path / "a") == {"w": content(weight)}
    file = _native.File(str(tmp_path / "a"))
    assert file.attributes() == {"loss": 0.5}
    assert file.build(["W"], lambda *_: None, lambda *_: None) == {"w": "W", "step": 3}


def test_strided_tensors_are_stored_by_value(tmp_path: Path) -> None:
    base = torch.arange(4 * 3 * 5 * 7, dtype=torch.float32).reshape(4, 3, 5, 7)
    state = {
        "t": base.transpose(1, 3),
        "last": base.to(memory_format=torch.channels_last),
        "expanded": base[0, 0, 0].expand(9, 7),
        "step": base[::2, :, 1::2],
        "flipped": base.flip(0),
    }
    dsckpt.save(state, tmp_path / "a")
    assert tensors(tmp_path / "a") == {name: content(value) for name, value in state.items()}


def test_c14_a_small_tensor_keeps_the_value_it_had_at_the_call(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(16 * MIB) as writer:
        step, weight = torch.tensor(1.0), torch.ones(1_000_000)
        handle = writer.save({"step": step, "w": weight}, tmp_path / "a")
        step.fill_(2)
        weight.fill_(2)  # Not known to be lazy: captured inside save() as well.
        handle.durable()
    found = tensors(tmp_path / "a")
    assert found["step"] == content(torch.tensor(1.0))
    assert found["w"] == content(torch.ones(1_000_000))


def test_handle_reports_progress_and_can_be_awaited(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(16 * MIB) as writer:

        async def run() -> None:
            await writer.save({"w": torch.ones(MIB)}, tmp_path / "a")

        asyncio.run(run())
        handle = writer.save({"w": torch.ones(MIB)}, tmp_path / "b")
        handle.captured()
        handle.durable()
        progress = handle.progress()
        assert progress is not None
        assert progress["flushed_bytes"] == progress["total_bytes"]
        assert repr(handle).startswith("SaveHandle(durable, 4,")
        assert progress["durable"] is True
        assert progress["captured_bytes"] == 4 * MIB
        assert writer.statistics()["saves_durable"] == 2


def test_a_failure_is_raised_by_its_handle_with_path_and_errno(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(16 * MIB) as writer:
        handle = writer.save({"w": torch.ones(3)}, tmp_path / "no" / "a")
        with pytest.raises(dsckpt.DsckptError, match="does not exist") as caught:
            handle.durable()
        assert (caught.value.code, caught.value.errno) == ("NotFound", 2)
        assert caught.value.path == str(tmp_path / "no" / "a")
        writer.save({"w": torch.ones(3)}, tmp_path / "b").durable()


def test_c18_an_error_nobody_looked_at_is_raised_once_by_a_fence(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(16 * MIB) as writer:
        writer.save({"w": torch.ones(3)}, tmp_path / "no" / "a")
        with pytest.raises(dsckpt.DsckptError, match="does not exist"):
            writer.wait()
        writer.wait()
        writer.fence()


def test_what_cannot_be_saved_names_its_place(tmp_path: Path) -> None:
    state = {"model": [torch.zeros(2), torch.zeros(2, device="meta")]}
    with pytest.raises(dsckpt.DsckptError, match=r"\['model'\]\[1\].*meta"):
        dsckpt.save(state, tmp_path / "a")
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(dsckpt.DsckptError, match="holds itself"):
        dsckpt.save({"loop": loop}, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


class Holder(dict):  # type: ignore[type-arg]
    """Can be referred to weakly, which a dict cannot."""


def test_nothing_of_the_state_is_kept_once_it_was_read(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(16 * MIB) as writer:
        storage = torch.ones(MIB)
        seen = weakref.ref(storage)
        holder = Holder()
        seen_holder = weakref.ref(holder)
        writer.save({"w": storage, "h": [holder]}, tmp_path / "a", capture="until_fence").durable()
        writer.fence()
        del storage, holder
        gc.collect()
        assert seen() is None
        assert seen_holder() is None


def test_tensors_live_until_they_are_read(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(1 * MIB) as writer:
        handle = writer.save(
            {"w": torch.full((8 * MIB,), 7.0)}, tmp_path / "a", capture="until_fence"
        )
        torch.full((8 * MIB,), 9.0)
        handle.durable()
    assert tensors(tmp_path / "a")["w"] == content(torch.full((8 * MIB,), 7.0))


@pytest.mark.parametrize("encoding", ["raw", "zstd", "byteplane-zstd"])
def test_encodings_keep_every_bit(tmp_path: Path, encoding: str) -> None:
    state = {"w": torch.randn(100_000), "n": torch.arange(1000)}
    dsckpt.save(state, tmp_path / "a", encoding=encoding)
    assert tensors(tmp_path / "a") == {name: content(value) for name, value in state.items()}
    used = {info[0]: info[7] for info in _native.File(str(tmp_path / "a")).tensors()}
    # Byte planes are for floating dtypes.
    assert used == {"w": encoding, "n": "raw" if encoding == "raw" else "zstd"}


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(16 * MIB) as writer:
        with pytest.raises(dsckpt.DsckptError, match="'at_save' or 'until_fence'"):
            writer.save({}, tmp_path / "a", capture="later")  # type: ignore[arg-type]
        with pytest.raises(dsckpt.DsckptError, match="encoding is 'lzma': give one of 'raw'"):
            writer.save({}, tmp_path / "a", encoding="lzma")  # type: ignore[arg-type]
    with pytest.raises(dsckpt.DsckptError, match="closed"):
        writer.save({}, tmp_path / "a")
    with pytest.raises(dsckpt.DsckptError, match="when_busy is 'never': give one of 'wait'"):
        dsckpt.AsyncWriter(16 * MIB, when_busy="never")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["16GB", 1.5, -1, None])
def test_a_pool_is_a_number_of_bytes(size: Any) -> None:
    with pytest.raises(dsckpt.DsckptError, match=r"pool_bytes is .* such as 16 << 30"):
        dsckpt.AsyncWriter(size)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attributes": {"loss": torch.ones(())}}, "'loss' is a torch.Tensor: give .* item"),
        ({"attributes": {1: 2}}, "str keys, not 1"),
        ({"metadata": {"epoch": 1}}, "'epoch': 1, but safetensors takes strings"),
    ],
)
def test_what_goes_beside_the_state_is_checked(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(dsckpt.DsckptError, match=words) as caught:
        dsckpt.save({}, tmp_path / "a", **options)
    assert caught.value.code == "InvalidArgument"
    assert list(tmp_path.iterdir()) == []


def test_skip_when_busy(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(1 * MIB, max_in_flight=1, when_busy="skip") as writer:
        first = writer.save({"w": torch.ones(8 * MIB)}, tmp_path / "a", capture="until_fence")
        second = writer.save({"w": torch.ones(1)}, tmp_path / "b")
        with pytest.raises(dsckpt.DsckptError) as caught:
            second.durable()
        assert caught.value.code == "Cancelled"
        first.durable()


def wait_until_fences_are_free(writer: dsckpt.AsyncWriter) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        before = writer.statistics()["fence_blocked_ns"]
        writer.fence()
        if writer.statistics()["fence_blocked_ns"] == before:
            return
        time.sleep(0.01)
    raise AssertionError("a fence still asks the engine")


@pytest.mark.parametrize("of", ["file", "run"])
def test_a_fence_is_free_again_after_a_save_was_cancelled(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, check = threading.Event(), Prepared.before_publish
    monkeypatch.setattr(Prepared, "before_publish", lambda self: (gate.wait(60), check(self)))
    with dsckpt.AsyncWriter(1 * MIB) as writer, dsckpt.Run(tmp_path / "run", writer) as run:
        state = {"w": torch.ones(9)}
        handle = run.save(1, state) if of == "run" else writer.save(state, tmp_path / "a")
        assert handle.cancel() is True
        gate.set()
        with pytest.raises(dsckpt.SaveCancelled):
            handle.durable()
        wait_until_fences_are_free(writer)
        writer.save(state, tmp_path / "no" / "a")  # What fails later is still told.
        with pytest.raises(dsckpt.DsckptError, match="does not exist"):
            wait_until_fences_are_free(writer)
        wait_until_fences_are_free(writer)


def test_a_fence_is_free_again_after_saves_were_replaced(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(1 * MIB, max_in_flight=2, when_busy="replace") as writer:
        state = {"w": torch.ones(8 * MIB)}
        for number in range(4):
            writer.save(state, tmp_path / str(number), capture="until_fence")
        writer.wait()
        assert writer.statistics()["saves_started"] == 4  # Fewer are durable.
        wait_until_fences_are_free(writer)


def test_threads_save_side_by_side(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(16 * MIB) as writer:

        def run(number: int) -> None:
            for turn in range(5):
                value = torch.full((1000,), float(number * 10 + turn))
                writer.save({"w": value}, tmp_path / str(number)).durable()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number in range(4):
        expected = content(torch.full((1000,), float(number * 10 + 4)))
        assert tensors(tmp_path / str(number))["w"] == expected


def test_events_tell_of_fallbacks(tmp_path: Path) -> None:
    events: list[tuple[str, str]] = []
    with dsckpt.AsyncWriter(16 * MIB, on_event=lambda *event: events.append(event)) as writer:
        writer.save({"w": torch.ones(3)}, tmp_path / "no" / "a")
        with pytest.raises(dsckpt.DsckptError):
            writer.wait()
    assert [kind for kind, _ in events if kind == "save-failed"] == ["save-failed"]
