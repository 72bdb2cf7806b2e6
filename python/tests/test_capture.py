"""Lazy capture: what is lazy, what fences it, and what notices when nothing did."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from test_checkpoint import on_ranks
from test_writer import MIB, content, tensors

import dsckpt
from dsckpt import _native, capture
from dsckpt.prepared import Prepared

LARGE = 512 * 1024  # elements; more bytes than are copied inside save() whatever their class


@pytest.fixture
def writer() -> Iterator[dsckpt.AsyncWriter]:
    # A pool much smaller than the state: capture cannot have ended when save() returns.
    with dsckpt.AsyncWriter(1 * MIB, lazy_cpu=True) as made:
        yield made


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Holds every save back before it is published, until it is set."""
    opened = threading.Event()
    check = Prepared.before_publish

    def held(self: Prepared) -> None:
        assert opened.wait(60)
        check(self)

    monkeypatch.setattr(Prepared, "before_publish", held)
    return opened


def model_and_optimizer(foreach: bool = False) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Linear(1024, 1024)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=foreach)
    model(torch.ones(1, 1024)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_the_optimizer_step_waits_for_the_capture(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    model, optimizer = model_and_optimizer()
    expected = content(model.weight)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    handle = writer.save(state, tmp_path / "a")
    model(torch.ones(1, 1024)).sum().backward()
    optimizer.step()
    handle.durable()
    assert tensors(tmp_path / "a")["model/weight"] == expected
    assert content(model.weight) != expected


def test_gradient_accumulation_changes_nothing_that_is_lazy(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    model, optimizer = model_and_optimizer()
    expected = content(model.weight)
    handle = writer.save(model.state_dict(), tmp_path / "a")
    for _ in range(3):
        model(torch.ones(1, 1024)).sum().backward()
    optimizer.step()
    handle.durable()
    assert tensors(tmp_path / "a")["weight"] == expected


def test_an_update_that_no_hook_sees_fails_its_save(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    model, optimizer = model_and_optimizer()
    handle = writer.save(model.state_dict(), tmp_path / "a")
    with torch.no_grad():
        model.weight.mul_(0.999)  # an EMA by hand
    gate.set()
    with pytest.raises(dsckpt.ModifiedTooEarly, match=r"shape \(1024, 1024\).*fence"):
        handle.durable()
    assert not (tmp_path / "a").exists()
    assert repr(handle).startswith("SaveHandle(failed: a tensor of shape (1024, 1024)")
    optimizer.step()  # It was raised by the handle: not a second time here.


def test_the_fence_by_hand_makes_such_an_update_safe(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    model, _ = model_and_optimizer()
    expected = content(model.weight)
    handle = writer.save(model.state_dict(), tmp_path / "a")
    writer.fence()
    with torch.no_grad():
        model.weight.mul_(0.999)
    handle.durable()
    assert tensors(tmp_path / "a")["weight"] == expected


def test_after_captured_the_memory_is_free(writer: dsckpt.AsyncWriter, tmp_path: Path) -> None:
    model, _ = model_and_optimizer()
    expected = content(model.weight)
    handle = writer.save(model.state_dict(), tmp_path / "a")
    handle.captured()
    with torch.no_grad():
        model.weight.mul_(0.999)
    handle.durable()
    assert tensors(tmp_path / "a")["weight"] == expected


def test_an_early_change_is_raised_by_the_fence_too(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    model, optimizer = model_and_optimizer()
    writer.save(model.state_dict(), tmp_path / "a")
    with torch.no_grad():
        model.weight.mul_(0.999)
    gate.set()
    with pytest.raises(dsckpt.ModifiedTooEarly):
        optimizer.step()
    writer.wait()
    assert not (tmp_path / "a").exists()


def test_an_early_change_fails_a_checkpoint_on_all_ranks(
    gate: threading.Event, tmp_path: Path
) -> None:
    def work(rank: int, coordinator: _native.Coordinator) -> None:
        tensor = torch.ones(LARGE)
        with (
            dsckpt.AsyncWriter(1 * MIB) as writer,
            dsckpt.Run(tmp_path / "run", writer, coordinator=coordinator) as run,
        ):
            handle = run.save(1, {f"t{rank}": tensor}, capture="until_fence")
            if rank == 0:
                tensor.add_(1)
                with pytest.raises(dsckpt.ModifiedTooEarly):  # Before the file is at its end.
                    handle.captured()
                gate.set()
            with pytest.raises(dsckpt.DsckptError, match="was modified before its save") as caught:
                handle.durable()
            assert isinstance(caught.value, dsckpt.ModifiedTooEarly) == (rank == 0)
            assert run.checkpoints == []

    on_ranks(2, work)


def test_buffers_are_captured_at_save(writer: dsckpt.AsyncWriter, tmp_path: Path) -> None:
    model = torch.nn.BatchNorm1d(LARGE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    expected = content(model.running_mean)
    handle = writer.save(model.state_dict(), tmp_path / "a")
    model(torch.randn(2, LARGE))  # Forward: only an optimizer's memory may be lazy here.
    handle.durable()
    assert tensors(tmp_path / "a")["running_mean"] == expected
    assert content(model.running_mean) != expected


class UpdatesInBackward(torch.optim.SGD):
    """Changes its state while gradients are made, without a step."""

    def attach(self, parameter: torch.nn.Parameter) -> None:
        self.state[parameter]["seen"] = torch.zeros_like(parameter)
        parameter.register_post_accumulate_grad_hook(self._note)

    def _note(self, parameter: torch.Tensor) -> None:
        self.state[parameter]["seen"].add_(parameter.grad)


def test_an_optimizer_that_changes_state_in_backward_is_noticed(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    model = torch.nn.Linear(1024, 1024)
    optimizer = UpdatesInBackward(model.parameters(), lr=0.1)
    optimizer.attach(model.weight)
    optimizer.step()
    handle = writer.save({"o": optimizer.state_dict()}, tmp_path / "a")
    model(torch.ones(1, 1024)).sum().backward()
    gate.set()
    with pytest.raises(dsckpt.ModifiedTooEarly):
        handle.durable()
    # Its user says so, once:
    handle = writer.save({"o": optimizer.state_dict()}, tmp_path / "a", capture="at_save")
    model(torch.ones(1, 1024)).sum().backward()
    handle.durable()


FREEING: dict[str, Callable[[torch.Tensor], object]] = {
    "storage.resize_(0)": lambda t: t.untyped_storage().resize_(0),
    "tensor.resize_": lambda t: t.resize_(4 * LARGE),
    "share_memory_": lambda t: t.share_memory_(),
}
REPOINTING: dict[str, Callable[[torch.Tensor], object]] = {
    "data": lambda t: setattr(t, "data", torch.zeros(3)),
    "set_": lambda t: t.set_(torch.zeros(3)),
}


@pytest.mark.parametrize("call", [*FREEING, *REPOINTING])
def test_memory_that_is_freed_or_left_is_read_first(
    writer: dsckpt.AsyncWriter, tmp_path: Path, call: str
) -> None:
    tensor = torch.full((LARGE,), 7.0)
    handle = writer.save({"t": tensor}, tmp_path / "a", capture="until_fence")
    {**FREEING, **REPOINTING}[call](tensor)
    torch.full((LARGE,), 9.0)
    try:
        handle.durable()
    except dsckpt.ModifiedTooEarly:
        assert call == "set_"  # It bumps the counter; the memory was held all the same.
        return
    assert tensors(tmp_path / "a")["t"] == content(torch.full((LARGE,), 7.0))


def bump_foreach(t: torch.Tensor) -> None:
    torch._foreach_add_([t], 1.0)


def bump_fused(t: torch.Tensor) -> None:
    parameter = torch.nn.Parameter(t)
    parameter.grad = torch.ones_like(t)
    optimizer = torch.optim.SGD([parameter], lr=0.1, fused=True)
    optimizer.step()


BUMPS: dict[str, Callable[[torch.Tensor], object]] = {
    "in place": lambda t: t.add_(1),
    "view": lambda t: t[:10].zero_(),
    "detached alias": lambda t: t.detach().add_(1),
    "copy_": lambda t: t.copy_(torch.ones(LARGE)),
    "out=": lambda t: torch.add(t, 1, out=t),
    "foreach": bump_foreach,
}
BUMPS_NOT: dict[str, Callable[[torch.Tensor], object]] = {
    ".data": lambda t: t.data.add_(1),
    "numpy": lambda t: t.numpy().fill(1),
    "dlpack": lambda t: torch.from_dlpack(t.__dlpack__()).add_(1),
}


@pytest.mark.parametrize("how", [*BUMPS, *BUMPS_NOT])
def test_what_the_version_counter_sees(how: str) -> None:
    """The table of the module's docstring. A changed PyTorch shows here first."""
    tensor = torch.zeros(LARGE)
    tripwire = capture.Tripwire(digests=False)
    tripwire.arm([tensor])
    {**BUMPS, **BUMPS_NOT}[how](tensor)
    if how in BUMPS:
        with pytest.raises(dsckpt.ModifiedTooEarly):
            tripwire.check()
    else:
        tripwire.check()


@pytest.mark.parametrize("how", [*BUMPS, *BUMPS_NOT])
def test_debug_mode_sees_them_all(how: str, gate: threading.Event, tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(1 * MIB, debug=True) as writer:
        tensor = torch.full((LARGE,), 5.0)
        writer.save({"t": tensor}, tmp_path / "a", capture="until_fence")
        {**BUMPS, **BUMPS_NOT}[how](tensor)
        gate.set()
        with pytest.raises(dsckpt.ModifiedTooEarly):
            writer.fence()


def test_fused_optimizers_are_fenced_by_the_hook(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    tensor = torch.full((LARGE,), 7.0)
    handle = writer.save({"t": tensor}, tmp_path / "a", capture="until_fence")
    bump_fused(tensor)
    handle.durable()
    assert tensors(tmp_path / "a")["t"] == content(torch.full((LARGE,), 7.0))


def test_without_lazy_cpu_nothing_of_the_host_is_lazy(tmp_path: Path) -> None:
    model, _ = model_and_optimizer()
    expected = content(model.weight)
    with dsckpt.AsyncWriter(16 * MIB) as writer:
        handle = writer.save(model.state_dict(), tmp_path / "a")
        with torch.no_grad():
            model.weight.mul_(0.999)
        handle.durable()
    assert tensors(tmp_path / "a")["weight"] == expected


def test_watch_takes_modules_and_optimizers(writer: dsckpt.AsyncWriter) -> None:
    model = torch.nn.Linear(2, 2)
    writer.watch(model)
    writer.watch(torch.optim.SGD(model.parameters(), lr=1.0))
    with pytest.raises(TypeError, match="a module or an optimizer"):
        writer.watch(model.weight)


def in_a_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def wait_read(handle: dsckpt.SaveHandle) -> None:
    """Until a save has read everything; unlike captured(), it does not tell the writer."""
    while not (handle.progress() or {})["captured"]:
        time.sleep(0.001)


@pytest.mark.parametrize("call", FREEING)
def test_memory_that_no_save_reads_is_freed_at_once(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path, call: str
) -> None:
    first, second = torch.full((LARGE,), 1.0), torch.full((LARGE,), 2.0)
    handles = [
        writer.save({"t": first}, tmp_path / "a", capture="until_fence"),
        writer.save({"t": second[1:]}, tmp_path / "b", capture="until_fence"),
    ]
    FREEING[call](torch.full((LARGE,), 3.0))
    wait_read(handles[0])
    FREEING[call](first)
    FREEING[call](second)  # Waits until it has been read, not until anything is published.
    assert not gate.is_set()
    gate.set()
    for handle in handles:
        handle.durable()
    assert tensors(tmp_path / "a")["t"] == content(torch.full((LARGE,), 1.0))
    assert tensors(tmp_path / "b")["t"] == content(torch.full((LARGE - 1,), 2.0))


def test_what_was_read_may_change_before_it_is_published(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    tensor, other = torch.full((LARGE,), 1.0), torch.full((LARGE,), 2.0)
    handle = writer.save({"t": tensor}, tmp_path / "a", capture="until_fence")
    wait_read(handle)
    writer.save({"t": other}, tmp_path / "b", capture="until_fence")
    writer.fence()
    tensor.add_(1)
    gate.set()
    handle.durable()
    assert tensors(tmp_path / "a")["t"] == content(torch.full((LARGE,), 1.0))


def test_freeing_a_storage_hides_no_change_that_came_too_early(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    changed, freed = torch.full((32 * LARGE,), 1.0), torch.full((LARGE,), 2.0)
    handle = writer.save({"a": changed, "b": freed}, tmp_path / "a", capture="until_fence")
    changed[-1] = 7.0
    freed.untyped_storage().resize_(0)
    gate.set()
    with pytest.raises(dsckpt.ModifiedTooEarly):
        handle.durable()
    assert not (tmp_path / "a").exists()


def test_checkpoints_of_a_run_hold_up_their_own_memory_only(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    mine, other = torch.full((LARGE,), 1.0), torch.full((LARGE,), 3.0)
    writer.watch(torch.optim.SGD([torch.nn.Parameter(mine)], lr=0.1))
    with dsckpt.Run(tmp_path / "run", writer) as run:
        run.save(1, {"t": mine})
        run.save(2, {"t": mine})
        other.untyped_storage().resize_(0)
        waiting = in_a_thread(lambda: mine.untyped_storage().resize_(0))
        gate.set()
        waiting.join(60)
        assert not waiting.is_alive()
    for step in (1, 2):
        found = dsckpt.load(tmp_path / "run" / f"step-{step:010}")["t"]
        assert content(found) == content(torch.full((LARGE,), 1.0))


def test_storages_are_told_apart() -> None:
    tensor = torch.ones(4)
    assert capture.storage_id(tensor) == capture.storage_id(tensor[2:].untyped_storage())
    assert capture.storage_id(tensor) != capture.storage_id(tensor.clone())
    assert capture.storage_id(object()) is None


def test_a_path_whose_first_save_is_under_way_says_so(
    writer: dsckpt.AsyncWriter, gate: threading.Event, tmp_path: Path
) -> None:
    with pytest.raises(dsckpt.DsckptError) as caught:
        dsckpt.load(tmp_path / "a")
    assert "under way" not in str(caught.value)
    handle = writer.save({"t": torch.full((LARGE,), 1.0)}, tmp_path / "a")
    for options in ({}, {"mmap": False}):
        with pytest.raises(dsckpt.DsckptError, match="its first save is under way") as caught:
            dsckpt.load(tmp_path / "a", **options)
        assert caught.value.code == "NotFound"
    gate.set()
    handle.durable()
    assert dsckpt.load(tmp_path / "a")["t"].sum() == LARGE
