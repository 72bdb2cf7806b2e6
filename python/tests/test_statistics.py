"""Statistics of tensors, beside sums that are exact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dsckpt

_FLOATS = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
_OTHERS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def _values(dtype: torch.dtype, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    values = torch.randn(count, generator=generator, dtype=torch.float64) * 7
    if not dtype.is_floating_point:
        return values.abs().to(dtype)
    values[values.abs() < 0.2] = 0
    values[0], values[count // 2], values[-1] = math.nan, -math.inf, math.inf
    return values.to(dtype)


def _check(found: dsckpt.TensorStatistics | None, tensor: torch.Tensor) -> None:
    assert found is not None
    values = tensor.to(torch.float64)
    finite = values[values.isfinite()].tolist()
    assert found.nan == int(values.isnan().sum())
    assert found.inf == int(values.isinf().sum())
    assert found.zero == finite.count(0.0)
    assert found.min == min(finite)
    assert found.max == max(finite)
    scale = math.fsum(map(abs, finite))
    assert abs(found.sum - math.fsum(finite)) <= 1e-12 * scale
    squares = math.fsum(value * value for value in finite)
    assert abs(found.sum_squares - squares) <= 1e-12 * squares


@pytest.mark.parametrize("dtype", [*_FLOATS, *_OTHERS])
def test_statistics_are_those_of_the_elements(tmp_path: Path, dtype: torch.dtype) -> None:
    state = {f"t{count}": _values(dtype, count) for count in (5, 17, 4096, 100_001)}
    dsckpt.save(state, tmp_path / "f.dsckpt", statistics=True)
    with dsckpt.open(tmp_path / "f.dsckpt") as file:
        for name, tensor in state.items():
            _check(file.statistics(name), tensor)


def test_complex_elements_count_by_their_modulus(tmp_path: Path) -> None:
    values = torch.tensor([3 + 4j, 0, complex(math.nan, 1), complex(1, -math.inf), -2])
    dsckpt.save({"z": values}, tmp_path / "f.dsckpt", statistics=True)
    found = dsckpt.open(tmp_path / "f.dsckpt").statistics("z")
    assert found == dsckpt.TensorStatistics(
        nan=1, inf=1, zero=1, min=0.0, max=5.0, sum=7.0, sum_squares=29.0
    )


def test_a_file_has_them_when_they_were_asked_for(tmp_path: Path) -> None:
    tensor = torch.arange(6.0)
    dsckpt.save({"a": tensor, "b": tensor}, tmp_path / "with.dsckpt", statistics=True)
    dsckpt.save({"a": tensor}, tmp_path / "without.dsckpt")
    file = dsckpt.open(tmp_path / "with.dsckpt")
    assert file.statistics("a") == file.statistics("b") is not None  # Tied: stored once.
    assert dsckpt.open(tmp_path / "without.dsckpt").statistics("a") is None
    with pytest.raises(KeyError, match="no tensor 'c'"):
        file.statistics("c")
    with pytest.raises(dsckpt.DsckptError, match="statistics is 1: give True or False"):
        dsckpt.save({"a": tensor}, tmp_path / "with.dsckpt", statistics=1)  # type: ignore[arg-type]


def test_tensors_that_are_not_finite_are_events(tmp_path: Path) -> None:
    events: list[tuple[str, str]] = []
    writer = dsckpt.AsyncWriter(1 << 20, on_event=lambda *event: events.append(event))
    state: dict[str, Any] = {"good": np.ones(3), "bad": np.array([1.0, math.nan, math.inf])}
    with writer:
        writer.save(state, tmp_path / "f.dsckpt", statistics=True).durable()
    messages = [message for kind, message in events if kind == "not-finite"]
    assert len(messages) == 1
    assert "tensor 'bad': 1 NaN, 1 Inf of 3 elements" in messages[0]
    assert str(tmp_path / "f.dsckpt") in messages[0]


def test_a_run_has_the_statistics_of_its_tensors(tmp_path: Path) -> None:
    tensor = torch.arange(9, dtype=torch.bfloat16)
    with dsckpt.Run(tmp_path / "run") as run:
        run.save(1, {"w": tensor}, statistics=True).durable()
        checkpoint = run.latest()
    assert checkpoint is not None
    _check(checkpoint.statistics("w"), tensor)
