# SPDX-License-Identifier: GPL-2.0-or-later
"""Are samples merged and their defects named, and is what was left out reported?"""

from __future__ import annotations

import pytest
from builders.samples import machine
from tlbcost.calibration.analysis.quantities import analyse
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import SAMPLES
from tlbcost.common.table import Table


def test_page_sizes_that_cannot_be_had_are_reported_together() -> None:
    table = machine()
    off = "pages of this size are off; echo madvise >/sys/hugepages-{}kB/enabled"
    header = {**table.header, "skipped_65536": off.format(64), "skipped_16384": off.format(16),
              "skipped_1073741824": "the pool is empty", "moved_cpu_briefly": "1"}  # fmt: skip
    notes = analyse([Table("x", header, SAMPLES.columns, table.rows, True)]).notes
    assert (f"16 KiB, 64 KiB pages were not measured: {off.format(16)}; and so for the other "
            "sizes") in notes  # fmt: skip
    assert "1 GiB pages were not measured: the pool is empty" in notes
    assert any("went away for a while" in note for note in notes)


def test_reasons_in_the_header_become_notes() -> None:
    table = machine()
    header = {**table.header, "skipped_2097152_fault": "no huge page",
              "limited_2097152_spread": "up to 5 pages: no time"}  # fmt: skip
    notes = analyse([Table("x", header, SAMPLES.columns, table.rows, True)]).notes
    assert "page faults on 2 MiB pages were not measured: no huge page" in notes
    assert "2 MiB pages were measured in part: up to 5 pages (no time)" in notes


def test_a_broken_row_is_named() -> None:
    table = machine()
    rows = (*table.rows, ("tlb", "4096", "spread", "4096", "serial", "8", "0", "fast", None))
    with pytest.raises(TlbcostError, match=rf"x: row {len(rows)}"):
        analyse([Table("x", table.header, SAMPLES.columns, rows, True)])


def test_a_header_without_page_size_is_refused() -> None:
    table = machine()
    with pytest.raises(TlbcostError, match="base_page_bytes"):
        analyse(
            [
                Table(
                    "x", {**table.header, "base_page_bytes": "0"}, SAMPLES.columns, table.rows, True
                )
            ]
        )
