# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the counts of several processes summed, and of splintered pages taken from base pages?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.answer import BASE, HUGE, MACHINE, killed, process
from tlbcost.calibration.records import Calibration, Cost, page_costs
from tlbcost.simulator.counts import Side, Touched, footprint_pages, splintered, total_counts

SIDES: tuple[Side, ...] = ("load", "store", "fetch")


def calibration(*costs: Cost) -> Calibration:
    return Calibration(MACHINE, "2026-01-01T00:00:00Z", "0", 1.0, costs)


def test_totals_leave_out_processes_without_counts() -> None:
    assert total_counts([process(1000), killed(), process(500)]) == total_counts(
        [process(500), process(1000)]
    )
    assert total_counts([process(7)])[BASE, "load"].stlb_misses == 7


def test_splintered_pages_miss_as_base_pages_and_are_priced_by_their_pieces() -> None:
    split = splintered(process(1000), BASE, HUGE)
    assert split.counts is not None
    for side in SIDES:
        assert split.counts[HUGE, side] == split.counts[BASE, side]
    costs = page_costs(calibration(), HUGE, BASE, 8192)
    assert (costs.page_size_bytes, costs.footprint_entries) == (HUGE, 2)
    gone = killed()
    assert splintered(gone, BASE, HUGE) is gone


def test_footprint_is_the_largest_process_s() -> None:
    small = replace(process(), touched=Touched(10, 1, 5))
    assert footprint_pages([small, process()]) == 65736
    assert footprint_pages([small, killed()]) == 15
    with pytest.raises(ValueError, match="empty"):
        footprint_pages([killed()])
