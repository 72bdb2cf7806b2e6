"""State on a GPU. Skipped where there is none, or where the package was built without CUDA."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from test_writer import MIB, content, tensors

import dsckpt
from dsckpt import _native

pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and _native.WITH_CUDA),
    reason="needs a GPU and a build with DSCKPT_WITH_CUDA",
)

LARGE = 16 * MIB  # elements


@pytest.fixture(params=[16 * MIB, 256 * MIB], ids=["small pool", "large pool"])
def writer(request: pytest.FixtureRequest) -> Iterator[dsckpt.AsyncWriter]:
    with dsckpt.AsyncWriter(request.param) as made:
        yield made


def on_cpu(tensor: torch.Tensor) -> bytes:
    return content(tensor.detach().cpu())


def test_a_training_loop_saves_exactly_the_state_of_each_call(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(2048, 2048), torch.nn.BatchNorm1d(2048), torch.nn.Linear(2048, 2048)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    expected = {}
    for step in range(4):
        model(torch.randn(64, 2048, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        expected[step] = {name: on_cpu(value) for name, value in model.state_dict().items()}
        writer.save(state, tmp_path / str(step))
    writer.wait()
    for step, values in expected.items():
        found = tensors(tmp_path / str(step))
        assert {name: found[f"model/{name}"] for name in values} == values


def test_freed_memory_is_not_reused_before_it_was_read(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    for capture in ("at_save", "until_fence"):
        tensor = torch.full((LARGE,), 7.0, device="cuda")
        handle = writer.save({"t": tensor}, tmp_path / capture, capture=capture)
        del tensor
        gc.collect()
        torch.full((LARGE,), 9.0, device="cuda")
        handle.durable()
        assert tensors(tmp_path / capture)["t"] == content(torch.full((LARGE,), 7.0))


def test_a_side_stream_is_waited_for_and_fenced(writer: dsckpt.AsyncWriter, tmp_path: Path) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = torch.zeros(LARGE, device="cuda")
        for _ in range(50):
            tensor.add_(1)
        handle = writer.save({"t": tensor}, tmp_path / "a", capture="until_fence")
        writer.fence()
        tensor.zero_()
    handle.durable()
    assert tensors(tmp_path / "a")["t"] == content(torch.full((LARGE,), 50.0))


def test_captured_at_save_the_stream_goes_on_behind_the_copy(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    tensor = torch.full((LARGE,), 3.0, device="cuda")
    handle = writer.save({"t": tensor}, tmp_path / "a")  # Of no optimizer: at save.
    tensor.zero_()
    handle.durable()
    assert tensors(tmp_path / "a")["t"] == content(torch.full((LARGE,), 3.0))


def test_an_update_that_no_hook_sees_is_noticed(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(16 * MIB) as writer:
        tensor = torch.full((4 * LARGE,), 3.0, device="cuda")
        handle = writer.save({"t": tensor}, tmp_path / "a", capture="until_fence")
        tensor.add_(1)
        with pytest.raises(dsckpt.ModifiedTooEarly):
            handle.durable()
    assert not (tmp_path / "a").exists()


def test_a_replayed_graph_needs_the_fence_by_hand(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    tensor = torch.zeros(LARGE, device="cuda")
    tensor.add_(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tensor.add_(1)
    for turn in range(3):
        writer.fence()
        graph.replay()
        writer.save({"t": tensor}, tmp_path / str(turn), capture="until_fence")
    writer.wait()
    for turn in range(3):
        assert tensors(tmp_path / str(turn))["t"] == content(torch.full((LARGE,), turn + 1.0))


def test_saving_inside_a_graph_capture_is_refused(
    writer: dsckpt.AsyncWriter, tmp_path: Path
) -> None:
    tensor = torch.zeros(16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    refused: dsckpt.DsckptError | None = None
    with torch.cuda.graph(graph):
        tensor.add_(1)
        try:
            writer.save({"t": tensor}, tmp_path / "a", capture="until_fence")
        except dsckpt.DsckptError as error:
            refused = error
    assert refused is not None
    assert refused.code == "FailedPrecondition"


def test_strided_and_odd_tensors(writer: dsckpt.AsyncWriter, tmp_path: Path) -> None:
    base = torch.arange(8 * 3 * 16 * 16, dtype=torch.float32, device="cuda").reshape(8, 3, 16, 16)
    state = {
        "channels": base.to(memory_format=torch.channels_last),
        "t": base[0, 0].t(),
        "expanded": base[0, 0, 0].expand(5, 16),
        "empty": base[:0],
        "scalar": base.sum(),
        "bf16": base.bfloat16(),
        "fp8": base.to(torch.float8_e4m3fn),
        "conj": torch.complex(base, -base).conj(),
    }
    writer.save(state, tmp_path / "a").durable()
    loaded = dsckpt.load(tmp_path / "a")
    for name, value in state.items():
        assert loaded[name].shape == value.shape
        assert content(loaded[name]) == on_cpu(value.resolve_conj()), name


def test_loads_go_to_the_device_and_into_it(writer: dsckpt.AsyncWriter, tmp_path: Path) -> None:
    state = {"a": torch.randn(LARGE, device="cuda"), "b": [torch.arange(7), 5]}
    dsckpt.save(state, tmp_path / "a")
    loaded = dsckpt.load(tmp_path / "a", map_location="cuda")
    assert loaded["a"].device.type == loaded["b"][0].device.type == "cuda"
    assert torch.equal(loaded["a"], state["a"])
    target = {"a": torch.zeros(LARGE, device="cuda"), "b": [torch.zeros(7, dtype=torch.int64), 0]}
    where = target["a"].data_ptr()
    dsckpt.load_into(target, tmp_path / "a")
    assert target["a"].data_ptr() == where
    assert torch.equal(target["a"], state["a"])
    assert target["b"][0].tolist() == list(range(7))
    assert target["b"][1] == 5
