"""dsckpt.stats and dsckpt.diff, beside sums that are exact."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import dsckpt


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_stats(tmp_path: Path, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    values = (torch.randn(50_000, generator=generator, dtype=torch.float64) * 0.02 + 1).to(dtype)
    with_nan = values.clone()
    with_nan[7], with_nan[9] = math.nan, math.inf
    dsckpt.save({"a": values, "b": with_nan, "c": torch.tensor([math.nan])}, tmp_path / "f")
    a, b, c = dsckpt.stats(tmp_path / "f")
    exact = values.to(torch.float64).tolist()
    mean = math.fsum(exact) / len(exact)
    deviations = math.fsum((x - mean) * (x - mean) for x in exact)
    squares = math.fsum(x * x for x in exact)
    assert (a.name, a.shape, a.count, a.nan) == ("a", (50_000,), 50_000, 0)
    assert a.mean == pytest.approx(mean, rel=1e-12)
    assert a.std == pytest.approx(math.sqrt(deviations / len(exact)), rel=1e-12)
    assert a.norm == pytest.approx(math.sqrt(squares), rel=1e-12)
    assert a.rms == pytest.approx(math.sqrt(squares / len(exact)), rel=1e-12)
    assert (a.min, a.max) == (min(exact), max(exact))
    assert (b.nan, b.inf) == (1, 1)
    assert (c.nan, c.mean, c.norm) == (1, None, None)
    assert [row.name for row in dsckpt.stats(tmp_path / "f", filter="[ab]", exclude=["a"])] == ["b"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_diff(tmp_path: Path, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    a = torch.randn(20_000, generator=generator, dtype=torch.float64).to(dtype)
    b = (a.to(torch.float64) * 1.01).to(dtype)
    kept = torch.ones(3)
    dsckpt.save({"w": a, "same": kept, "old": torch.zeros(2)}, tmp_path / "a")
    dsckpt.save({"w": b, "same": kept, "new": torch.zeros(5)}, tmp_path / "b")
    found = {row.name_b or row.name_a: row for row in dsckpt.diff(tmp_path / "a", tmp_path / "b")}
    assert {name: row.state for name, row in found.items()} == {
        "w": "changed",
        "same": "equal",
        "old": "removed",
        "new": "added",
    }
    x, y = a.to(torch.float64).numpy(), b.to(torch.float64).numpy()
    difference = found["w"].difference
    assert difference is not None
    norm = math.sqrt(math.fsum(((y - x) ** 2).tolist()))
    assert difference.norm == pytest.approx(norm, rel=1e-12)
    assert difference.ratio == pytest.approx(
        norm / math.sqrt(math.fsum((x * x).tolist())), rel=1e-12
    )
    assert difference.max_abs == np.abs(y - x).max()
    assert difference.changed == int((x != y).sum())
    assert found["same"].difference is None
    (close,) = dsckpt.diff(tmp_path / "a", tmp_path / "b", filter="w", rtol=0.1)
    assert close.state == "close"


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(dsckpt.DsckptError):
        dsckpt.stats(tmp_path / "nowhere")


def test_the_elements_that_differ_most(tmp_path: Path) -> None:
    a = torch.zeros(3, 4, dtype=torch.bfloat16)
    b = a.clone()
    b[1, 2], b[0, 3], b[2, 3], b[2, 0] = 2.0, -2.0, 1.5, math.nan
    dsckpt.save({"w": a}, tmp_path / "a")
    dsckpt.save({"w": b}, tmp_path / "b")
    (found,) = dsckpt.diff(tmp_path / "a", tmp_path / "b", show=3)
    assert [element.index for element in found.elements] == [(2, 0), (0, 3), (1, 2)]
    assert math.isnan(found.elements[0].b)
    assert (found.elements[0].distance, found.elements[0].ulp) == (math.inf, None)
    assert found.elements[1] == dsckpt.ElementDiff((0, 3), 0.0, -2.0, 2.0, 0x4000)
    (found,) = dsckpt.diff(tmp_path / "a", tmp_path / "b")
    assert found.elements == ()
