"""Tables in Markdown and a plot of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

_UNITS = {"ms": 1e3, "us": 1e6}


@dataclass
class Table:
    """Medians in seconds: a row a candidate, a column a time.

    Attributes:
        reference: The row that the others are compared with in brackets; "": none.
        units: "ms" or "us" for each column; empty: all "ms".
    """

    title: str
    columns: list[str]
    rows: dict[str, list[float]] = field(default_factory=dict)
    reference: str = ""
    units: list[str] = field(default_factory=list)

    def add(self, name: str, seconds: list[float]) -> None:
        """Adds a row."""
        self.rows[name] = seconds

    def markdown(self) -> str:
        """The table, its title as a heading."""
        lines = [f"### {self.title}", "", "| | " + " | ".join(self.columns) + " |"]
        lines.append("| --- " * (len(self.columns) + 1) + "|")
        for name, seconds in self.rows.items():
            cells = [self._cell(name, i, value) for i, value in enumerate(seconds)]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"

    def _cell(self, name: str, column: int, seconds: float) -> str:
        unit = self.units[column] if self.units else "ms"
        cell = f"{seconds * _UNITS[unit]:,.2f} {unit}"
        ours = self.rows.get(self.reference)
        if ours is not None and name != self.reference:
            cell += f" ({seconds / ours[column]:,.2f}x)"
        return cell


def plot(tables: list[Table], path: str) -> bool:
    """Draws the tables as bars, on a logarithmic scale. Returns False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("compare.py: no plot: matplotlib is not installed", file=sys.stderr)
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    height = sum(0.6 + 0.35 * len(table.rows) for table in tables)
    ratios = [len(table.rows) + 2 for table in tables]
    figure, axes = pyplot.subplots(
        len(tables), 1, figsize=(9, 1 + height), squeeze=False, height_ratios=ratios
    )
    for axis, table in zip(axes[:, 0], tables):
        names = list(table.rows)
        bar = 0.8 / len(table.columns)
        for column, label in enumerate(table.columns):
            places = [row + column * bar for row in range(len(names))]
            axis.barh(places, [table.rows[name][column] for name in names], bar, label=label)
        axis.set_yticks([row + 0.4 - bar / 2 for row in range(len(names))], names)
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.set_xlabel("seconds")
        axis.set_title(table.title)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return True
