# SPDX-License-Identifier: GPL-2.0-or-later
"""Do ratios compare runs that belong together?"""

from __future__ import annotations

import pytest
from builders.page_times import timed, times
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.common.table import format_table
from tlbcost.pagesizes.runs import read_run

EMPTY = format_table(formats.PATTERN, {}, [])


def test_a_ratio_is_of_runs_of_the_same_round() -> None:
    runs = [timed(r, 9, 4096, ns) for r, ns in enumerate((10, 20, 40))]
    runs += [timed(r, 9, 2 << 20, ns) for r, ns in enumerate((5, 10, 20))]
    result = times(runs)
    assert result.ratio(9, 2 << 20) == Interval(0.5, 0.5, 0.5)
    cycles = result.cost(9, 4096, lambda run: run.cycles)
    assert cycles is not None
    assert cycles.value == 40
    # In cycles: that the clock was slower in one of both runs is no cost of its pages.
    slow = [timed(r, 9, 2 << 20, 2 * each.ns / 2, 1.0) for r, each in enumerate(runs[:3])]
    assert times([*runs[:3], *slow]).ratio(9, 2 << 20) == Interval(0.5, 0.5, 0.5)


def test_too_few_rounds_tell_no_ratio() -> None:
    runs = [timed(r, 9, 4096, 10) for r in range(3)] + [timed(r, 9, 2 << 20, 10) for r in range(2)]
    assert times(runs).ratio(9, 2 << 20) is None
    assert times(runs).ratio(2, 2 << 20) is None


@pytest.mark.parametrize("text", ["", "checksum 0\n", "# tlbcost pattern 1\n", EMPTY])
def test_a_table_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TlbcostError, match="page-patterns"):
        read_run(0, text)
