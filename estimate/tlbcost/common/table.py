# SPDX-License-Identifier: GPL-2.0-or-later
"""Read and write the table format of doc/format.md; the only Python code that knows its rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import names
from tlbcost.common.errors import TlbcostError
from tlbcost.common.reading import MOST_BYTES, read_file

Cell = str | int | float | None

# Counts are of 64 bits wherever they come from.
MOST_COUNT = (1 << 64) - 1
_KEY = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class TableFormat:
    """One of the tables of doc/format.md; the version is that of its columns."""

    name: str
    version: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text: cells are strings, `None` where the file says NA."""

    name: str
    header: Mapping[str, str]
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    complete: bool

    def records(self) -> list[dict[str, str | None]]:
        """The rows as dictionaries keyed by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def key(self, key: str) -> str:
        """The value of a header key; an error that names the file if it is missing."""
        try:
            return self.header[key]
        except KeyError:
            raise TlbcostError(f"{self.name}: no '# {key}:' line in the header") from None

    def known(self, key: str) -> str | None:
        """As key(), or None for NA."""
        text = self.key(key)
        return None if text == "NA" else text


def read_table(
    path: Path, expected: TableFormat, *, partial: bool = False, most_bytes: int = MOST_BYTES
) -> Table:
    """Read a table and check its kind, version, columns and end line.

    `partial` accepts a file that its writer did not finish (`Table.complete` is then False).
    Raises TlbcostError naming the file and line of the first defect.
    """
    text = read_file(path, most_bytes).decode(errors="surrogateescape")
    return parse_table(text, str(path), expected, partial=partial)


def parse_table(text: str, name: str, expected: TableFormat, *, partial: bool = False) -> Table:
    """Parse the text of a table; `name` stands for the file in messages. See read_table."""
    lines = text.split("\n")
    if lines[0] != f"# tlbcost {expected.name} {expected.version}":
        raise TlbcostError(
            f"{name}:1: not a tlbcost {expected.name} table of version {expected.version}"
        )
    header: dict[str, str] = {}
    columns: tuple[str, ...] | None = None
    rows: list[tuple[str | None, ...]] = []
    end: str | None = None
    for number, line in enumerate(lines[1:], start=2):
        if line.startswith("# "):
            key, separator, value = line[2:].partition(":")
            if not separator or not _KEY.fullmatch(key):
                raise TlbcostError(f"{name}:{number}: not a '# key: value' line")
            if key == "end":
                end = value.strip()
                break
            header[key] = names.read(value.strip())
        elif line == "":
            continue
        elif columns is None:
            columns = tuple(line.split("\t"))
            if columns != expected.columns:
                raise TlbcostError(
                    f"{name}:{number}: columns are {' '.join(columns)}, expected "
                    f"{' '.join(expected.columns)}"
                )
        else:
            cells = tuple(None if cell == "NA" else names.read(cell) for cell in line.split("\t"))
            if len(cells) != len(columns):
                raise TlbcostError(f"{name}:{number}: {len(cells)} cells, expected {len(columns)}")
            rows.append(cells)
    complete = columns is not None and end == str(len(rows))
    if not complete and not partial:
        raise TlbcostError(f"{name}: truncated: no '# end: {len(rows)}' line")
    return Table(name, header, expected.columns, tuple(rows), complete)


def count(cell: str | None) -> int | None:
    """Read a count; NA means that it was not counted, which is not the same as 0."""
    if cell is None:
        return None
    if not (cell.isascii() and cell.isdigit()):
        raise ValueError(f"not a count: {cell}")
    found = int(cell)
    if found > MOST_COUNT:
        raise ValueError(f"not a count of 64 bits: {cell}")
    return found


def required_count(cell: str | None) -> int:
    """Read a count. Raises ValueError for NA, too."""
    found = count(cell)
    if found is None:
        raise ValueError("a count is missing")
    return found


def counts_in(row: Mapping[str, str | None], *columns: str) -> list[int]:
    """The counts in these columns of a row. Raises ValueError if one is NA."""
    return [required_count(row[column]) for column in columns]


def number(cell: str | None) -> float | None:
    """Read a finite decimal number, or None for NA."""
    if cell is None:
        return None
    value = float(cell)
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"not a finite number: {cell}")
    return value


def format_table(
    table_format: TableFormat, header: Mapping[str, Cell], rows: Iterable[Sequence[Cell]]
) -> str:
    """The text of a table. None becomes NA."""
    lines = [f"# tlbcost {table_format.name} {table_format.version}"]
    lines += [f"# {key}: {_cell(value)}" for key, value in header.items()]
    lines.append("\t".join(table_format.columns))
    n = 0
    for row in rows:
        if len(row) != len(table_format.columns):
            raise ValueError(f"{len(row)} cells for {len(table_format.columns)} columns")
        lines.append("\t".join(_cell(cell) for cell in row))
        n += 1
    lines.append(f"# end: {n}")
    return "\n".join(lines) + "\n"


def _cell(value: Cell) -> str:
    if value is None:
        return "NA"
    if isinstance(value, float):
        return f"{value:.6g}"
    return names.written(str(value))
