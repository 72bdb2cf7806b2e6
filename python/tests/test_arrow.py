"""Files of Apache Arrow that commands write, as other programs read them."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsckpt
from dsckpt import tools

Rows = list[dict[str, Any]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    tensors = {
        "empty": np.zeros((0, 3), np.float32),
        "nothing finite": np.full(2, np.nan, np.float32),
        "scalar": np.array(7),
        'ungew\u00f6hnlich, "q"': np.array([[1.5, -2], [np.inf, 0]]),
        "tiny": np.array([5e-324, 1e-300]),
    }
    dsckpt.save(tensors, tmp_path / "a.dsckpt")
    return tmp_path / "a.dsckpt"


def _dsckpt(*args: str | Path) -> None:
    subprocess.run([tools.program(), *args], check=True, capture_output=True)


def _stats(checkpoint: Path, suffix: str, *args: str) -> Path:
    out = checkpoint.parent / f"stats.{suffix}"
    _dsckpt("stats", checkpoint, "-o", out, *args)
    return out


def _with_pyarrow(path: Path) -> Rows:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pyarrow.ipc.open_file(path) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table.to_pylist()


def _with_polars(path: Path) -> Rows:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.read_ipc(path).to_dicts()


def _with_duckdb(path: Path) -> Rows:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pyarrow.memory_map(str(path)) as source:
        stats = pyarrow.ipc.open_file(source).read_all()
        found = duckdb.sql("select * from stats")
        assert stats.num_rows == len(found)
        return [dict(zip(found.columns, row)) for row in found.fetchall()]


def _in_csv(row: dict[str, Any]) -> dict[str, str]:
    def text(value: Any) -> str:
        if isinstance(value, list):
            return json.dumps(value, separators=(",", ":"))
        return "" if value is None else str(value)

    return {name: text(value) for name, value in row.items()}


@pytest.mark.parametrize("read", [_with_pyarrow, _with_polars, _with_duckdb])
def test_the_values_of_all_formats_are_equal(checkpoint: Path, read: Any) -> None:
    rows = read(_stats(checkpoint, "arrow"))
    assert len(rows) == 5
    lines = _stats(checkpoint, "jsonl").read_text().splitlines()
    assert rows == [json.loads(line) for line in lines]
    assert [list(row) for row in rows] == [list(json.loads(line)) for line in lines]
    with open(_stats(checkpoint, "csv"), newline="", encoding="utf-8") as file:
        in_csv = list(csv.DictReader(file))
    for row, texts in zip(rows, in_csv):
        numbers = {name for name, value in row.items() if isinstance(value, float)}
        assert {name: row[name] for name in numbers} == {n: float(texts[n]) for n in numbers}
        words = _in_csv(row)
        assert {n: words[n] for n in words if n not in numbers} == {
            n: texts[n] for n in words if n not in numbers
        }


def test_types_and_missing_values(checkpoint: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pyarrow.ipc.open_file(_stats(checkpoint, "arrow")) as reader:
        table = reader.read_all()
    types = {field.name: str(field.type) for field in table.schema}
    assert types["name"] == "string"
    assert types["shape"] == "list<item: int64 not null>"
    assert types["nan"] == "uint64"
    assert types["norm"] == "double"
    assert table["mean"].null_count == 2
    assert table["nan"].null_count == 0
    assert table["shape"].to_pylist() == [[0, 3], [2], [], [2], [2, 2]]


def test_other_columns_and_no_rows(checkpoint: Path) -> None:
    rows = _with_pyarrow(_stats(checkpoint, "arrow", "--columns", "max,name", "--limit", "1"))
    assert rows == [{"max": None, "name": "empty"}]
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pyarrow.ipc.open_file(_stats(checkpoint, "arrow", "--limit", "0")) as reader:
        assert reader.num_record_batches == 0
        assert reader.schema.names[0] == "name"


def test_many_rows_are_several_batches(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    count = 66_000
    tensors = {f"t{i}": np.full(1, i, np.int32) for i in range(count)}
    dsckpt.save_safetensors(tensors, tmp_path / "many.safetensors")
    _dsckpt("stats", tmp_path / "many.safetensors", "-o", tmp_path / "many.arrow")
    with pyarrow.ipc.open_file(tmp_path / "many.arrow") as reader:
        assert [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)] == [
            65_536,
            count - 65_536,
        ]
        table = reader.read_all()
    table.validate(full=True)
    found = dict(zip(table["name"].to_pylist(), table["mean"].to_pylist()))
    assert found == {f"t{i}": i for i in range(count)}


def test_diff_writes_arrow(checkpoint: Path, tmp_path: Path) -> None:
    dsckpt.save({"scalar": np.array(9), "new": np.zeros(2)}, tmp_path / "b.dsckpt")
    out = tmp_path / "diff.arrow"
    found = subprocess.run(
        [tools.program(), "diff", checkpoint, tmp_path / "b.dsckpt", "--format", "arrow"],
        capture_output=True,
    )
    assert found.returncode == 1, found.stderr
    out.write_bytes(found.stdout)
    rows = {row["name"]: row for row in _with_pyarrow(out)}
    assert rows["scalar"]["state"] == "changed"
    assert rows["scalar"]["max_abs"] == 2
    assert rows["new"]["shape_a"] is None
    assert rows["new"]["shape_b"] == [2]
