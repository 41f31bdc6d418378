# SPDX-License-Identifier: GPL-2.0-or-later
"""Is what others say of a machine found, and compared with what was measured?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builders.tree import put_caches
from tlbcost.calibration.records import (
    Calibration,
    Cost,
    ReportedFigure,
    disagreements,
    figure_from,
    reported_figures,
    sysfs_caches,
)
from tlbcost.common.units import Interval
from tlbcost.processors.cpuid import ReportedCache
from tlbcost.system.machine import Machine

K4, M2 = 4 << 10, 2 << 20
MACHINE = Machine(
    "GenuineIntel", "6", "85", "4", "A Skylake", "0x1", None, "6.1.0", K4, "madvise", None
)
# 63 03 76 / ff b6 f0 / c3: 64 and 32 entries, the STLB of 1536 with 6 ways.
SKYLAKE = {"cpuid_2_0": "76036301 00f0b6ff 00000000 00c30000"}


def calibration(*costs: Cost, **changes: object) -> Calibration:
    made = Calibration(MACHINE, "2026-01-01T00:00:00Z", "0", 1, costs, "full", SKYLAKE)
    return replace(made, **changes)  # type: ignore[arg-type]


def cost(quantity: str, value: float, size: int | None = K4) -> Cost:
    return Cost(quantity, size, None, None, Interval(value, value, value), 9)


def test_sources_are_kept_apart() -> None:
    known = reported_figures(calibration(), [ReportedCache(2, "unified", 1 << 20)])
    for each in (
        ReportedFigure("stlb_ways", K4, "published", 12),
        ReportedFigure("stlb_ways", K4, "cpuid", 6),
        ReportedFigure("dtlb_entries", M2, "cpuid", 32),
        ReportedFigure("l2_bytes", None, "sysfs", 1 << 20),
    ):
        assert figure_from(known, each.quantity, each.page_size_bytes, each.source) == each
    assert figure_from(known, "l2_bytes", None, "cpuid") is None


def test_agreement_needs_no_words() -> None:
    measured = calibration(cost("dtlb_entries", 61), cost("stlb_entries", 1480),
                           cost("l2_bytes", 0.9 * (1 << 20), None))  # fmt: skip
    known = reported_figures(measured, [ReportedCache(2, "unified", 1 << 20)])
    assert disagreements(measured, known) == []


def test_disagreement_is_named_with_both_figures() -> None:
    measured = calibration(cost("stlb_entries", 1000), cost("dtlb_ways", 8),
                           cost("l2_bytes", 300 << 10, None))  # fmt: skip
    found = disagreements(
        measured, reported_figures(measured, [ReportedCache(2, "unified", 1 << 20)])
    )
    assert found == [
        "L1 dTLB ways on 4 KiB pages: 8 measured, but 4 published and reported by CPUID",
        "STLB entries on 4 KiB pages: 1000 measured, but 1536 published and reported by CPUID",
        "L2 cache: 300 KiB measured, but 1 MiB reported by sysfs",
    ]


def test_what_is_unverified_is_called_so() -> None:
    landing = replace(MACHINE, cpu_model="87")
    measured = calibration(cost("stlb_entries", 1000), machine=landing, cpuid={})
    (sentence,) = disagreements(measured, reported_figures(measured))
    assert sentence.endswith("256 published (unverified)")


def test_within_the_interval_is_agreement() -> None:
    wide = Cost("stlb_entries", K4, None, None, Interval(1000, 900, 1600), 9)
    measured = calibration(wide)
    assert disagreements(measured, reported_figures(measured)) == []


def test_pieces_of_pages_are_not_compared_with_whole_ones() -> None:
    entries, covered = cost("dtlb_entries", 64, M2), cost("tlb_entry_bytes", K4, M2)
    measured = calibration(entries)
    assert disagreements(measured, reported_figures(measured))
    measured = calibration(entries, covered)
    assert disagreements(measured, reported_figures(measured)) == []


def test_a_machine_that_nobody_knows() -> None:
    other = replace(MACHINE, cpu_vendor=None, cpu_model=None)
    assert reported_figures(calibration(machine=other, cpuid={})) == ()


def test_caches_of_sysfs(root: Path) -> None:
    assert sysfs_caches() == ()
    put_caches(
        root, ("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"),
        ("3", "Unified", "garbage"), ("", "Unified", "1K"), ("3", "Odd", "0K"),
    )  # fmt: skip
    assert sysfs_caches() == (
        ReportedCache(1, "data", 48 << 10),
        ReportedCache(1, "instruction", 32 << 10),
        ReportedCache(2, "unified", 2 << 20),
    )
    known = reported_figures(calibration(machine=replace(MACHINE, cpu_model=None)), sysfs_caches())
    assert figure_from(known, "l1d_bytes", None, "sysfs") == ReportedFigure(
        "l1d_bytes", None, "sysfs", 48 << 10
    )
