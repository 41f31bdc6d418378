# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the published figures those of their source?"""

from __future__ import annotations

import pytest
from tlbcost.pagesizes.patterns import GIB
from tlbcost.pagesizes.published import published, ratio_of


def test_published_ratios_are_those_of_the_cycles() -> None:
    figures = published()
    for number in range(1, 11):
        cycles = {f.page_bytes: f.cycles for f in figures if f.pattern == number}
        for size in (2 << 20, GIB):
            known = ratio_of(figures, number, size)
            assert known is not None
            assert known.ratio is not None
            above, below = cycles[size], cycles[4096]
            assert below is not None
            if above is not None:
                assert known.ratio == pytest.approx(above / below, abs=0.011)
    last = ratio_of(figures, 11, 2 << 20)
    assert last is not None
    assert last.ratio == pytest.approx(1 / 2.9, abs=0.001)
