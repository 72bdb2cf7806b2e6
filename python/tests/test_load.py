"""Whole states from files: mapped, read, moved to devices, checked."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from test_files import resealed

import dsckpt
from dsckpt import mapped


def owner_is_mapped(tensor: torch.Tensor, path: Path) -> bool:
    address = tensor.data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        if begin <= address < end:
            return line.endswith(str(path))
    return False


def test_views_are_the_file_and_stay_after_it(path: Path) -> None:
    file = dsckpt.open(path)
    lazy = file["model/w"]
    tensor, array = lazy.torch(), lazy.numpy()
    assert owner_is_mapped(tensor, path)
    file.close()
    del file, lazy
    path.unlink()
    assert tensor.sum() == array.sum() == 276


def test_mapped_tensors_are_writable_and_private(path: Path) -> None:
    before = path.read_bytes()
    found = dsckpt.load(path)
    assert owner_is_mapped(found["model"]["w"], path)
    found["model"]["w"].fill_(-1)
    found["array"][:] = 9
    assert path.read_bytes() == before
    assert dsckpt.load(path)["model"]["w"][0, 0, 1] == 1


def test_no_mmap_reads(path: Path, state: dict[str, Any]) -> None:
    found = dsckpt.load(path, mmap=False)
    assert not owner_is_mapped(found["model"]["w"], path)
    path.write_bytes(b"")  # What a mapping would not survive.
    assert torch.equal(found["model"]["w"], state["model"]["w"])
    assert found["array"].tolist() == [0, 1, 2, 3, 4]


def test_file_system_that_refuses_mmap(
    path: Path, state: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(19, "No such device")

    monkeypatch.setattr(mapped._native, "map_private", refuse)
    found = dsckpt.load(path)
    assert torch.equal(found["model"]["w"], state["model"]["w"])
    assert torch.equal(dsckpt.open(path)["model/w"].torch(), state["model"]["w"])


def test_corruption(path: Path, state: dict[str, Any]) -> None:
    offset = dsckpt.open(path).native.find_tensor("model/w")[4]
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    for options in ({"mmap": False}, {"verify": True}):
        with pytest.raises(dsckpt.DsckptError, match="model/w") as caught:
            dsckpt.load(path, **options)
        assert caught.value.code == "Corrupt"
    assert dsckpt.load(path)["step"] == 7  # Mapped: nothing of the tensor was read.
    found = dsckpt.load(path, mmap=False, verify=False)["model"]["w"]
    assert torch.equal(found[0, 0, 1:], state["model"]["w"][0, 0, 1:])
    assert found[0, 0, 0] != 0


def test_an_object_at_two_places(tmp_path: Path) -> None:
    path = tmp_path / "state"
    dsckpt.save({"a": Path("x"), "b": Path("y")}, path)
    content = path.read_bytes()
    index = struct.unpack_from("<Q", content, len(content) - 128 + 24)[0]
    found = 0
    for at in range(index, len(content) - 128, 4):
        if content[at : at + 4] != struct.pack("<I", 1):
            continue
        path.write_bytes(resealed(content, at, struct.pack("<I", 0)))
        for call in (
            lambda: dsckpt.load(path, allow_pickle=True),
            lambda: dsckpt.load(path, allow=[type(Path("x"))]),
            lambda: dsckpt.load_into({"a": 0, "b": 0}, path, allow_pickle=True),
        ):
            try:
                call()
            except dsckpt.DsckptError as error:
                found += error.code == "Corrupt" and "at another place" in str(error)
    assert found == 3


LOCATIONS = {
    "str": "cpu",
    "device": torch.device("cpu"),
    "dict": {"cuda:0": "cpu"},
    "function": lambda storage, location: storage,
    "function that declines": lambda storage, location: None,
    "function that copies": lambda storage, location: storage.clone(),
}


@pytest.mark.parametrize("name", LOCATIONS)
def test_map_location(name: str, path: Path, state: dict[str, Any]) -> None:
    found = dsckpt.load(path, LOCATIONS[name])
    assert torch.equal(found["model"]["w"], state["model"]["w"])
    assert found["model"]["b"].tolist() == [1, 1, 1]
    assert found["array"].tolist() == [0, 1, 2, 3, 4]


def test_map_location_meta(path: Path) -> None:
    for location in ("meta", {"cpu": "meta"}, torch.device("meta")):
        found = dsckpt.load(path, location)
        assert (found["model"]["w"].device.type, found["model"]["w"].shape) == ("meta", (2, 3, 4))


def test_map_location_function_gets_storages(path: Path) -> None:
    seen = []

    def note(storage: Any, location: str) -> None:
        seen.append((type(storage), storage.nbytes(), location))

    dsckpt.load(path, note)
    assert sorted(seen, key=lambda s: s[1]) == [
        (torch.UntypedStorage, 6, "cpu"),
        (torch.UntypedStorage, 96, "cpu"),
    ]


def test_a_refusal_comes_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsckpt.save({"w": torch.ones(3), "o": Opaque()}, tmp_path / "s")
    monkeypatch.setattr("dsckpt.map_location.materialize", None)
    with pytest.raises(dsckpt.PickleRefused):
        dsckpt.load(tmp_path / "s", mmap=False)


class Opaque:
    pass


def test_safetensors_files_load_as_flat_dicts(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    want = {"a.w": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.int8)}
    safetensors.torch.save_file(want, path, metadata={"k": "v"})
    found = dsckpt.load(path)
    assert {k: v.tolist() for k, v in found.items()} == {k: v.tolist() for k, v in want.items()}
    file = dsckpt.open(path)
    assert (file.format, file.metadata, file.attributes) == ("safetensors", {"k": "v"}, {})
    assert file.tree()["b"].shape == (2,)
    into = {k: torch.zeros_like(v) for k, v in want.items()}
    dsckpt.load_into(into, path)
    assert torch.equal(into["a.w"], want["a.w"])


def test_misaligned_safetensors_are_copied(tmp_path: Path) -> None:
    header = json.dumps(
        {
            "u": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
            "f": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]},
            "d": {"dtype": "F64", "shape": [], "data_offsets": [11, 19]},
        }
    ).encode()
    path = tmp_path / "odd"
    payload = b"abc" + struct.pack("<2f", 1.5, -2) + struct.pack("<d", 0.25)
    path.write_bytes(struct.pack("<Q", len(header)) + header + payload)
    found = dsckpt.load(path)
    assert found["u"].tolist() == [97, 98, 99]
    assert (found["f"].tolist(), found["d"].item()) == ([1.5, -2], 0.25)
    assert found["f"].data_ptr() % 4 == found["d"].data_ptr() % 8 == 0
    assert dsckpt.open(path)["f"].numpy().tolist() == [1.5, -2]


def test_stock_loader_reads_the_file(path: Path, state: dict[str, Any]) -> None:
    found = safetensors.torch.load_file(path)
    assert torch.equal(found["model/w"], state["model"]["w"])


def test_a_file_replaced_while_it_is_opened(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, replaced = mapped.open_native, []

    def replace_first(name: Any, **options: Any) -> Any:
        if not replaced:
            replaced.append(name)
            dsckpt.save({"other": torch.full((999,), 5.0)}, path)
        return real(name, **options)

    monkeypatch.setattr(mapped, "open_native", replace_first)
    assert dsckpt.load(path)["other"].unique().tolist() == [5]


def test_a_file_replaced_all_the_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = mapped.open_native

    def replace(name: Any, **options: Any) -> Any:
        dsckpt.save({}, path)
        return real(name, **options)

    monkeypatch.setattr(mapped, "open_native", replace)
    with pytest.raises(dsckpt.DsckptError, match="again and again"):
        dsckpt.load(path)


def test_without_torch_everything_is_an_array(path: Path) -> None:
    code = """
import sys
sys.modules["torch"] = None
import dsckpt
state = dsckpt.load(sys.argv[1])
assert (state["model"]["w"].shape, state["model"]["w"].sum()) == ((2, 3, 4), 276)
assert state["model"]["b"].dtype.name == "bfloat16", state["model"]["b"].dtype
state["model"]["b"][0] = 2
assert state["array"].tolist() == [0, 1, 2, 3, 4]
assert dsckpt.load(sys.argv[1], mmap=False)["model"]["w"].sum() == 276
assert dsckpt.open(sys.argv[1])["model/w"][1, 2].tolist() == [20, 21, 22, 23]
dsckpt.load_into(state, sys.argv[1])
assert state["model"]["b"][0] == 1
dsckpt.save(state, sys.argv[2])
assert dsckpt.load(sys.argv[2], map_location="cpu").keys() == state.keys()
try:
    dsckpt.load(sys.argv[2], map_location="cuda")
except dsckpt.DsckptError as error:
    assert "needs torch" in str(error)
else:
    raise AssertionError
assert dsckpt.load(sys.argv[2])["model"]["b"].tolist() == [1, 1, 1]
"""
    copy = path.with_name("copy")
    subprocess.run([sys.executable, "-c", code, str(path), str(copy)], check=True)
    assert dsckpt.load(copy)["model"]["b"].dtype.name == "bfloat16"  # An array now.
