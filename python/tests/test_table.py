"""Tables: columns of numpy, the C data interface of Arrow, pickling, parts put together."""

from __future__ import annotations

import gc
import math
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dsckpt
from dsckpt import _native

ROWS = 40_000  # Three batches, the last of which is no whole byte of bits.


def _bits(there: Sequence[bool]) -> bytes:
    return np.packbits(there, bitorder="little").tobytes()


def _texts(name: str, texts: list[str | None]) -> tuple[Any, ...]:
    parts = [(text or "").encode() for text in texts]
    ends = np.cumsum([0] + [len(part) for part in parts])
    valid = _bits([text is not None for text in texts]) if None in texts else b""
    return name, "u", None in texts, b"".join(parts), valid, ends.astype("<i8").tobytes()


def _numbers(name: str, kind: str, values: list[Any]) -> tuple[Any, ...]:
    dtype = {"i": "<i4", "I": "<u4", "l": "<i8", "L": "<u8", "g": "<f8"}[kind]
    empty = math.nan if kind == "g" else 0
    data = np.array([empty if value is None else value for value in values], dtype)
    valid = _bits([value is not None for value in values]) if None in values else b""
    return name, kind, None in values, data.tobytes(), valid, b""


def _table(*columns: tuple[Any, ...], rows: int) -> dsckpt.Table:
    return dsckpt.Table(_native.Table(columns, rows))


def _columns() -> dict[str, list[Any]]:
    rows = range(ROWS)
    return {
        "name": [f"tensor \u03b1 {row % 7}" for row in rows],
        "digest": [None if row % 3 == 0 else f"{row:032x}" for row in rows],
        "step": [None if row % 5 == 4 else row * 2**40 - 7 for row in rows],
        "layer": [None if row < 20_000 else -row for row in rows],
        "n": [2**64 - 1 - row for row in rows],
        "flags": [row % 16 for row in rows],
        "norm": [None if row == ROWS - 1 else row / 7 for row in rows],
        "zero": [0.0] * ROWS,
    }


@pytest.fixture(scope="module")
def columns() -> dict[str, list[Any]]:
    return _columns()


@pytest.fixture(scope="module")
def table(columns: dict[str, list[Any]]) -> dsckpt.Table:
    kinds = {"step": "l", "layer": "i", "n": "L", "flags": "I", "norm": "g", "zero": "g"}
    return _table(
        *(
            _numbers(name, kinds[name], values) if name in kinds else _texts(name, values)
            for name, values in columns.items()
        ),
        rows=ROWS,
    )


def test_columns_of_numpy(table: dsckpt.Table, columns: dict[str, list[Any]]) -> None:
    assert len(table) == ROWS
    assert table.names == list(table) == list(columns)
    assert "norm" in table
    assert "Norm" not in table
    assert table["name"].tolist() == columns["name"]
    assert table["digest"].tolist() == columns["digest"]
    assert table["step"].tolist() == columns["step"]
    assert table["layer"].tolist() == columns["layer"]
    assert table["n"].tolist() == columns["n"]
    assert not np.ma.isMaskedArray(table["n"])
    norm = table["norm"]
    assert norm[:-1].tolist() == columns["norm"][:-1]
    assert math.isnan(norm[-1])
    assert not norm.flags.writeable
    assert not norm.flags.owndata
    assert list(table.numpy()) == list(columns)
    with pytest.raises(KeyError, match="no column 'x': there are name, digest"):
        table["x"]


def test_arrays_outlive_the_table() -> None:
    values = _table(_numbers("x", "g", [1.5, 2.5]), rows=2)["x"]
    gc.collect()
    assert values.tolist() == [1.5, 2.5]


def test_pyarrow(table: dsckpt.Table, columns: dict[str, list[Any]]) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    taken = pyarrow.table(table)
    taken.validate(full=True)
    assert taken.num_rows == ROWS
    assert len(taken.to_batches()) == 3
    assert [str(field.type) for field in taken.schema] == [
        "string",
        "string",
        "int64",
        "int32",
        "uint64",
        "uint32",
        "double",
        "double",
    ]
    assert taken.to_pydict() == columns
    assert taken["layer"].null_count == 20_000
    assert taken["zero"].null_count == 0
    assert pyarrow.schema(table) == taken.schema


def test_what_pyarrow_took_outlives_the_table() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    made = _table(
        _texts("name", ["a", "b"] * 10_000), _numbers("x", "g", [1.0] * 20_000), rows=20_000
    )
    reader = pyarrow.RecordBatchReader.from_stream(made)
    first = reader.read_next_batch()
    del made, reader
    gc.collect()
    names = first.column(0)
    del first
    gc.collect()
    assert names.to_pylist() == ["a", "b"] * (len(names) // 2)


def test_capsules_that_nobody_takes_are_released() -> None:
    made = _table(_numbers("x", "g", [1.0] * 100_000), rows=100_000)
    native = made._native
    before = sys.getallocatedblocks()
    for _ in range(1_000):
        made.__arrow_c_stream__()
        made.__arrow_c_schema__()
    assert sys.getallocatedblocks() - before < 100
    assert native.rows == 100_000


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_memory_is_given_back(table: dsckpt.Table) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

    def take() -> None:
        # 8 MB of numbers are made each time, and shared.
        made = pickle.loads(pickle.dumps(table))
        pyarrow.table(made)

    for _ in range(5):
        take()
    gc.collect()
    before = _resident()
    for _ in range(40):
        take()
    gc.collect()
    assert _resident() - before < 40e6


def test_polars(table: dsckpt.Table, columns: dict[str, list[Any]]) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame(table)
    assert frame.to_dict(as_series=False) == columns
    assert frame["layer"].null_count() == 20_000


def test_duckdb(table: dsckpt.Table, columns: dict[str, list[Any]]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    connection = duckdb.connect()
    connection.register("taken", table)
    rows = connection.sql("select name, count(*), count(layer), max(n) from taken group by 1")
    names = columns["name"]
    assert sorted(rows.fetchall()) == [
        (
            name,
            names.count(name),
            sum(1 for n, layer in zip(names, columns["layer"]) if n == name and layer is not None),
            max(n for each, n in zip(names, columns["n"]) if each == name),
        )
        for name in sorted(set(names))
    ]


def test_pandas(table: dsckpt.Table, columns: dict[str, list[Any]]) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    frame = pandas.DataFrame.from_arrow(table)
    assert frame["n"].tolist() == columns["n"]
    assert frame["layer"].isna().sum() == 20_000
    assert frame["name"].tolist() == columns["name"]


def test_a_table_without_rows() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    made = _table(_texts("name", []), _numbers("x", "g", []), rows=0)
    assert len(made["name"]) == len(made["x"]) == 0
    taken = pyarrow.table(made)
    taken.validate(full=True)
    assert taken.num_rows == 0
    assert taken.schema.names == ["name", "x"]
    assert pickle.loads(pickle.dumps(made)) == made


def test_pickles_have_the_same_bits(table: dsckpt.Table) -> None:
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert again["digest"].tolist() == table["digest"].tolist()
    assert pickle.dumps(again) == pickle.dumps(table)
    minus = _table(_numbers("x", "g", [-0.0]), rows=1)
    assert minus != _table(_numbers("x", "g", [0.0]), rows=1)
    assert minus != _table(_numbers("y", "g", [-0.0]), rows=1)
    with pytest.raises(TypeError):
        hash(minus)


def test_combining_sorts_by_name_and_keeps_bits() -> None:
    def part(names: list[str], xs: list[float | None], layers: list[int | None]) -> dsckpt.Table:
        name = _texts("name", names)  # type: ignore[arg-type]
        x, layer = _numbers("x", "g", xs), _numbers("layer", "i", layers)
        columns = [name, (*x[:2], True, *x[3:]), (*layer[:2], True, *layer[3:])]
        return _table(*columns, rows=len(names))

    b = part(["b", "b", "c"], [1, None, 3], [1, 2, 3])
    a = part(["a", "d"], [4, 5], [None, 7])
    none = part([], [], [])
    both = part(["a", "b", "b", "c", "d"], [4, 1, None, 3, 5], [None, 1, 2, 3, 7])
    assert dsckpt.combine([b, none, a]) == dsckpt.combine([a, b]) == both
    assert dsckpt.combine([both]) == both
    with pytest.raises(dsckpt.DsckptError, match="'b' is in two of the tables"):
        dsckpt.combine([b, part(["b"], [1], [1])])
    with pytest.raises(dsckpt.DsckptError, match="different columns"):
        dsckpt.combine([b, _table(_texts("name", ["x"]), rows=1)])
    with pytest.raises(dsckpt.DsckptError, match="no table"):
        dsckpt.combine([])
    with pytest.raises(dsckpt.DsckptError, match="no column 'name'"):
        dsckpt.combine([_table(_numbers("x", "g", [1.0]), rows=1)])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (("x", "g", False, b"1234567", b"", b""), "its values have another length"),
        (("x", "z", False, b"", b"", b""), "the type 'z'"),
        (("x", "gg", False, b"", b"", b""), "the type 'gg'"),
        (("x", "l", True, bytes(16), b"12", b""), "bitmap"),
        (("x", "u", False, b"ab", b"", np.array([0, 2, 1]).tobytes()), "do not follow"),
        (("x", "u", False, b"ab", b"", np.array([0, 3, 2]).tobytes()), "do not follow"),
        (("x", "u", False, b"ab", b"", np.array([0, 2]).tobytes()), "do not follow"),
        (("x", "u", False, b"a" * 70_000, b"", np.array([0, 0, 70_000]).tobytes()), "longer"),
    ],
)
def test_pickles_of_strangers_are_checked(column: Any, message: str) -> None:
    with pytest.raises(dsckpt.DsckptError, match=message):
        _table(column, rows=2)


@pytest.mark.parametrize("rows", [1, 2**48, 2**61, 2**64 - 1])
def test_no_table_has_so_many_rows(rows: int) -> None:
    columns = [] if rows == 1 else [("x", "g", False, b"", b"", b"")]
    with pytest.raises(dsckpt.DsckptError, match=f"no table has {rows} rows"):
        _table(*columns, rows=rows)
