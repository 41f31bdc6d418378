# SPDX-License-Identifier: GPL-2.0-or-later
"""Are figures that cannot all be true found, and none that can?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.calibration import BASE, HUGE, cost, full, quick
from builders.tree import GOLDEN, TREE
from tlbcost.calibration.analysis.quantities import analyse
from tlbcost.calibration.consistency import (
    contradictions,
    contradictions_of,
    last_cache_bytes,
    poor_because,
    without_negative,
)
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Access, Cost
from tlbcost.common import formats
from tlbcost.common.interval import Interval
from tlbcost.common.table import Table, read_table

RECORDED = TREE / "data" / "samples"
MIB = 1 << 20


def load(footprint_bytes: int | None, ns: float) -> Cost:
    pages = None if footprint_bytes is None else footprint_bytes // 64
    return cost("load_ns", ns, None, "serial", pages)


def walk(pages: int, ns: float, size: int = BASE, access: Access = "serial") -> Cost:
    return cost("walk_ns", ns, size, access, pages)


def wide(made: Cost, low: float, high: float) -> Cost:
    assert made.interval is not None
    at = Interval(made.interval.value, low, high)
    return Cost(made.quantity, made.page_size_bytes, made.access, made.pages, at, 9)


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        # As they were seen on a busy machine.
        ([load(256 * MIB, 149), load(None, 344)], "a load from memory takes 344 ns, but from a "
         "footprint of 256 MiB 149 ns"),
        ([load(64 * MIB, 344), load(None, 149)], "a load from memory takes 149 ns"),
        ([load(16 * MIB, 90), load(64 * MIB, 30)], "a load from 16 MiB takes 90 ns, but from "
         "64 MiB 30 ns"),
        ([walk(8192, 22), walk(16384, 236), walk(65536, 26.7)], "a walk on 4 KiB pages takes "
         "236 ns with 16,384 pages, but 26.7 ns with 65,536"),
        ([walk(12288, 26.7), walk(16384, 236)], "takes 26.7 ns with 12,288 pages, but 236 ns"),
        ([walk(16384, 20), walk(65536, 340)], "takes 20 ns with 16,384 pages, but 340 ns"),
        ([walk(8192, 15), walk(8192, 30, HUGE)], "a walk takes 30 ns on 2 MiB pages, but 15 ns on "
         "4 KiB pages"),
        ([cost("stlb_hit_ns", 40, access="serial", pages=512), walk(8192, 15)],
         "an STLB hit takes 40 ns on 4 KiB pages, but a walk 15 ns"),
        ([cost("fault_ns", 4970), cost("fault_ns", 1300, HUGE)], "a page fault takes 4,970 ns"),
        ([cost("fault_ns", 500), cost("fault_ns", 5e6, HUGE)], "a page fault takes 500 ns"),
        ([walk(16384, -138)], "a walk on 4 KiB pages (serial, 16,384 pages) costs -138 ns"),
        ([walk(8192, -7, HUGE, "overlapped")], "a walk on 2 MiB pages (overlapped, 8,192 pages)"),
        ([wide(walk(16384, 77), 21.8, 275)], "is only known to be between 21.8 and 275 ns"),
        ([wide(load(None, 165), 149, 643)], "a load from memory is only known to be between"),
    ],
)  # fmt: skip
def test_what_cannot_be_true_is_found(costs: list[Cost], words: str) -> None:
    found = contradictions(costs, 32 * MIB)
    assert any(words in reason for reason in found), found
    assert len(found) <= 2


@pytest.mark.parametrize(
    "costs",
    [
        # A last-level cache of 32 MiB holds a part of the first, and nothing of the second.
        [load(64 * MIB, 62), load(256 * MIB, 143), load(None, 149)],
        # Nested page tables leave the caches all at once.
        [walk(8192, 14.8), walk(16384, 21.7), walk(65536, 56.8), walk(262144, 156)],
        # Within their intervals both may be equal.
        [walk(8192, 15), wide(walk(8192, 24, HUGE), 12, 30)],
        [wide(walk(65536, 340), 50, 400), wide(walk(16384, 30), 25, 54)],
        # Hidden behind other work.
        [cost("stlb_hit_ns", -0.02, access="overlapped", pages=512)],
        [wide(walk(8192, -0.61, HUGE, "overlapped"), -3.65, 6.03)],
        # Entries have no order of costs, and what was not obtained says nothing.
        [cost("dtlb_entries", -1), Cost("walk_ns", BASE, "serial", 8192), walk(16384, 20)],
        [],
    ],
)
def test_what_can_be_true_is_not(costs: list[Cost]) -> None:
    assert contradictions(costs, 32 * MIB) == ()


def test_memory_is_compared_with_what_no_cache_holds() -> None:
    costs = [load(256 * MIB, 60), load(None, 140)]
    assert contradictions(costs, 32 * MIB)
    # A part of 256 MiB is in a cache as large, and of an unknown one.
    assert contradictions(costs, 256 * MIB) == contradictions(costs, None) == ()


def test_the_largest_cache_is_that_of_cpuid() -> None:
    calibration = read_calibration(RECORDED / "amd-zen-5-guest" / "calibration.tsv")
    assert last_cache_bytes(calibration.cpuid) == 32 * MIB
    assert last_cache_bytes({}) is None


@pytest.mark.parametrize("name", ["emerald-rapids-guest", "emerald-rapids-guest-busy"])
def test_recorded_samples_are_good(name: str) -> None:
    folder = RECORDED / name
    confirmation = [read_table(f, formats.SAMPLES) for f in sorted(folder.glob("confirmation-*"))]
    found = analyse([read_table(folder / "samples.tsv", formats.SAMPLES)], confirmation)
    assert contradictions(found.costs, None) == ()


@pytest.mark.parametrize(
    "path", [RECORDED / "amd-zen-5-guest" / "calibration.tsv", GOLDEN / "calibration.tsv"]
)
def test_good_calibrations(path: Path) -> None:
    assert read_calibration(path).grade == "good"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        # By an earlier calibrator, alongside stress-ng --cpu 2 on two CPUs.
        (RECORDED / "amd-zen-5-guest-busy" / "calibration-1.tsv",
         "a walk on 4 KiB pages takes 28.9 ns with 16,384 pages, but 340 ns with 65,536"),
        (RECORDED / "amd-zen-5-guest-busy" / "calibration-2.tsv",
         "a load from memory is only known to be between 149 and 643 ns"),
        # A machine so busy that a walk lay between -41 and 347 ns.
        (GOLDEN / "documents" / "calibration.tsv",
         "a walk on 4 KiB pages (serial, 16,384 pages) is only known to be between"),
    ],
)  # fmt: skip
def test_poor_calibrations(path: Path, words: str) -> None:
    calibration = read_calibration(path)
    assert calibration.grade == "poor"
    assert any(words in reason for reason in calibration.grade_reasons), calibration.grade_reasons


@pytest.mark.parametrize(
    ("costs", "poor"),
    [
        ([cost("dtlb_entries", 97)], True),
        ([cost("dtlb_entries", 97), cost("stlb_hit_ns", None), cost("walk_ns", None)], True),
        ([cost("dtlb_entries", 97), walk(8192, 15)], False),
        # An emulator has no TLB to be found.
        ([cost("dtlb_entries", None)], False),
        ([], False),
    ],
)
def test_a_first_level_alone_is_poor_on_a_quiet_machine(costs: list[Cost], poor: bool) -> None:
    header = {"base_page_bytes": str(BASE), "measured_ns": "5000000000", "waited_ns": "0"}
    quiet = Table("samples", header, formats.SAMPLES.columns, (), True)
    assert bool(poor_because([quiet], costs)) is poor


def test_made_up_ones_are_good() -> None:
    for obtained in (quick(), full()):
        assert contradictions_of(obtained.calibration) == ()


def test_no_cost_is_below_zero() -> None:
    made = [
        walk(8192, 20),
        wide(walk(8192, 12, HUGE), -4.7, 40),
        wide(walk(16384, -138, HUGE), -485, 22),
        wide(cost("stlb_hit_ns", -0.02, access="overlapped"), -0.1, 0.05),
        cost("dtlb_entries", 64),
    ]
    costs, notes = without_negative(made)
    assert [c.interval for c in costs[1:4]] == [
        Interval(12, 0, 40), None, Interval(0, 0, 0.05)
    ]  # fmt: skip
    assert (costs[0], costs[4]) == (made[0], made[4])
    assert notes == (
        "a walk on 2 MiB pages (serial, 16,384 pages) was measured as -138 ns, below zero: "
        "not reported",
    )
