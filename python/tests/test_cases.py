"""Faults that people met with other checkpoint tools: here the right thing happens."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.torch
import torch

import dsckpt
from dsckpt import tools


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def raw(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """A tensor whose bytes are 1, 2, 3, ..., NaN payloads included."""
    size = torch.empty(shape, dtype=dtype).nbytes
    return (torch.arange(1, size + 1) % 251).to(torch.uint8).view(dtype).reshape(shape)


EVERY_DTYPE = {
    "f8_e4m3": raw(torch.float8_e4m3fn, 3),
    "f8_e5m2": raw(torch.float8_e5m2, 3),
    "f8_e8m0": raw(torch.float8_e8m0fnu, 3),
    "f8_e4m3fnuz": raw(torch.float8_e4m3fnuz, 3),
    "f8_e5m2fnuz": raw(torch.float8_e5m2fnuz, 3),
    "f4": raw(torch.float4_e2m1fn_x2, 2, 4),
    "c64": raw(torch.complex64, 4),
    "c128": raw(torch.complex128, 2),
    "u16": raw(torch.uint16, 3),
    "u32": raw(torch.uint32, 3),
    "u64": raw(torch.uint64, 3),
    "i8": raw(torch.int8, 3),
    "i16": raw(torch.int16, 3),
    "i32": raw(torch.int32, 3),
    "i64": raw(torch.int64, 3),
    "bool": torch.tensor([True, False, True]),
    "f16": raw(torch.float16, 3),
    "f32": raw(torch.float32, 3),
    "f64": raw(torch.float64, 3),
    "bf16 nan": torch.tensor([0x7FC1, 0xFF81, 0x7F81]).to(torch.uint16).view(torch.bfloat16),
}
STORED_AS = {"f8_e4m3": "F8_E4M3", "f8_e5m2": "F8_E5M2", "f8_e8m0": "F8_E8M0", "bf16 nan": "BF16"}


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> str:
    return tools.program()


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("encoding", ["raw", "zstd", "byteplane-zstd"])
def test_c01_every_dtype_is_bit_exact(encoding: Any, mmap: bool, tmp_path: Path) -> None:
    path = tmp_path / "all"
    dsckpt.save(EVERY_DTYPE, path, encoding=encoding)
    found = dsckpt.load(path, mmap=mmap)
    assert list(found) == list(EVERY_DTYPE)
    for name, want in EVERY_DTYPE.items():
        assert (found[name].dtype, found[name].shape) == (want.dtype, want.shape), name
        assert bits(found[name]) == bits(want), name
    into = {name: torch.empty_like(want) for name, want in EVERY_DTYPE.items()}
    dsckpt.load_into(into, path)
    assert {name: bits(t) for name, t in into.items()} == {
        name: bits(t) for name, t in EVERY_DTYPE.items()
    }
    with dsckpt.open(path) as file:
        for name, want in EVERY_DTYPE.items():
            if name != "f4":
                assert file[name].numpy().tobytes() == bits(want), name
                assert bits(file[name][1:]) == bits(want[1:].clone()), name
            assert file[name].dtype == STORED_AS.get(name, name.upper()), name


def test_c01_every_dtype_through_numpy(tmp_path: Path) -> None:
    names = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
    arrays = {n: np.arange(3).astype(getattr(ml_dtypes, n)) for n in names}
    arrays |= {n: np.arange(3).astype(n) for n in ("c8", "c16", "u2", "u4", "u8", "?", "f2")}
    dsckpt.save(arrays, tmp_path / "a")
    found = dsckpt.load(tmp_path / "a")
    for name, want in arrays.items():
        assert (found[name].dtype, found[name].tobytes()) == (want.dtype, want.tobytes()), name


def test_c01_through_export_and_import(tmp_path: Path, program: str) -> None:
    state = {name: t for name, t in EVERY_DTYPE.items() if name != "c128"}
    dsckpt.save(state, tmp_path / "a")
    for arguments in (["export", "a", "-o", "b"], ["import", "b", "-o", "c"]):
        subprocess.run([program, *arguments], cwd=tmp_path, check=True, capture_output=True)
    for name in "bc":
        found = dsckpt.load(tmp_path / name)
        assert {n: (t.dtype, bits(t)) for n, t in found.items()} == {
            n: (t.dtype, bits(t)) for n, t in state.items()
        }


def test_c01_dtype_that_numpy_alone_has(tmp_path: Path) -> None:
    array = np.arange(8).astype(ml_dtypes.float6_e2m3fn)
    dsckpt.save({"f6": array}, tmp_path / "a")
    with dsckpt.open(tmp_path / "a") as file:
        assert file["f6"].dtype == "F6_E2M3"
        assert file["f6"].numpy().tolist() == array.tolist()
        with pytest.raises(dsckpt.DsckptError, match="'f6' has dtype F6_E2M3") as caught:
            file["f6"].torch()
    assert caught.value.code == "Unsupported"


def test_c01_f4_with_an_odd_count_is_refused(tmp_path: Path) -> None:
    odd = np.zeros((7,), ml_dtypes.float4_e2m1fn)
    with pytest.raises(dsckpt.DsckptError, match="'f4'"):
        dsckpt.save({"f4": odd}, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    even = np.arange(14).reshape(2, 7).astype(ml_dtypes.float4_e2m1fn)
    dsckpt.save({"f4": even}, tmp_path / "a")
    assert dsckpt.load(tmp_path / "a")["f4"].tolist() == even.tolist()
    # torch pairs F4 along the last dimension.
    with pytest.raises(dsckpt.DsckptError, match=r"F4 .* shape \[2, 7\]"):
        dsckpt.open(tmp_path / "a")["f4"].torch()


@pytest.mark.parametrize("mmap", [True, False])
def test_c02_empty_tensors_keep_their_shapes(mmap: bool, tmp_path: Path) -> None:
    state = {
        "a": torch.empty(0),
        "b": torch.empty(2, 0),
        "c": torch.empty(0, 8),
        "d": torch.ones(1),
    }
    dsckpt.save(state, tmp_path / "a")
    found = dsckpt.load(tmp_path / "a", mmap=mmap)
    assert {k: tuple(v.shape) for k, v in found.items()} == {
        "a": (0,),
        "b": (2, 0),
        "c": (0, 8),
        "d": (1,),
    }
    assert found["d"].item() == 1
    assert len({id(t) for t in found.values()}) == 4
    file = dsckpt.open(tmp_path / "a")
    assert not file.native.aliases()
    assert file["c"].numpy().shape == (0, 8)
    assert file["c"][:, 2:4].shape == (0, 2)
    assert dsckpt.load_into(state, tmp_path / "a") is state


def test_c02_nothing_but_empty_tensors(tmp_path: Path) -> None:
    dsckpt.save({"a": torch.empty(0), "n": np.empty((3, 0), "i2")}, tmp_path / "a")
    found = dsckpt.load(tmp_path / "a")
    assert (found["a"].shape, found["n"].shape) == ((0,), (3, 0))
    assert safetensors.torch.load_file(tmp_path / "a")["a"].shape == (0,)


def test_c08_names_are_data(tmp_path: Path) -> None:
    t = [torch.full((1,), float(i)) for i in range(10)]
    state = {
        "test/test": t[1],
        "a": {"b": t[2]},
        "a/b": t[3],
        "a.b": t[4],
        "a|b": t[5],
        "0": t[6],
        0: t[7],
        "": t[8],
        "state": {0: {"exp_avg": t[9]}},
    }
    dsckpt.save(state, tmp_path / "a")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    found = dsckpt.load(tmp_path / "a")
    assert list(found) == list(state)
    assert found["a"]["b"].item() == 2
    assert found["state"][0]["exp_avg"].item() == 9
    plain = {k: v.item() for k, v in found.items() if isinstance(v, torch.Tensor)}
    assert plain == {"test/test": 1, "a/b": 3, "a.b": 4, "a|b": 5, "0": 6, 0: 7, "": 8}
    assert len(dsckpt.open(tmp_path / "a")) == 9


def test_c10_tied_names_both_load(tmp_path: Path, program: str) -> None:
    model = torch.nn.ModuleDict(
        {"embed": torch.nn.Embedding(8, 4), "lm_head": torch.nn.Linear(4, 8, bias=False)}
    )
    model["lm_head"].weight = model["embed"].weight
    want = model["embed"].weight.detach().clone()
    dsckpt.save(model.state_dict(), tmp_path / "a")
    found = dsckpt.load(tmp_path / "a")
    assert found["embed.weight"] is found["lm_head.weight"]
    file = dsckpt.open(tmp_path / "a")
    assert len(file.native.tensors()) == 1
    assert file["lm_head.weight"].shape == (8, 4)
    assert sorted(file) == ["embed.weight", "lm_head.weight"]

    tools.merge(tmp_path / "a", tmp_path / "m")
    for arguments in (["export", "m", "-o", "b"], ["import", "b", "-o", "c"]):
        subprocess.run([program, *arguments], cwd=tmp_path, check=True, capture_output=True)
    for name in "mc":
        again = dsckpt.load(tmp_path / name)
        assert again["embed.weight"] is again["lm_head.weight"]
        assert torch.equal(again["lm_head.weight"], want)

    with torch.no_grad():
        model["embed"].weight.zero_()
    dsckpt.load_into(model.state_dict(), tmp_path / "a")
    assert torch.equal(model["lm_head"].weight, want)


def test_c11_a_slice_does_not_write_its_storage(tmp_path: Path) -> None:
    base = torch.arange(1_000_000.0)
    dsckpt.save({"part": base[:1000]}, tmp_path / "a")
    assert (tmp_path / "a").stat().st_size < 4_000 + 16_384
    assert torch.equal(dsckpt.load(tmp_path / "a")["part"], base[:1000])
    dsckpt.save({"x": base[:10], "y": base[2:4]}, tmp_path / "b")
    found = dsckpt.load(tmp_path / "b")
    assert (found["x"].tolist(), found["y"].tolist()) == (list(range(10)), [2, 3])


def test_c13_saving_a_mapped_tensor_over_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "p"
    dsckpt.save({"w": torch.tensor([1.0, 2.0, 3.0])}, path)
    mapped = dsckpt.load(path)
    lazy = dsckpt.open(path)["w"]
    dsckpt.save(mapped, path)
    assert mapped["w"].tolist() == [1, 2, 3]
    assert lazy.torch().tolist() == [1, 2, 3]
    assert dsckpt.load(path)["w"].tolist() == [1, 2, 3]
    mapped["w"].add_(1)
    assert dsckpt.load(path)["w"].tolist() == [1, 2, 3]
