# SPDX-License-Identifier: GPL-2.0-or-later
"""Which lines of code missed? Writes and reads the table `code` of doc/format.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.table import Cell, format_table, read_table
from tlbcost.simulator.memory_tables import ImageAttribution, Line, Misses, read_lines


def is_code_table(path: Path) -> bool:
    """Does the file begin like a table of code? False also if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(64).startswith(b"# tlbcost code ")
    except OSError:
        return False


def read_code(path: Path) -> tuple[Line, ...]:
    """Instructions that missed, of all processes. Raises TlbcostError naming file and defect."""
    table = read_table(path, formats.CODE)
    try:
        return read_lines(table)
    except ValueError as error:
        raise TlbcostError(f"{path}: {error}") from error


def code_text(command: str, images: Sequence[ImageAttribution]) -> str:
    """All images' lines as the text of one table; `command`: what was run."""
    names: dict[str, int] = {}

    def number(name: str | None) -> int | None:
        return None if name is None else names.setdefault(name, len(names))

    rows: list[list[Cell]] = []
    for line in (line for image in images for line in image.lines):
        site = line.site
        rows.append(
            [
                number(line.program),
                line.address,
                number(site.object),
                number(site.function),
                number(site.file),
                site.line,
                *_cells(line.base.data),
                *_cells(line.huge.data),
                *_cells(line.base.fetch),
                *_cells(line.huge.fetch),
            ]
        )
    header: dict[str, Cell] = {"command": command}
    header |= {f"name_{i}": name for name, i in names.items()}
    return format_table(formats.CODE, header, rows)


def _cells(misses: Misses) -> tuple[int, int]:
    return misses.hits, misses.walks
