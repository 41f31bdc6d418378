# SPDX-License-Identifier: GPL-2.0-or-later
"""Do samples of loads become rows, and rows the latencies of caches and memory?"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from builders.calibration import cost, quick
from builders.samples import HUGE, Row, curve, table
from builders.tree import TREE
from tlbcost.calibration.analysis.caches import LOADS, MEMORY, RESIDENCY, STREAM, load_rows
from tlbcost.calibration.analysis.samples import read_samples
from tlbcost.calibration.loads import Loads, cache_sizes, level_latencies, loads
from tlbcost.calibration.other_sources import ReportedFigure
from tlbcost.calibration.records import Calibration, Cost
from tlbcost.common.interval import Interval

KIB, MIB = 1 << 10, 1 << 20
# Caches of 48 KiB, 2 MiB and 32 MiB.
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
        curve(
            "residency",
            "third",
            "serial",
            lambda _: HALF_LIFE_NS,
            RESIDENCY,
            size=HUGE,
            spacing=192,
            paired=False,
            noise=0.001,
        ),
        timings("stream", "sequential", tuple(n for n in STREAM if n <= most), 0.08),
    )
    return load_rows(read_samples([table(*parts, line_bytes=str(line_bytes), **header)]))


def calibrated(costs: list[Cost]) -> Calibration:
    calibration = quick().calibration
    return Calibration(calibration.machine, "2026-01-01", "0", 9.0, tuple(costs))


def found(costs: list[Cost]) -> Loads:
    known = loads(calibrated(costs))
    assert known is not None
    return known


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
    assert known.memory is not None
    assert known.memory.value == pytest.approx(FLUSHED, rel=0.01)
    assert known.l3_half_life_ns is not None
    assert known.l3_half_life_ns.value == pytest.approx(HALF_LIFE_NS, rel=0.01)
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
        ladder = re.search(rf"{name}_ladder\[\] = {{ ([0-9, ]+) }}", source)
        assert ladder is not None
        assert tuple(map(int, ladder[1].split(","))) == expected


def test_levels_are_read_off_far_from_their_ends() -> None:
    levels = level_latencies(exact(SERIAL), SIZES)
    # 512 KiB and 16 MiB: four times the level before, and no more than half of their own.
    assert levels.l1 is not None
    assert levels.l1.value == 1.25
    assert levels.l2 is not None
    assert levels.l2.value == 4.1
    assert levels.l3 is not None
    assert levels.l3.value == 20.5
    assert levels.memory is not None
    assert levels.memory.value == 90
    # Half-way from 20.5 to 90 ns, between 16 and 64 MiB.
    assert levels.last_level_bytes is not None
    assert 16 * MIB < levels.last_level_bytes < 64 * MIB


def test_a_last_level_that_neighbours_share_ends_where_memory_begins() -> None:
    large = {**SIZES, 3: 300 * MIB}
    levels = level_latencies(exact(SERIAL | {1048576: 20.6}), large)
    assert levels.l3 is not None
    assert levels.l3.value == 20.5
    assert levels.memory is not None
    assert levels.memory.value == 90
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
