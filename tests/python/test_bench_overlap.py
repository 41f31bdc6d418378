# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the record of known overlap read as it was written, and shown as it is?"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tlbcost import kinds
from tlbcost.calibration_file import machine_of
from tlbcost.machine import current_machine
from tlbcost.records import Interval
from tlbcost.table import parse_table, read_table

TREE = Path(__file__).resolve().parents[2]
RECORDS = sorted((TREE / "data" / "samples").glob("*/overlap.tsv"))


@pytest.fixture(scope="module")
def overlap() -> ModuleType:
    path = str(TREE / "scripts" / "overlap_table.py")
    spec = importlib.util.spec_from_file_location("overlap_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _rows(overlap: ModuleType) -> list[object]:
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


def test_a_record_is_read_as_it_was_written(overlap: ModuleType) -> None:
    machine, rows = current_machine(), _rows(overlap)
    text = overlap.format_record(machine, {"pairs": 3}, rows)
    table = parse_table(text, "a record", kinds.OVERLAP)
    assert overlap.read_rows(table) == rows
    assert machine_of(table.header) == machine
    lacking = parse_table(text.replace("\t50\t7\n", "\tNA\t7\n", 1), "a record", kinds.OVERLAP)
    with pytest.raises(ValueError, match="modelled_huge_ns is missing"):
        overlap.read_rows(lacking)


def test_the_page_names_the_worst(overlap: ModuleType) -> None:
    text = "\n".join(overlap.markdown(_rows(overlap), "ns per step."))
    assert "| 65536 | 1 | 0 | 0 | 100.0 (99.0 to 101.0) | 100.0 | 1.00 |" in text
    assert "| 4 KiB | 1.00 | 2 of 3 | 2.00 | 65536 pages, 4 chains |" in text
    assert "| 2 MiB | 1.25 | 1 of 3 | 5.00 | 65536 pages, 4 chains |" in text
    # Saved are 50 % of each; modelled 50 %, -25 % and 37.5 %.
    assert "errs by 29.2 points in the mean, at most by -75.0 (65536 pages, 4 chains)" in text


def test_a_figure_is_drawn(overlap: ModuleType, tmp_path: Path) -> None:
    if shutil.which("gnuplot") is None:
        pytest.skip("no gnuplot here")
    overlap.draw(_rows(overlap), "a machine", tmp_path / "overlap.png")
    assert (tmp_path / "overlap.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.parent.name)
def test_records_that_are_kept_can_be_shown(overlap: ModuleType, path: Path) -> None:
    rows = overlap.read_rows(read_table(path, kinds.OVERLAP))
    text = "\n".join(overlap.markdown(rows, ""))
    assert text.splitlines()[0] in (TREE / "doc" / "overlap.md").read_text(encoding="utf-8")
    assert all(row.modelled_base > 0 and row.modelled_huge > 0 for row in rows)
