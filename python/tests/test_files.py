"""Open files: what they list, slices, arrays that share their memory, what cannot be opened."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xxhash

import dsckpt
from dsckpt import indexing


def test_open_lists_and_describes(path: Path) -> None:
    with dsckpt.open(path) as file:
        assert list(file) == ["array", "model/b", "model/w"]
        assert len(file) == 3
        assert "model/w" in file
        assert "model" not in file
        w = file["model/w"]
        assert (w.name, w.dtype, w.shape, w.nbytes, w.encoding) == (
            "model/w",
            "F32",
            (2, 3, 4),
            96,
            "raw",
        )
        assert (file.path, file.format) == (str(path), "dsckpt")
        assert file.attributes == {"step": 7}
        assert file.metadata["who"] == "test"
        with pytest.raises(KeyError, match="no tensor 'no-such' in "):
            file["no-such"]


def test_tree_is_lazy(path: Path) -> None:
    tree = dsckpt.open(path).tree()
    assert tree["step"] == 7
    assert tree["names"] == ("x", None)
    assert isinstance(tree["array"], dsckpt.LazyTensor)
    assert tree["model"]["b"].torch().dtype == torch.bfloat16


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
@pytest.mark.parametrize(
    "index",
    [
        (),
        0,
        -1,
        slice(1, None),
        (1, 2, 3),
        (slice(None), 1),
        (..., -1),
        (0, ..., slice(1, 3)),
        (slice(None), slice(0, 3, 2), slice(3, 0)),
        (slice(5, 9),),
        (..., slice(None, None, 3)),
    ],
    ids=repr,
)
def test_slices(index: Any, encoding: Any, state: dict[str, Any], tmp_path: Path) -> None:
    dsckpt.save(state, tmp_path / "s", encoding=encoding)
    whole = state["model"]["w"]
    found = dsckpt.open(tmp_path / "s")["model/w"][index]
    assert found.shape == whole[index].shape
    assert torch.equal(found, whole[index])


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (2, IndexError),
        (-3, IndexError),
        ((0, 0, 0, 0), IndexError),
        ((..., ...), IndexError),
        (slice(None, None, -1), IndexError),
        (None, TypeError),
        ([0, 1], TypeError),
        (True, TypeError),
        ("x", TypeError),
    ],
    ids=repr,
)
def test_indices_that_are_refused(index: Any, error: type[Exception], path: Path) -> None:
    with pytest.raises(error):
        dsckpt.open(path)["model/w"][index]


def test_boxes_are_small() -> None:
    assert indexing.to_box((1, slice(2, 9, 3)), (4, 10, 5)) == (
        [(1, 2), (2, 9), (0, 5)],
        (0, slice(None, None, 3), slice(None, None, 1)),
    )


def resealed(content: bytes, at: int, new: bytes) -> bytes:
    """A file with other bytes in its index, and right checksums (the footer's section of the
    specification)."""
    made = bytearray(content)
    made[at : at + len(new)] = new
    index, size = struct.unpack_from("<QQ", made, len(made) - 128 + 24)
    for offset, begin, end in ((40, index, index + size), (112, len(made) - 128, len(made) - 16)):
        covered = made[begin:end]
        digest = xxhash.xxh3_64_intdigest(bytes(covered))
        struct.pack_into("<Q", made, len(made) - 128 + offset, digest)
    return bytes(made)


TEXTS = ("key-A", "text-B", "attribute-C", "text-D", "object-E", "x-python-pickle", "float16")


@pytest.mark.parametrize("text", TEXTS)
def test_text_in_the_index_that_is_no_utf8(text: str, tmp_path: Path) -> None:
    path = tmp_path / "state"
    state = {"w": torch.ones(1), "key-A": 1, "b": "text-B", "object-E": Path("x")}
    dsckpt.save({**state, "d": torch.float16}, path, attributes={"attribute-C": "text-D"})
    content = path.read_bytes()
    index = struct.unpack_from("<Q", content, len(content) - 128 + 24)[0]
    path.write_bytes(resealed(content, content.index(text.encode(), index), b"\xff"))
    calls = [
        lambda: dsckpt.load(path, allow_pickle=True),
        lambda: dsckpt.load_into({"w": torch.zeros(1)}, path, strict=False, allow_pickle=True),
        lambda: dsckpt.open(path).tree(),
    ]
    if text in ("attribute-C", "text-D"):
        calls += [lambda: dsckpt.open(path).attributes, lambda: dsckpt.Checkpoint(path).attributes]
    if text == "x-python-pickle":
        calls.append(lambda: dsckpt.open(path).objects)
    for call in calls:
        with pytest.raises(dsckpt.DsckptError, match="no UTF-8") as caught:
            call()
        assert (caught.value.code, caught.value.path) == ("Corrupt", str(path))
    if text == "object-E":
        report = dsckpt.verify(path)
        assert not report
        assert r"at '\xffbject-E'" in [problem.found for problem in report.problems]


@pytest.mark.parametrize(
    ("content", "code"),
    [(None, "NotFound"), (b"", "NotCheckpoint"), (b"junk" * 9, "NotCheckpoint")],
)
def test_what_cannot_be_opened(content: bytes | None, code: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    if content is not None:
        path.write_bytes(content)
    for call in (dsckpt.open, dsckpt.load):
        with pytest.raises(dsckpt.DsckptError) as caught:
            call(path)
        assert caught.value.code == code or (content == b"" and caught.value.code == "Truncated")
        assert str(path) in str(caught.value)
        # One traceback, not "during handling of the above exception" another.
        assert caught.value.__context__ is None or caught.value.__suppress_context__
    with pytest.raises(dsckpt.DsckptError, match="is a directory"):
        dsckpt.open(tmp_path)


def test_a_damaged_header_is_ignored_only_when_asked_for(tmp_path: Path) -> None:
    path, saved = tmp_path / "state", tmp_path / "saved"
    dsckpt.save({"w": torch.arange(4.0)}, path)
    path.write_bytes(path.read_bytes().replace(b'"shape":[4]', b'"shape":[5]', 1))
    for call in (dsckpt.open, dsckpt.load, dsckpt.Checkpoint):
        with pytest.raises(dsckpt.DsckptError, match="ignore_header") as caught:
            call(path)
        assert caught.value.code == "Mismatch"
    with pytest.raises(dsckpt.DsckptError, match="dsckpt verify"):
        dsckpt.merge(path, saved)
    problem = dsckpt.verify(path).problems[0]
    assert (problem.item, problem.kind) == ("header", "checksum")
    with dsckpt.open(path, ignore_header=True) as file:
        assert torch.equal(file["w"].torch(), torch.arange(4.0))
    dsckpt.merge(path, saved, ignore_header=True)
    assert torch.equal(dsckpt.load(saved)["w"], torch.arange(4.0))


def test_a_file_of_torch_save_is_to_be_converted(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "a.pt")
    for call in (dsckpt.open, dsckpt.load):
        with pytest.raises(dsckpt.DsckptError, match=r"neither .*; dsckpt\.convert\.convert\(\)"):
            call(tmp_path / "a.pt")


def test_import_needs_neither_torch_nor_numpy() -> None:
    code = """
import sys
sys.modules["torch"] = sys.modules["numpy"] = sys.modules["ml_dtypes"] = None
import dsckpt, os, tempfile
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "s")
    dsckpt.save({"a": [1, {"b"}]}, path)
    assert list(dsckpt.open(path)) == []
    print(dsckpt.open(path).tree())
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "{'a': [1, {'b'}]}"


def test_tensors_need_torch_or_numpy(path: Path) -> None:
    code = """
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
import dsckpt
dsckpt.load(sys.argv[1])
"""
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert "DsckptError: tensors are loaded as those of torch, or else" in ran.stderr


def test_paths_of_any_kind(path: Path, state: dict[str, Any]) -> None:
    for given in (str(path), path, os.fsencode(path)):
        assert dsckpt.load(given)["step"] == 7


def test_dlpack_shares_memory_both_ways(tmp_path: Path) -> None:
    class Foreign:
        """An array of a framework that this package does not know."""

        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor

        def __dlpack__(self, **options: Any) -> Any:
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    value = torch.arange(12.0).reshape(3, 4)
    dsckpt.save({"a": Foreign(value), "t": Foreign(value.t())}, tmp_path / "a")
    with dsckpt.open(tmp_path / "a") as file:
        assert torch.equal(torch.from_dlpack(file["a"]), value)
        assert np.array_equal(np.from_dlpack(file["t"]), value.t().numpy())


def test_a_stored_tensor_is_an_array(path: Path, state: dict[str, Any]) -> None:
    stored = dsckpt.open(path)["model/w"]
    expected = state["model"]["w"].numpy()
    assert np.array_equal(np.asarray(stored), expected)
    assert np.asarray(stored).dtype == expected.dtype
    assert np.asarray(stored, dtype="f8").dtype == np.float64
    assert np.linalg.norm(stored) == pytest.approx(np.linalg.norm(expected))
    assert (stored.ndim, stored.size, len(stored)) == (
        expected.ndim,
        expected.size,
        len(expected),
    )


def test_a_directory_is_told_what_to_do_instead(tmp_path: Path) -> None:
    with dsckpt.AsyncWriter(4 << 20) as writer, dsckpt.Run(tmp_path / "run", writer) as run:
        run.save(1, {"w": torch.ones(3)}).durable()
    with pytest.raises(dsckpt.DsckptError, match=r"Run\(path\)\.latest\(\)"):
        dsckpt.open(tmp_path / "run")
    with pytest.raises(dsckpt.DsckptError, match=r"Checkpoint\(path\)"):
        dsckpt.open(tmp_path / "run" / "step-0000000001")


def test_a_model_of_torch_save_is_to_be_converted(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    for call in (
        lambda: dsckpt.load(tmp_path),
        lambda: dsckpt.load_into({"w": torch.zeros(1)}, tmp_path),
        lambda: dsckpt.open(tmp_path),
    ):
        with pytest.raises(
            dsckpt.DsckptError, match=r"dsckpt\.convert\.convert\(\) makes"
        ) as caught:
            call()
        assert caught.value.code == "NotCheckpoint"
        assert "pytorch_model.bin" in str(caught.value)


def test_a_thousand_files_open_with_256_descriptors(tmp_path: Path) -> None:
    code = """
import os, resource, sys
import dsckpt, torch
directory = sys.argv[1]
dsckpt.save({"w": torch.arange(8.0), "z": torch.arange(4.0)}, f"{directory}/a")
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
before = len(os.listdir("/proc/self/fd"))
for i in range(1000):
    os.link(f"{directory}/a", f"{directory}/{i}")
files = [dsckpt.open(f"{directory}/{i}") for i in range(1000)]
assert len(os.listdir("/proc/self/fd")) - before < 10
views = [file["w"].numpy() for file in files]
assert all(view[7] == 7 for view in views)
loaded = [dsckpt.load(f"{directory}/{i}") for i in range(1000)]
checkpoints = [dsckpt.Checkpoint(f"{directory}/{i}") for i in range(1000)]
whole = [checkpoint.read("w") for checkpoint in checkpoints]
assert len(os.listdir("/proc/self/fd")) - before < 10
# What has to be read is read, more of it at a time than there may be descriptors.
assert all(file["w"][2:3].tolist() == [2] for file in files)
assert all(file.metadata["format"] == "pt" for file in files)
print("fine")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.returncode) == ("fine\n", 0), ran.stderr


def test_an_open_file_outlives_its_name(path: Path, state: dict[str, Any]) -> None:
    opened = dsckpt.open(path)
    dsckpt.save({"other": torch.zeros(3)}, path)
    assert torch.equal(opened["model/w"][:], state["model"]["w"])
    path.unlink()
    assert torch.equal(opened["model/w"][0], state["model"]["w"][0])
    assert opened.metadata["format"] == "pt"
    assert torch.equal(opened["model/w"].torch(), state["model"]["w"])
