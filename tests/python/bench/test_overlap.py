# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the record of known overlap read as it was written, and shown as it is?"""

from __future__ import annotations

import shutil
from pathlib import Path

import overlap_table as overlap
import pytest
from builders.tree import TREE
from tlbcost.calibration.file import machine_of
from tlbcost.common import formats
from tlbcost.common.interval import Interval
from tlbcost.common.table import parse_table, read_table
from tlbcost.system.machine import current_machine

RECORDS = sorted((TREE / "data" / "samples").glob("*/overlap.tsv"))


def _rows() -> list[object]:
    def row(base: float, huge: float, modelled_base: float, **options: int) -> object:
        return overlap.Row(
            overlap.Case(65536, **options),
            Interval(base, base - 1, base + 1),
            Interval(huge, huge - 1, huge + 1),
            modelled_base,
            50.0,
            7,
        )

    return [row(100, 50, 100, chains=1), row(20, 10, 40, chains=4), row(80, 40, 80, update=2)]


def test_a_record_is_read_as_it_was_written() -> None:
    machine, rows = current_machine(), _rows()
    text = overlap.format_record(machine, {"pairs": 3}, rows)
    table = parse_table(text, "a record", formats.OVERLAP)
    assert overlap.read_rows(table) == rows
    assert machine_of(table.header) == machine
    lacking = parse_table(text.replace("\t50\t7\n", "\tNA\t7\n", 1), "a record", formats.OVERLAP)
    with pytest.raises(ValueError, match="modelled_huge_ns is missing"):
        overlap.read_rows(lacking)


def test_the_page_names_the_worst() -> None:
    text = "\n".join(overlap.markdown(_rows(), "ns per step."))
    assert "| 65536 | 1 | 0 | 0 | 100.0 (99.0 to 101.0) | 100.0 | 1.00 |" in text
    assert "| 4 KiB | 1.00 | 2 of 3 | 2.00 | 65536 pages, 4 chains |" in text
    assert "| 2 MiB | 1.25 | 1 of 3 | 5.00 | 65536 pages, 4 chains |" in text
    # Saved are 50 % of each; modelled 50 %, -25 % and 37.5 %.
    assert "is off by 29.2 points on average, by -75.0 at worst (65536 pages, 4 chains)" in text


def test_a_figure_is_drawn(tmp_path: Path) -> None:
    if shutil.which("gnuplot") is None:
        pytest.skip("no gnuplot here")
    overlap.draw(_rows(), "a machine", tmp_path / "overlap.png")
    assert (tmp_path / "overlap.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.parent.name)
def test_records_that_are_kept_can_be_shown(path: Path) -> None:
    rows = overlap.read_rows(read_table(path, formats.OVERLAP))
    text = "\n".join(overlap.markdown(rows, ""))
    assert text.splitlines()[0] in (TREE / "doc" / "overlap.md").read_text(encoding="utf-8")
    assert all(row.modelled_base > 0 and row.modelled_huge > 0 for row in rows)
