# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cost holds at a footprint between those that were measured?"""

from __future__ import annotations

from dataclasses import replace

from builders.calibration import of_this_machine
from tlbcost.calibration.costs import cost_at, find, page_costs
from tlbcost.calibration.records import Cost
from tlbcost.common.interval import Interval


def test_costs_between_footprints() -> None:
    at = lambda pages: cost_at(of_this_machine(), "walk_ns", 4096, "serial", pages)  # noqa: E731
    assert at(10) == Interval(10, 8, 12)
    assert at(4096) == Interval(10, 8, 12)
    assert at(16384) == Interval(20, 14, 31)
    assert at(1 << 20) == Interval(30, 20, 50)
    assert cost_at(of_this_machine(), "walk_ns", 4096, "overlapped", 9) is None
    assert cost_at(of_this_machine(), "walk_ns", 2 << 20, "serial", 9) is None
    assert cost_at(of_this_machine(), "fault_ns", 4096, None, 9) == Interval(500, 400, 600)
    assert [cost.pages for cost in find(of_this_machine(), "walk_ns", 4096, "serial")] == [
        4096,
        65536,
    ]


def test_a_hit_of_a_piece_costs_what_a_hit_of_its_entry_costs() -> None:
    hit = Cost("stlb_hit_ns", 4096, "serial", 400, Interval(2, 1.9, 2.1), 9)
    calibration = replace(of_this_machine(), costs=(*of_this_machine().costs, hit))
    assert page_costs(calibration, 2 << 20, 4096, 1 << 30).stlb_hit_serial_ns == hit.interval
    assert page_costs(calibration, 2 << 20, 2 << 20, 1 << 30).stlb_hit_serial_ns is None
