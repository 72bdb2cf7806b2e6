"""Stretches of tensors in all checkpoints of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dsckpt

ELEMENTS = 10_000


def _tensors(step: int) -> dict[str, Any]:
    random = np.random.default_rng(step)
    return {
        "half": random.normal(size=(100, 100)).astype(ml_dtypes.bfloat16),
        "kept": np.arange(ELEMENTS, dtype=np.int32),
        "single": random.normal(size=ELEMENTS).astype(np.float32),
    }


@pytest.fixture
def run(tmp_path: Path) -> dsckpt.Trajectory:
    (tmp_path / "run").mkdir()
    for step in (0, 1, 2):
        path = tmp_path / "run" / f"step{step}.dsckpt"
        # One of them is decoded and not mapped.
        encoding: Any = "zstd" if step == 1 else "raw"
        dsckpt.save(_tensors(step), path, attributes={"step": step}, encoding=encoding)
    return dsckpt.Trajectory(tmp_path / "run")


def test_tiles_cover_each_element_once(run: dsckpt.Trajectory) -> None:
    small = list(run.tiles(memory=4 * 3 * 4096))
    assert [(tile.name, tile.range) for tile in small[:3]] == [
        ("half", (0, 4096)),
        ("half", (4096, 8192)),
        ("half", (8192, ELEMENTS)),
    ]
    assert [tile.name for tile in small] == ["half"] * 3 + ["kept"] * 3 + ["single"] * 3
    for name in run.names:
        rows = np.concatenate([tile.f32 for tile in small if tile.name == name], axis=1)
        assert rows.dtype == np.float32
        for step in range(3):
            expected = _tensors(step)[name].reshape(-1).astype(np.float32)
            np.testing.assert_array_equal(rows[step], expected)
    assert [tile.range for tile in run.tiles("kept")] == [(0, ELEMENTS)]


def test_what_indexes_say_of_a_tile(run: dsckpt.Trajectory) -> None:
    (half,) = run.tiles("half")
    assert (half.dtype, half.checkpoints, half.same) == ("BF16", (0, 1, 2), (False,) * 3)
    (kept,) = run.tiles("kept")
    assert kept.same == (False, True, True)
    assert repr(kept) == "Tile('kept', I32, [0:10000], 3 checkpoints)"


def test_a_step_is_as_it_is_stored(run: dsckpt.Trajectory) -> None:
    tile = list(run.tiles("half", memory=1))[1]
    for step in (0, 1, 2):
        found = tile.step(step)
        assert found.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(found, _tensors(step)["half"].reshape(-1)[4096:8192])
    mapped = tile.step(0)
    assert not mapped.flags.writeable
    del run
    assert float(mapped[0]) == float(_tensors(0)["half"].reshape(-1)[4096])


def test_other_forms_and_dtypes(tmp_path: Path) -> None:
    def save(step: int, tensors: dict[str, Any]) -> None:
        dsckpt.save(tensors, tmp_path / f"step{step}.dsckpt", attributes={"step": step})

    save(0, {"grows": np.zeros(2, np.float32), "c": np.ones(3, np.complex64)})
    save(1, {"grows": np.ones(5, np.float32), "c": np.ones(3, np.complex64)})
    save(2, {"c": np.ones(3, np.complex64), "empty": np.zeros((0, 4), np.float32)})
    save(3, {"grows": np.full(5, 3, np.float32), "bits": np.zeros(4, ml_dtypes.int4)})
    run = dsckpt.Trajectory(tmp_path)
    (grows,) = run.tiles("grows")
    assert grows.checkpoints == (1, 3)
    assert grows.f32.tolist() == [[1] * 5, [3] * 5]
    (complex_,) = run.tiles("c")
    assert complex_.step(0).tolist() == [1, 1, 1]
    with pytest.raises(dsckpt.DsckptError, match="which float32 does not hold"):
        _ = complex_.f32
    assert list(run.tiles("empty")) == []
    assert list(run.tiles("bits")) == []
    with pytest.raises(dsckpt.DsckptError, match="memory is 0"):
        run.tiles(memory=0)
