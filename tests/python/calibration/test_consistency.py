# SPDX-License-Identifier: GPL-2.0-or-later
"""Do samples of loads become latencies, and are figures found that cannot all be true?"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from builders.calibration import BASE, HUGE, cost, quick
from builders.samples import Row, curve, table
from builders.tree import GOLDEN, TREE, there
from tlbcost.calibration.analysis.samples import read_samples
from tlbcost.calibration.analysis.walks import LOADS, MEMORY, RESIDENCY, STREAM, load_rows
from tlbcost.calibration.consistency import (
    Loads,
    cache_sizes,
    contradictions,
    last_cache_bytes,
    level_latencies,
    loads,
    poor_because,
    without_negative,
)
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Access, Calibration, Cost, ReportedFigure
from tlbcost.common import formats
from tlbcost.common.formats import Table
from tlbcost.common.units import Interval

RECORDED = TREE / "data" / "samples"
KIB, MIB = 1 << 10, 1 << 20


def load(footprint_bytes: int | None, ns: float) -> Cost:
    pages = None if footprint_bytes is None else footprint_bytes // 64
    return cost("load_ns", ns, None, "serial", pages)


def walk(pages: int, ns: float, size: int = BASE, access: Access = "serial") -> Cost:
    return cost("walk_ns", ns, size, access, pages)


def wide(made: Cost, low: float, high: float) -> Cost:
    at = Interval(there(made.interval).value, low, high)
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


SERIAL = {256: 1.25, 2048: 4.0, 8192: 4.1, 65536: 20.0, 262144: 20.5, 1048576: 70.0, 4194304: 90.0}
FLUSHED = 101.0
HALF_LIFE_NS = 4.5e6
SIZES = {1: 48 * KIB, 2: 2 * MIB, 3: 32 * MIB}


def timings(probe: str, access: str, ladder: tuple[int, ...], scale: float = 1.0) -> list[Row]:
    layout, spacing = ("each", 64) if probe == "stream" else ("third", 192)
    return curve(
        probe, layout, access, lambda n: scale * SERIAL.get(n, FLUSHED), ladder, size=HUGE,
        spacing=spacing, paired=False, noise=0.001,
    )  # fmt: skip


def rows(
    line_bytes: int = 64, most: int = LOADS[-1], flushed: bool = True, **header: str
) -> list[Cost]:
    ladder = tuple(n for n in LOADS if n <= most)
    parts = (
        timings("load", "serial", ladder),
        timings("load", "independent", ladder, 0.1),
        timings("load", "flushed", MEMORY if flushed else ()),
        curve("residency", "third", "serial", lambda _: HALF_LIFE_NS, RESIDENCY, size=HUGE,
              spacing=192, paired=False, noise=0.001),
        timings("stream", "sequential", tuple(n for n in STREAM if n <= most), 0.08),
    )  # fmt: skip
    return load_rows(read_samples([table(*parts, line_bytes=str(line_bytes), **header)]))


def calibrated(costs: list[Cost]) -> Calibration:
    calibration = quick().calibration
    return Calibration(calibration.machine, "2026-01-01", "0", 9.0, tuple(costs))


def found(costs: list[Cost]) -> Loads:
    return there(loads(calibrated(costs)))


def exact(ns: dict[int, float]) -> Loads:
    points = tuple((64 * lines, Interval(at, at, at)) for lines, at in ns.items())
    return Loads(points, (), ())


def test_every_footprint_has_a_row_with_its_interval() -> None:
    known = found(rows())
    assert [size for size, _ in known.serial] == [64 * lines for lines in LOADS]
    assert [size for size, _ in known.overlapped] == [4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
    assert [size for size, _ in known.stream] == [16 * MIB, 256 * MIB]
    for (_, ns), expected in zip(known.serial, SERIAL.values(), strict=True):
        assert ns.value == pytest.approx(expected, rel=0.01)
        assert ns.low < ns.value < ns.high
    assert known.overlapped[0][1].value == pytest.approx(2.0, rel=0.01)
    assert known.stream[1][1].value == pytest.approx(7.2, rel=0.01)
    assert there(known.memory).value == pytest.approx(FLUSHED, rel=0.01)
    assert there(known.l3_half_life_ns).value == pytest.approx(HALF_LIFE_NS, rel=0.01)
    assert found(rows(flushed=False)).memory is None
    assert all(row.samples == 10 for row in rows())


def test_lines_of_128_bytes_are_recognised_by_their_footprint() -> None:
    known = found(rows(line_bytes=128))
    assert known.serial[0][0] == 32 * KIB
    assert known.serial[-1][0] == 512 * MIB
    assert known.serial[-1][1].value == pytest.approx(90, rel=0.01)
    # A line of this many bytes is two times 64.
    assert known.stream[-1][1].value == pytest.approx(3.6, rel=0.01)


def test_what_did_not_fit_is_a_row_without_a_value() -> None:
    made = rows(most=65536)
    absent = [(row.quantity, row.pages) for row in made if row.interval is None]
    assert ("load_ns", 4194304) in absent
    assert ("stream_ns", 4194304) in absent
    assert [size for size, _ in found(made).serial] == [16 * KIB, 128 * KIB, 512 * KIB, 4 * MIB]
    assert found(made).stream == ()


def test_absent_differs_from_not_asked_for() -> None:
    assert load_rows(read_samples([table()])) == []
    nothing = load_rows(read_samples([table(skipped_4096_loads="no time was left")]))
    assert len(nothing) == len(LOADS) + 4 + len(MEMORY) + len(STREAM) + len(RESIDENCY)
    assert found(nothing) == Loads((), (), ())
    assert loads(calibrated([cost("walk_ns", 19.0, access="serial", pages=8192)])) is None


def test_the_footprints_are_the_probes() -> None:
    source = (TREE / "calibrator" / "groups.c").read_text(encoding="utf-8")
    ladders = {"loads": LOADS, "stream": STREAM, "memory": MEMORY, "residency": RESIDENCY}
    for name, expected in ladders.items():
        ladder = there(re.search(rf"{name}_ladder\[\] = {{ ([0-9, ]+) }}", source))
        assert tuple(map(int, ladder[1].split(","))) == expected


def test_levels_are_read_off_far_from_their_ends() -> None:
    levels = level_latencies(exact(SERIAL), SIZES)
    # 512 KiB and 16 MiB: four times the level before, and no more than half of their own.
    found = (levels.l1, levels.l2, levels.l3, levels.memory)
    assert [each and each.value for each in found] == [1.25, 4.1, 20.5, 90]
    # Half-way from 20.5 to 90 ns, between 16 and 64 MiB.
    assert 16 * MIB < there(levels.last_level_bytes) < 64 * MIB


def test_a_last_level_that_neighbours_share_ends_where_memory_begins() -> None:
    large = {**SIZES, 3: 300 * MIB}
    levels = level_latencies(exact(SERIAL | {1048576: 20.6}), large)
    assert [each and each.value for each in (levels.l3, levels.memory)] == [20.5, 90]
    assert levels.last_level_bytes == pytest.approx(128 * MIB, rel=0.01)
    # All of it in the cache: memory was not seen.
    levels = level_latencies(exact(SERIAL | {1048576: 20.6, 4194304: 21.0}), large)
    assert levels.memory is None
    assert levels.last_level_bytes is None


def test_flushed_lines_tell_of_memory_where_a_cache_holds_all_others() -> None:
    large = {**SIZES, 3: 300 * MIB}
    known = exact(SERIAL | {1048576: 20.6, 4194304: 21.0})
    levels = level_latencies(replace(known, memory=Interval(101, 100, 102)), large)
    assert levels.memory == Interval(101, 100, 102)
    # Nowhere are as many lines in memory as in the cache.
    assert levels.last_level_bytes is None


def test_small_caches_and_missing_levels() -> None:
    # No footprint is between twice 48 KiB and half of 128 KiB.
    levels = level_latencies(exact(SERIAL), {1: 48 * KIB, 2: 128 * KIB})
    assert levels.l2 is None
    assert levels.l3 is None
    assert levels.memory is not None
    assert levels.last_level_bytes is None
    nothing = level_latencies(exact(SERIAL), {})
    assert (nothing.l1, nothing.memory) == (None, None)
    assert level_latencies(Loads((), (), ()), SIZES).memory is None


def test_sizes_are_those_of_cpuid_before_those_of_sysfs() -> None:
    known = (
        ReportedFigure("l2_bytes", None, "cpuid", 2 * MIB),
        ReportedFigure("l2_bytes", None, "sysfs", 1 * MIB),
        ReportedFigure("l1d_bytes", None, "sysfs", 32 * KIB),
        ReportedFigure("dtlb_entries", 4096, "cpuid", 96),
    )
    assert cache_sizes(known) == {1: 32 * KIB, 2: 2 * MIB}
