# SPDX-License-Identifier: GPL-2.0-or-later
"""Which node accesses which page, and which pages are huge?"""

from __future__ import annotations

from pathlib import Path

from builders.placement import image, region
from tlbcost.numa.accesses import gather, spread_threads


def test_pages_of_files_stay_on_base_pages_next_to_huge_ones(tmp_path: Path) -> None:
    rows = [(region(3), 1, [10]), (region(3) + 300, 2, [30])]
    touches = [(region(3), 1, "huge"), (region(3) + 300, 2, "other")]
    pages = gather([image(tmp_path, rows, touches)], 2)
    assert pages.is_huge.tolist().count(True) == 1
    assert pages.faults.tolist() == [1, 0]
    assert [by.tolist() for by in pages.huge_faults] == [[0, 0], [1, 0]]


def test_threads_are_spread() -> None:
    assert spread_threads(6, 4, "round-robin").tolist() == [0, 1, 2, 3, 0, 1]
    assert spread_threads(8, 4, "blocks").tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert spread_threads(2, 4, "blocks").tolist() == [0, 2]
