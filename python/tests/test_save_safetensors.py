"""Plain safetensors that this package writes, against the stock loader and its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from test_writer import content

import dsckpt

stock = pytest.importorskip("safetensors.torch")


def state() -> dict[str, torch.Tensor]:
    """Every kind of name and of layout, and dtypes of one, two and eight bytes."""
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    return {
        "layers.0.weight": base,
        "transposed": base.T,
        "half": base[::2, 1:3].to(torch.bfloat16),
        "a/b/0": torch.arange(5),
        "a/b/1": torch.ones((), dtype=torch.float64),
        "0": torch.zeros(0, 3),
        "": torch.tensor([True, False]),
        "~0tilde~1slash": torch.ones(2, dtype=torch.uint8),
        "\u00e9": torch.ones(2, dtype=torch.float16),
    }


def test_the_stock_loader_reads_every_name_and_element(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    dsckpt.save_safetensors(state(), path)
    expected = {name: (t.dtype, tuple(t.shape), content(t)) for name, t in state().items()}
    for loaded in (stock.load_file(path), dsckpt.load(path)):
        found = {name: (t.dtype, tuple(t.shape), content(t)) for name, t in loaded.items()}
        assert found == expected
    with dsckpt.open(path) as file:
        assert (file.format, file.metadata) == ("safetensors", {"format": "pt"})


def test_what_load_reads_is_saved_again_as_it_was(tmp_path: Path) -> None:
    stock.save_file(
        {name: t.contiguous() for name, t in state().items()},
        tmp_path / "stock.safetensors",
        metadata={"format": "pt"},
    )
    loaded = dsckpt.load(tmp_path / "stock.safetensors")
    dsckpt.save_safetensors(loaded, tmp_path / "ours.safetensors")
    again = stock.load_file(tmp_path / "ours.safetensors")
    assert {n: content(t) for n, t in again.items()} == {n: content(t) for n, t in state().items()}


def test_metadata_arrays_and_ties(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    weight = torch.ones(3)
    dsckpt.save_safetensors(
        {"embed": weight, "head": weight, "array": numpy.arange(3, dtype=numpy.int16)},
        path,
        metadata={"format": "np", "license": "mit"},
    )
    with dsckpt.open(path) as file:
        assert file.metadata == {"format": "np", "head": "embed", "license": "mit"}
    loaded = stock.load_file(path)
    assert {name: t.tolist() for name, t in loaded.items()} == {
        "array": [0, 1, 2],
        "embed": [1, 1, 1],
    }


@pytest.mark.parametrize(
    ("tensors", "code", "words"),
    [
        ({"n": 3}, "InvalidArgument", r"tensors\['n'\] is of type int: safetensors hold tensors"),
        ({"a": {"b": torch.ones(1)}}, "InvalidArgument", r"tensors\['a'\] is of type dict"),
        ({1: torch.ones(1)}, "InvalidArgument", "a name of tensors is 1"),
        ({"a": torch.ones(2).to_sparse()}, "Unsupported", "'a', an object"),
        ({"~x": torch.ones(1)}, "Unsupported", "'~x' cannot be part of a name"),
        ({"a": torch.ones(1), "a/b": torch.ones(1)}, "Unsupported", "'a/b' begins with another"),
        ({"a/b": torch.ones(1), "a": torch.ones(1)}, "Unsupported", "'a' begins with another"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else None,
)
def test_what_cannot_be_written_is_refused(
    tmp_path: Path, tensors: Any, code: str, words: str
) -> None:
    with pytest.raises(dsckpt.DsckptError, match=words) as caught:
        dsckpt.save_safetensors(tensors, tmp_path / "a")
    assert caught.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(dsckpt.DsckptError, match="does not exist") as caught:
        dsckpt.save_safetensors({"a": torch.ones(1)}, tmp_path / "no" / "a")
    assert (caught.value.code, caught.value.errno) == ("NotFound", 2)
