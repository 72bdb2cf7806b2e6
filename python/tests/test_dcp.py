"""torch.distributed.checkpoint with DcpWriter and DcpReader."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.staging import AsyncStager
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

import dsckpt
from dsckpt import load
from dsckpt.checkpoint import Checkpoint
from dsckpt.dcp import DcpReader, DcpWriter, items, metadata, staging
from dsckpt.run import Run

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")
JOB = Path(__file__).with_name("dcp_job.py")


@pytest.fixture(scope="module")
def pool() -> Any:
    with dsckpt.AsyncWriter(pool_bytes=16 << 20) as writer:
        yield writer


def sample() -> dict[str, Any]:
    return {
        "model": {
            "w": torch.arange(12.0).view(3, 4),
            "half": torch.ones(3, dtype=torch.bfloat16),
            "0": torch.tensor(5),
            "a/~b": torch.arange(3),
            "none": torch.empty(0, 4),
            "turned": torch.arange(6.0).view(2, 3).t(),
            "expanded": torch.tensor([1.5]).expand(4),
            "byte": torch.arange(4, dtype=torch.uint8).view(torch.float8_e4m3fn),
        },
        "step": 7,
        "lrs": [0.1, (1, 2)],
        "name": "x",
        "big": 1 << 80,
        "nothing": None,
        "object": torch.Size([1, 2]),
    }


def assert_becomes_empty(directory: Path) -> None:
    """What a failed attempt left is removed after its failure was reported."""
    deadline = time.monotonic() + 30
    while os.listdir(directory):
        assert time.monotonic() < deadline, os.listdir(directory)
        os.sched_yield()


def emptied(state: Any) -> Any:
    if isinstance(state, torch.Tensor):
        return torch.zeros_like(state.contiguous())
    return {k: emptied(v) for k, v in state.items()} if type(state) is dict else None


def assert_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        as_bytes = [t.contiguous().reshape(-1).view(torch.uint8) for t in (found, expected)]
        assert torch.equal(*as_bytes)
    elif type(expected) is dict:
        assert found.keys() == expected.keys()
        for key in expected:
            assert_equal(found[key], expected[key])
    else:
        assert type(found) is type(expected)
        assert found == expected


def test_save_and_load_of_one_process(tmp_path: Path, pool: dsckpt.AsyncWriter) -> None:
    state = sample()
    dcp.save(state, storage_writer=DcpWriter(writer=pool), checkpoint_id=tmp_path / "step-12")
    found = emptied(state)
    dcp.load(found, storage_reader=DcpReader(), checkpoint_id=tmp_path / "step-12")
    assert_equal(found, state)
    checkpoint = Checkpoint(tmp_path / "step-12")
    assert checkpoint.step == 12
    assert sorted(os.listdir(tmp_path)) == ["step-12"]
    stored = load(tmp_path / "step-12")
    assert stored["step"] == 7
    assert stored["lrs"] == [0.1, (1, 2)]
    assert stored["big"] == 1 << 80


def test_planners_that_rebuild_a_state_from_metadata(
    tmp_path: Path, pool: dsckpt.AsyncWriter
) -> None:
    state = sample()
    dcp.save(state, storage_writer=DcpWriter(tmp_path / "a", pool))
    found: dict[str, Any] = {}
    _load_state_dict(
        found,
        storage_reader=DcpReader(tmp_path / "a"),
        planner=_EmptyStateDictLoadPlanner(),
        no_dist=True,
    )
    assert_equal(found, state)


def test_tensors_of_other_dtypes_and_strides_are_converted_as_dcp_does(
    tmp_path: Path, pool: dsckpt.AsyncWriter
) -> None:
    saved = torch.arange(12, dtype=torch.int32).view(3, 4)
    dcp.save({"t": saved}, storage_writer=DcpWriter(tmp_path / "a", pool))
    for target in (
        torch.zeros(3, 4, dtype=torch.float64),
        torch.zeros(4, 3, dtype=torch.int32).t(),
    ):
        state = {"t": target}
        dcp.load(state, storage_reader=DcpReader(tmp_path / "a"))
        assert state["t"].tolist() == saved.tolist()


def test_loading_counts_as_a_modification(tmp_path: Path, pool: dsckpt.AsyncWriter) -> None:
    dcp.save({"t": torch.ones(3)}, storage_writer=DcpWriter(tmp_path / "a", pool))
    target = torch.zeros(3)
    before = target._version
    dcp.load({"t": target}, storage_reader=DcpReader(tmp_path / "a"))
    assert target.tolist() == [1, 1, 1]
    assert target._version > before


def test_async_save_has_the_state_of_the_call(tmp_path: Path, pool: dsckpt.AsyncWriter) -> None:
    writer = DcpWriter(writer=pool)
    assert isinstance(writer, AsyncStager)
    nested = [1, [2]]
    tied = torch.arange(4.0)
    state: dict[str, Any] = {"t": tied, "tied": tied, "list": nested, "set": {1}}
    future = dcp.async_save(state, storage_writer=writer, checkpoint_id=tmp_path / "a")
    tied.zero_()
    nested[1].append(3)  # type: ignore[attr-defined]
    state["set"].add(2)
    future.result()
    found: dict[str, Any] = {"t": torch.zeros(4), "tied": torch.zeros(4), "list": None, "set": None}
    dcp.load(found, storage_reader=DcpReader(tmp_path / "a", allow_pickle=True))
    assert found["t"].tolist() == found["tied"].tolist() == [0, 1, 2, 3]
    assert found["list"] == [1, [2]]
    assert found["set"] == {1}
    writer.close()


def test_dcps_own_stager_works_too(tmp_path: Path, pool: dsckpt.AsyncWriter) -> None:
    from torch.distributed.checkpoint.staging import BlockingAsyncStager

    tensor = torch.arange(4.0)
    future = dcp.async_save(
        {"t": tensor},
        storage_writer=DcpWriter(tmp_path / "a", pool),
        async_stager=BlockingAsyncStager(),
    )
    tensor.zero_()
    future.result()
    found = {"t": torch.ones(4)}
    dcp.load(found, storage_reader=DcpReader(tmp_path / "a"))
    assert found["t"].tolist() == [0, 1, 2, 3]


class Evil:
    def __reduce__(self) -> Any:
        return (eval, ("__import__('os').environ.__setitem__('DSCKPT_EVIL', '1')",))


class Named:
    pass


def test_objects_are_unpickled_only_where_allowed(
    tmp_path: Path, pool: dsckpt.AsyncWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DSCKPT_EVIL", raising=False)
    dcp.save({"evil": Evil()}, storage_writer=DcpWriter(tmp_path / "a", pool))
    DcpReader(tmp_path / "a").read_metadata()
    with pytest.raises(CheckpointException, match=r"evil is an object that .* refuses"):
        dcp.load({"evil": None}, storage_reader=DcpReader(tmp_path / "a"))
    assert "DSCKPT_EVIL" not in os.environ
    dcp.load({"evil": None}, storage_reader=DcpReader(tmp_path / "a", allow_pickle=True))
    assert os.environ["DSCKPT_EVIL"] == "1"


def test_all_objects_that_are_refused_are_named_at_once(
    tmp_path: Path, pool: dsckpt.AsyncWriter
) -> None:
    state = {"a": Evil(), "b": [1], "c": Named(), "d": Named()}
    dcp.save(state, storage_writer=DcpWriter(tmp_path / "a", pool))
    with pytest.raises(CheckpointException) as caught:
        dcp.load(dict.fromkeys(state), storage_reader=DcpReader(tmp_path / "a"))
    refused = next(iter(caught.value.failures.values()))[0]
    assert isinstance(refused, dsckpt.PickleRefused)
    assert (refused.classes, refused.never) == ((f"{__name__}.Named",), ("builtins.eval",))
    assert all(f"{name} is an object that names" in str(refused) for name in "acd")
    assert "add_safe_globals" not in str(refused)


LOSSY = {
    "int32 to float32": (torch.tensor([16_777_217], dtype=torch.int32), torch.float32),
    "float32 to bfloat16": (torch.tensor([1.0009765625]), torch.bfloat16),
    "float64 to float32": (torch.tensor([0.1], dtype=torch.float64), torch.float32),
    "int64 to int32": (torch.tensor([1 << 40]), torch.int32),
    "int8 to uint8": (torch.tensor([-1], dtype=torch.int8), torch.uint8),
    "float16 to int64": (torch.tensor([0.5], dtype=torch.float16), torch.int64),
    "complex64 to float32": (torch.tensor([1j]), torch.float32),
    "bfloat16 to float16": (torch.tensor([1e20], dtype=torch.bfloat16), torch.float16),
    "int64 to bool": (torch.tensor([2]), torch.bool),
}
EXACT = {
    "float16 to float32": (torch.tensor([0.1], dtype=torch.float16), torch.float32),
    "bfloat16 to float64": (torch.tensor([1e-39], dtype=torch.bfloat16), torch.float64),
    "int32 to float64": (torch.tensor([16_777_217], dtype=torch.int32), torch.float64),
    "uint8 to int16": (torch.tensor([255], dtype=torch.uint8), torch.int16),
    "bool to float32": (torch.tensor([True]), torch.float32),
    "float32 to complex64": (torch.tensor([1.5]), torch.complex64),
    "float8 to bfloat16": (torch.tensor([0.4375]).to(torch.float8_e4m3fn), torch.bfloat16),
}


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("name", [*LOSSY, *EXACT])
def test_elements_are_cast_only_where_that_changes_none(
    name: str, tmp_path: Path, pool: dsckpt.AsyncWriter
) -> None:
    saved, dtype = {**LOSSY, **EXACT}[name]
    dcp.save({"w": saved, "v": torch.ones(2)}, storage_writer=DcpWriter(tmp_path / "a", pool))
    found = {"w": torch.zeros(1, dtype=dtype), "v": torch.zeros(2)}
    if name in EXACT:
        dcp.load(found, storage_reader=DcpReader(tmp_path / "a"))
        assert torch.equal(found["w"], saved.to(dtype))
        assert torch.equal(found["w"].to(saved.dtype).float(), saved.float())
        return
    with pytest.raises(CheckpointException, match=f"w: {saved.dtype} in the checkpoint, {dtype}"):
        dcp.load(found, storage_reader=DcpReader(tmp_path / "a"))
    assert not found["w"].any()
    assert not found["v"].any()
    dcp.load(found, storage_reader=DcpReader(tmp_path / "a", lossy_casts=True))
    assert torch.equal(found["w"], saved.to(dtype))


def test_dtypes_that_hold_all_values_of_another() -> None:
    from dsckpt.dtypes import torch_dtype, widens

    names = ("BOOL", "U8", "I8", "U16", "I16", "F16", "BF16")
    names += ("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
    small = [dtype for dtype in map(torch_dtype, names) if dtype is not None]
    large = [torch.int32, torch.int64, torch.float32, torch.float64]
    for source in small:
        integers = torch.uint8 if source.itemsize == 1 else torch.int16
        count = 2 if source == torch.bool else 256**source.itemsize
        every = torch.arange(count).to(integers).view(source)
        for target in (*small, *large):
            back = every.to(target).to(source)
            same = (back.view(integers) == every.view(integers)) | every.float().isnan()
            assert bool(same.all()) or not widens(source, target), (source, target)
    assert widens(torch.int32, torch.float64)
    assert not widens(torch.int64, torch.float64)


def test_what_stands_is_replaced_only_when_asked(tmp_path: Path, pool: dsckpt.AsyncWriter) -> None:
    target = tmp_path / "a"
    target.mkdir()  # As scripts do before FileSystemWriter.
    dcp.save({"t": torch.zeros(1)}, storage_writer=DcpWriter(target, pool))
    with pytest.raises(CheckpointException, match="stands already"):
        dcp.save({"t": torch.ones(1)}, storage_writer=DcpWriter(target, pool))
    dcp.save({"t": torch.ones(1)}, storage_writer=DcpWriter(target, pool, overwrite=True))
    found = {"t": torch.zeros(1)}
    dcp.load(found, storage_reader=DcpReader(target))
    assert found["t"].item() == 1
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("keep")
    with pytest.raises(CheckpointException, match="is no checkpoint"):
        dcp.save({}, storage_writer=DcpWriter(other, pool, overwrite=True))
    assert (other / "file").read_text() == "keep"
    assert sorted(os.listdir(tmp_path)) == ["a", "other"]


@pytest.mark.parametrize(
    ("writer", "options", "words"),
    [
        (lambda pool, path: DcpWriter(writer=pool), {}, "no path"),
        (lambda pool, path: DcpWriter(path, pool), {"use_collectives": False}, "use_collectives"),
    ],
)
def test_refusals(
    tmp_path: Path, pool: dsckpt.AsyncWriter, writer: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises((CheckpointException, dsckpt.DsckptError), match=words):
        dcp.save({"t": torch.ones(1)}, storage_writer=writer(pool, tmp_path / "a"), **options)
    assert os.listdir(tmp_path) == []


def test_a_failed_async_save_does_not_stop_the_optimizer(
    tmp_path: Path, pool: dsckpt.AsyncWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a device: the tensors are lent, and the optimizer waits for the save to begin.
    monkeypatch.setattr(staging._Stage, "_is_lendable", lambda _self, _tensor: True)
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    parameter.grad = torch.ones(3)
    writer = DcpWriter(writer=pool)
    future = dcp.async_save(
        {"p": parameter, "bad": torch.eye(2).to_sparse()},
        storage_writer=writer,
        checkpoint_id=tmp_path / "a",
    )
    optimizer.step()
    with pytest.raises(CheckpointException, match="only strided tensors"):
        future.result()
    assert_becomes_empty(tmp_path)


def test_lent_tensors_are_read_before_the_update(
    tmp_path: Path, pool: dsckpt.AsyncWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging._Stage, "_is_lendable", lambda _self, _tensor: True)
    parameter = torch.nn.Parameter(torch.ones(1 << 20))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    parameter.grad = torch.ones_like(parameter)
    writer = DcpWriter(writer=pool)
    for i in range(3):
        expected = parameter.detach().clone()
        future = dcp.async_save(
            {"p": parameter}, storage_writer=writer, checkpoint_id=tmp_path / str(i)
        )
        optimizer.step()
        future.result()
        found = {"p": torch.zeros(1 << 20)}
        dcp.load(found, storage_reader=DcpReader(tmp_path / str(i)))
        assert torch.equal(found["p"], expected)
    writer.close()


def test_a_lent_tensor_that_changes_too_early_fails_its_save(
    tmp_path: Path, pool: dsckpt.AsyncWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging._Stage, "_is_lendable", lambda _self, _tensor: True)
    tensor = torch.ones(3)
    writer = DcpWriter(tmp_path / "a", pool)
    staged = writer.stage({"t": tensor})
    assert staged["t"].data_ptr() == tensor.data_ptr()
    tensor.zero_()
    with ThreadPoolExecutor(1) as saver:
        future = saver.submit(dcp.save, staged, storage_writer=writer)
        with pytest.raises(dsckpt.ModifiedTooEarly):
            writer.fence()
        with pytest.raises(CheckpointException, match="modified before"):
            future.result()
    writer.fence()
    assert_becomes_empty(tmp_path)


def test_metadata_survives_its_encoding() -> None:
    def chunks(*boxes: tuple[list[int], list[int]]) -> list[ChunkStorageMetadata]:
        return [ChunkStorageMetadata(torch.Size(o), torch.Size(s)) for o, s in boxes]

    properties = TensorProperties(torch.bfloat16, requires_grad=True)
    if hasattr(properties, "strides"):  # Older versions of PyTorch lack them.
        properties.strides = (4, 1)
    original = Metadata(
        {
            "a": TensorStorageMetadata(
                properties, torch.Size([4, 4]), chunks(([0, 0], [2, 4]), ([2, 0], [2, 4]))
            ),
            "0": TensorStorageMetadata(
                TensorProperties(torch.int8), torch.Size([]), chunks(([], []))
            ),
            "b": dcp.metadata.BytesStorageMetadata(),
        },
        planner_data={"a": ("x", 0, "y")},
        version="1.0.0",
    )
    original.storage_data = {
        MetadataIndex("a", [0, 0]): items.Stored("s0", "a[0:2,0:4]"),
        MetadataIndex("a", [2, 0]): items.Stored("s1", "a[2:4,0:4]"),
        MetadataIndex("0", []): items.Stored("s1", "~s0"),
        MetadataIndex("b"): items.Stored("s0", "b"),
    }
    encoded = metadata.encode(original)
    assert items.is_plain(encoded)
    assert metadata.decode(encoded, "path") == original
    for damage in (
        {"tensors": {"a": {}}},
        {"chunks": {"2": b"12345678"}},
        {"bytes": {"b": 9}},
        {"shards": 5},
    ):
        with pytest.raises(dsckpt.DsckptError, match="no DCP metadata"):
            metadata.decode({**encoded, **damage}, "path")
    with pytest.raises(dsckpt.DsckptError, match="another version"):
        metadata.decode({**encoded, "format": 2}, "path")


def test_checkpoints_written_otherwise_load_by_their_names(
    tmp_path: Path, pool: dsckpt.AsyncWriter
) -> None:
    dsckpt.save({"model": {"w": torch.arange(4.0), "0": torch.ones(2)}}, tmp_path / "a.dsckpt")
    state = {"model": {"w": torch.zeros(4), "0": torch.zeros(2)}}
    dcp.load(state, storage_reader=DcpReader(tmp_path / "a.dsckpt"))
    assert state["model"]["w"].tolist() == [0, 1, 2, 3]
    assert state["model"]["0"].tolist() == [1, 1]


def test_saved_by_four_ranks_loaded_by_two(tmp_path: Path) -> None:
    job = [sys.executable, str(JOB), str(tmp_path), "save:4", "load:2"]
    done = subprocess.run(job, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["dtensors", "fsdp-3", "later", "reference.pt", "run"]
    check_files_of_ranks(tmp_path)
    check_run_of_two_ranks(tmp_path)


def check_files_of_ranks(job: Path) -> None:
    """They are useful by themselves, and together without DCP."""
    reference = torch.load(job / "reference.pt")["dtensors"]["tensors"]
    checkpoint = Checkpoint(job / "dtensors")
    assert checkpoint.ranks == 4
    for name, expected in reference.items():
        assert_equal(checkpoint.read(f"tensors.{name}"), expected)
    boxes = set()
    for rank in range(4):
        path = job / "dtensors" / f"shard-{rank:05}.dsckpt"
        with safe_open(path, "pt") as file:
            for name in list(file.keys()):
                fqn, bracket, box = name.partition("[")
                if not fqn.startswith("tensors.") or not bracket:
                    continue
                boxes.add(name)
                slices = [slice(*map(int, side.split(":"))) for side in box[:-1].split(",")]
                expected = reference[fqn.removeprefix("tensors.")][tuple(slices)]
                assert_equal(file.get_tensor(name), expected)
    assert "tensors.even.tiles[0:4,0:2]" in boxes


def check_run_of_two_ranks(job: Path) -> None:
    """Saved by a group of its own into a run directory."""
    latest = Run(job / "run").latest()
    assert latest is not None
    assert latest.step == 7
    assert latest.ranks == 2
    state = {"t": torch.zeros(6)}
    dcp.load(state, storage_reader=DcpReader(latest.path))
    assert state["t"].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_the_example_resumes_where_it_was_killed(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "python" / "train_fsdp.py"
    done = subprocess.run(
        [sys.executable, str(example), "--directory", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "resumed from step 8" in done.stdout
    assert "the last 4 losses are those of the run that was not killed" in done.stdout
