# SPDX-License-Identifier: GPL-2.0-or-later
"""What holds on a processor whose counters cannot interrupt, where each run is like the last?"""

from __future__ import annotations

import pytest
from machine import Results
from test_counting import FEW, LOADS, code, counts


def test_two_runs_count_the_same(plain: Results) -> None:
    first, second = counts(plain, "loads-1"), counts(plain, "loads-2")
    assert first["instructions"] == pytest.approx(second["instructions"], abs=100)
    assert first["dtlb_load_misses"] == pytest.approx(second["dtlb_load_misses"], abs=20)


def test_misses_follow_the_pages_and_not_the_loads(plain: Results) -> None:
    far, near = counts(plain, "loads-1"), counts(plain, "near")
    assert far["dtlb_load_misses"] >= LOADS
    assert near["dtlb_load_misses"] < FEW


def test_sampling_says_that_it_needs_interrupts(plain: Results) -> None:
    assert code(plain, "sampled") == 4
    assert not plain.text("sampled.out")
    assert "tlbcost: " in plain.text("sampled.err")
    assert "interrupt" in plain.text("sampled.err")
    assert "sampled.tsv" not in plain.files
