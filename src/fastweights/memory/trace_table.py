"""Traces as a table: columns of names and numbers, for people, for spreadsheets and for data frames."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

Cell = str | int | float


class TraceTable(NamedTuple):
    """Rows under named columns; `pandas.DataFrame(table.rows, columns=table.columns)` makes a data frame of it."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]

    @classmethod
    def joined(cls, name: str, tables: "Mapping[str, TraceTable]") -> "TraceTable":
        """The rows of several tables with the same columns, each with the name of its table in a first column."""
        columns = next(iter(tables.values())).columns if tables else ()
        return cls((name, *columns), [(key, *row) for key, table in tables.items() for row in table.rows])

    def __str__(self) -> str:
        """Aligned columns of text, numbers with three digits."""
        cells = [self.columns, *(tuple(map(_text, row)) for row in self.rows)]
        widths = [max(len(row[n]) for row in cells) for n in range(len(self.columns))]
        return "\n".join("  ".join(x.rjust(width) for x, width in zip(row, widths, strict=True)) for row in cells)

    def to_csv(self, path: str | Path) -> None:
        """Write a file with comma-separated values; numbers that are not defined are left empty."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows([["" if _undefined(x) else x for x in row] for row in self.rows])


def _text(cell: Cell) -> str:
    if _undefined(cell):
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def _undefined(cell: Cell) -> bool:
    return isinstance(cell, float) and math.isnan(cell)
