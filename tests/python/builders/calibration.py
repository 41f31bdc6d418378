# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up calibrations for tests to change one thing in: a quick one, and one of everything."""

from __future__ import annotations

from dataclasses import replace

from builders.tree import GOLDEN
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Access, Calibration, Cost, Obtained
from tlbcost.common import formats
from tlbcost.common.formats import Cell, format_table
from tlbcost.common.units import Interval
from tlbcost.system.machine import current_machine

BASE, HUGE = 4096, 2 << 20


def cost(
    quantity: str,
    value: float | None,
    size: int | None = BASE,
    access: Access | None = None,
    pages: int | None = None,
) -> Cost:
    """A cost with an interval of 3 % on both sides; `value` None: not obtained."""
    if value is None:
        return Cost(quantity, size, access, pages, None, 0)
    half = 0.03 * abs(value)
    return Cost(quantity, size, access, pages, Interval(value, value - half, value + half), 9)


CHAINS: tuple[tuple[Access, float], ...] = (("chains_2", 2), ("chains_4", 3), ("chains_8", 3.5))
MORE = (
    cost("cycles_per_ns", 3.2, None),
    cost("l1d_bytes", 48 << 10, None),
    cost("l2_bytes", 2 << 20, None),
    cost("l3_bytes", None, None),
    cost("l1d_ns", 1.5, None),
    cost("l2_ns", 4.8, None),
    cost("l3_ns", 30, None),
    cost("memory_ns", 101, None),
    cost("load_ns", 1.25, None, "serial", 256),
    cost("load_ns", 27.5, None, "serial", 65536),
    cost("load_ns", None, None, "serial", 4194304),
    cost("load_ns", 2.1, None, "overlapped", 65536),
    cost("load_ns", None, None, "overlapped", 4194304),
    cost("load_ns", 99, None, "serial"),
    cost("stream_ns", 1.8, None, None, 262144),
    cost("dtlb_ways", 6),
    cost("stlb_ways", None),
    cost("dtlb_store_entries", None),
    cost("itlb_entries", 262),
    cost("tlb_entry_bytes", HUGE, HUGE),
    cost("itlb_miss_ns", 4.1, access="serial", pages=512),
    cost("code_walk_ns", 17.9, access="serial", pages=4096),
    *(cost("walk_ns", 19 / n, access=access, pages=8192) for access, n in CHAINS),
    *(cost("walks_at_once", n, access=access, pages=8192) for access, n in CHAINS),
    cost("walk_cache_regions", 32),
    cost("walk_cache_miss_ns", 21),
    cost("unmap_ns", 88),
    cost("unmap_ns", 9500, HUGE),
)


def quick() -> Obtained:
    """As `tlbcost calibrate --quick` might find it; the clock was not obtained."""
    return Obtained(
        replace(read_calibration(GOLDEN / "calibration.tsv"), notes=("a note",)), "from a test"
    )


def full() -> Obtained:
    """As `tlbcost calibrate --full` might find it."""
    calibration = read_calibration(GOLDEN / "calibration.tsv")
    return Obtained(
        replace(calibration, costs=calibration.costs + MORE, extent="full"), "measured now"
    )


def curve(caches: bool = True) -> str:
    rows: list[tuple[Cell, ...]] = []
    for lines in (2**i for i in range(3, 19)):
        ns = 0.0 if lines <= 96 else 2.0 if lines <= 2048 else 20.0
        for access, factor in (("serial", 1.0), ("overlapped", 0.3)):
            values = (ns * factor, 0.9 * ns * factor, 1.1 * ns * factor)
            rows.append(("tlb", BASE, "spread", BASE, access, lines, *values))
            if lines < 1024:
                rows.append(("tlb", HUGE, "spread", HUGE, access, lines, *values))
            rows.append(("tlb", HUGE, "dense", BASE, access, lines, *values))
        if caches:
            latency = 1.5 if lines * 64 < 48 << 10 else 4.8
            for layout, spacing in (("each", 64), ("third", 192)):
                values = (latency, 0.9 * latency, 1.1 * latency)
                rows.append(("cache", HUGE, layout, spacing, "serial", lines, *values))
    return format_table(formats.CURVE, {"date": "2026-01-01T00:00:00Z", "version": "0"}, rows)


def of_this_machine() -> Calibration:
    return Calibration(
        machine=current_machine(),
        date="2026-01-01T00:00:00Z",
        version="0",
        duration_s=9.5,
        costs=(
            Cost("dtlb_entries", 4096, None, None, Interval(64, 60, 70), 0),
            Cost("stlb_entries", 4096, None, None, None, 0),
            Cost("walk_ns", 4096, "serial", 4096, Interval(10, 8, 12), 40),
            Cost("walk_ns", 4096, "serial", 65536, Interval(30, 20, 50), 9),
            Cost("walk_ns", 4096, "overlapped", None, None, 0),
            Cost("walk_ns", 4096, "chains_4", 8192, Interval(5, 4, 6), 12),
            Cost("walk_interval_ns", 4096, None, 8192, Interval(6, 5.5, 6.5), 12),
            Cost("fault_ns", 4096, None, None, Interval(500, 400, 600), 23),
            Cost("load_ns", None, "serial", 256, Interval(1.25, 1.2, 1.3), 3),
            Cost("l3_half_life_ns", None, None, 65536, Interval(3e6, 2e6, 5e6), 9),
            Cost("cycles_per_ns", None, None, None, Interval(3.3, 3.2, 3.4), 99),
        ),
        extent="full",
        cpuid={"cpuid_00000004_03": "1 2 3 4"},
        notes=("first", "second"),
    )
