"""Tables of results: columns that other libraries take without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    import numpy

_NUMPY_TYPES = {"i": "<i4", "I": "<u4", "l": "<i8", "L": "<u8", "g": "<f8"}

# Name, type, whether values may be missing, values, bitmap of those that are there, offsets.
_Parts = tuple[str, str, bool, bytes, bytes, bytes]


class Table:
    """Rows under named columns, which never change. It can be pickled, and compared by its bits.

    pyarrow, polars, duckdb, pandas and others take it as it is, by the C data interface of Apache
    Arrow: numbers are not copied. Where a value is missing, theirs is null.

    Example:
        >>> table = run.updates("*.weight")
        >>> table["norm"].max()
        >>> polars.DataFrame(table).group_by("layer").agg(polars.col("upd_ratio").max())
        >>> pyarrow.parquet.write_table(pyarrow.table(table), "updates.parquet")
        >>> duckdb.sql("select name, max(upd_per_step) from table group by name")
    """

    def __init__(self, native: _native.Table) -> None:
        """Tables come from calls that measure."""
        self._native = native
        self._columns = {column[0]: column for column in native.columns()}

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._columns)

    def __len__(self) -> int:
        """The number of rows."""
        return self._native.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> numpy.ndarray[Any, Any]:
        """A column.

        Returns:
            Of numbers the memory of the table itself, read only: float64, in which a missing value
            is NaN; or integers, as a numpy.ma.MaskedArray where values may be missing. Of texts an
            array of str and None.

        Raises:
            KeyError: There is no such column.
        """
        import numpy

        if name not in self._columns:
            raise KeyError(f"no column {name!r}: there are {', '.join(self._columns)}")
        _, kind, optional, values, valid, _ = self._columns[name]
        there = numpy.unpackbits(
            numpy.frombuffer(valid, numpy.uint8), count=len(self) if valid else 0, bitorder="little"
        ).astype(bool)
        if kind == "u":
            return self._texts(name, there)
        numbers = numpy.frombuffer(values, _NUMPY_TYPES[kind])
        if kind == "g" or not optional:
            return numbers
        mask = ~there if valid else numpy.zeros(len(self), bool)
        return numpy.ma.MaskedArray(numbers, mask)

    def _texts(self, name: str, there: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        import numpy

        _, _, _, values, _, offsets = self._columns[name]
        text = bytes(values)
        ends = numpy.frombuffer(offsets, "<i8").tolist()
        # Names repeat: one object stands for all that are equal.
        known: dict[bytes, str] = {}
        found = numpy.empty(len(self), object)
        for row in range(len(self)):
            if len(there) and not there[row]:
                continue
            part = text[ends[row] : ends[row + 1]]
            if part not in known:
                known[part] = part.decode()
            found[row] = known[part]
        return found

    def numpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """All columns by name, as `table[name]` gives them."""
        return {name: self[name] for name in self._columns}

    def __arrow_c_schema__(self) -> object:
        """The columns' types, as the Arrow PyCapsule interface has it."""
        return self._native.arrow_schema()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, in batches, as the Arrow PyCapsule interface has it.

        Args:
            requested_schema: Of no effect, which the interface allows: consumers cast themselves.
        """
        return self._native.arrow_stream()

    def __eq__(self, other: object) -> bool:
        """Whether both have the same columns with the same bits."""
        if not isinstance(other, Table):
            return NotImplemented
        mine, its = self._native.columns(), other._native.columns()
        return len(self) == len(other) and mine == its

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        parts: list[_Parts] = [
            (name, kind, optional, bytes(values), bytes(valid), bytes(offsets))
            for name, kind, optional, values, valid, offsets in self._native.columns()
        ]
        return _unpickle, (parts, len(self))

    def __repr__(self) -> str:
        return f"Table({len(self)} rows, {', '.join(self._columns)})"


def _unpickle(parts: Sequence[_Parts], rows: int) -> Table:
    return Table(_native.Table(parts, rows))


def combine(tables: Sequence[Table]) -> Table:
    """The table of a whole run from those of its parts, in whatever order they come.

    Args:
        tables: What trace_part() gave for the parts of one Trajectory.parts().

    Returns:
        The table that one process makes, with the same bits.

    Raises:
        DsckptError: InvalidArgument: they have different columns, or one part is there twice.
    """
    return Table(_native.combine_tables([table._native for table in tables], "name"))
