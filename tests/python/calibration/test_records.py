# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cost holds at a footprint, what stands in for one, and is it read as it was written?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import BASE, BASE_COSTS, HUGE, HUGE_COSTS, MACHINE, interval
from builders.calibration import of_this_machine
from builders.tree import GOLDEN, fails, there
from tlbcost.calibration.file import cache_folder, cache_path, read_calibration, write_calibration
from tlbcost.calibration.records import (
    Calibration,
    Cost,
    check_costs,
    cost_at,
    find,
    page_costs,
    with_substitutes,
)
from tlbcost.common.units import Interval
from tlbcost.system.machine import current_machine


def calibration(*costs: Cost) -> Calibration:
    return Calibration(MACHINE, "2026-01-01T00:00:00Z", "0", 1.0, costs)


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


def test_missing_huge_costs_are_priced_as_base_pages() -> None:
    bare = replace(HUGE_COSTS, walk_serial_ns=None, walk_overlapped_ns=None, walk_cached_ns=None)
    filled = with_substitutes(bare, BASE_COSTS)
    assert filled.walk_serial_ns == BASE_COSTS.walk_serial_ns
    assert there(filled.walk_overlapped_ns).low == 0


def test_costs_are_looked_up_at_the_footprint_in_each_page_size() -> None:
    near, far = interval(10), interval(20)
    costs = page_costs(
        calibration(
            Cost("walk_ns", HUGE, "overlapped", 1, near, 9),
            Cost("walk_ns", HUGE, "overlapped", 3, far, 9),
            Cost("walk_ns", BASE, "serial", 3, interval(30), 9),
            Cost("fault_ns", HUGE, None, None, interval(500), 9),
        ),
        HUGE,
        HUGE,
        (2 << 21) + 1,
    )
    assert costs.footprint_entries == 3
    assert costs.walk_overlapped_ns == far
    # Walks whose tables are cached cost what they do at the smallest footprint.
    assert costs.walk_cached_ns == near
    assert costs.walk_serial_ns is None
    assert costs.fault_ns == interval(500)


def test_no_price_is_below_zero_though_the_calibration_may_be() -> None:
    noisy = Cost("walk_ns", BASE, "serial", 4096, Interval(12, -4.7, 40), 9)
    below = Cost("walk_ns", BASE, "overlapped", 4096, Interval(-2, -3, -1), 9)
    made = calibration(noisy, below)
    costs = page_costs(made, BASE, BASE, 1 << 24)
    assert costs.walk_serial_ns == Interval(12, 0, 40)
    assert costs.walk_overlapped_ns == Interval(0, 0, 0)
    assert made.costs[0].interval == Interval(12, -4.7, 40)


def test_a_calibration_without_base_costs_gives_no_estimate() -> None:
    whole = read_calibration(GOLDEN / "calibration.tsv")
    check_costs(whole, MACHINE)
    bare = replace(whole, costs=tuple(c for c in whole.costs if c.quantity != "stlb_hit_ns"))
    with fails("what an STLB hit costs on 4 KiB pages", 4):
        check_costs(bare, MACHINE)


def test_a_quantitys_earlier_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.tsv"
    write_calibration(path, of_this_machine())
    text = path.read_text()
    path.write_text(text.replace("l3_half_life_ns", "l3_stay_ns"))
    assert path.read_text() != text
    assert read_calibration(path) == of_this_machine()


def test_machines_have_caches_of_their_own() -> None:
    machine = current_machine()
    assert cache_path(machine) == cache_path(machine)
    for change in ({"microcode": "x"}, {"kernel": "x"}, {"thp_mode": None}, {"governor": "x"}):
        assert cache_path(replace(machine, **change)) != cache_path(machine)


def test_the_cache_is_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "tlbcost"
