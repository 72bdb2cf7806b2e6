"""Files in torch's own format that DeepSpeed's engine reads and writes, and `latest`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pytest

import dsckpt
from dsckpt.deepspeed import latest, torch_files
from dsckpt.deepspeed.pickle_allowlist import ALLOWED

torch = pytest.importorskip("torch")


class Evil:
    """Unpickling it runs code."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_torch_files_run_no_code_unless_allowed(tmp_path: Path) -> None:
    """C47"""
    path, proof = str(tmp_path / "a.pt"), tmp_path / "proof"
    torch.save({"evil": Evil(str(proof))}, path)
    with pytest.raises(dsckpt.PickleRefused, match="allow_pickle"):
        torch_files.load(path, "cpu", False, ALLOWED)
    assert not proof.exists()
    torch_files.load(path, "cpu", True, ())
    assert proof.exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_load_what_deepspeed_holds(tmp_path: Path, zipped: bool) -> None:
    path = str(tmp_path / "a.pt")
    state = {"args": argparse.Namespace(lr=0.1, dtype=torch.float16), "w": torch.arange(3)}
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    assert torch_files.is_torch_file(path)
    found = torch_files.load(path, "cpu", False, ALLOWED, mmap=True)
    assert found["args"] == state["args"]
    assert torch.equal(found["w"], state["w"])


def test_other_files_are_no_torch_files(tmp_path: Path) -> None:
    ours, plain = tmp_path / "ours", tmp_path / "plain"
    dsckpt.save({"w": torch.zeros(2)}, ours)
    plain.write_bytes((0x280).to_bytes(8, "little") + b"{" + b" " * 0x27F)
    assert not torch_files.is_torch_file(str(ours))
    assert not torch_files.is_torch_file(str(plain))


def test_export_of_safetensors_is_what_others_expect(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    torch_files.export({"w": torch.ones(2), "b": torch.zeros(1)}, str(tmp_path / "m.safetensors"))
    found = safetensors.load_file(tmp_path / "m.safetensors")
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"w": [1, 1], "b": [0]}


def test_failed_export_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    torch_files.export({"w": torch.ones(2)}, str(path))
    with pytest.raises(Exception, match="pickle"):
        torch_files.export({"w": lambda: None}, str(path))
    assert torch.equal(torch.load(path, weights_only=True)["w"], torch.ones(2))
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.bin"]


@pytest.mark.parametrize("what", ["export", "latest"])
def test_files_are_replaced_durably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / ("model.bin" if what == "export" else "latest")

    def write() -> None:
        if what == "export":
            torch_files.export({"w": torch.ones(2)}, str(path))
        else:
            latest.Pointer(str(tmp_path), "t").write()

    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted_sync(descriptor: int) -> None:
        steps.append("directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    def noted_replace(source: str, target: str) -> None:
        name = os.path.basename(source)
        assert name.startswith(".")
        assert not any(mark in name for mark in (".incomplete-", ".removed-", ".replaced-"))
        steps.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write()
    assert steps == ["file", "replace", "directory"]
    before = path.read_bytes()

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as failing:
            failing.setattr(os, call, fails)
            with pytest.raises(OSError, match="No space"):
                write()
        assert os.listdir(tmp_path) == [path.name]
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("wanted", "by_commit", "by_hand"),
    [(False, True, False), (True, True, False), (True, False, True)],
)
def test_latest_is_written_by_hand_where_the_commit_does_not(
    tmp_path: Path, wanted: bool, by_commit: bool, by_hand: bool
) -> None:
    pointer = latest.pointer(str(tmp_path), "t", wanted, by_commit)
    assert (pointer is not None) == by_hand
    if pointer is not None:
        pointer.write()
        assert (tmp_path / "latest").read_text() == "t\n"
