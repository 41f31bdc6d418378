# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the text of a calibration say what is in it, and what is not?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.calibration import cost, full, quick
from builders.tree import TREE
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.other_sources import WORDS, reported_figures
from tlbcost.calibration.records import Cost, Obtained
from tlbcost.calibration.report import describe, load_table, summarize
from tlbcost.common import units
from tlbcost.common.interval import Interval

BOTH = pytest.mark.parametrize("obtained", [quick(), full()], ids=["quick", "full"])
# Leaf 2 that refers to an empty leaf 0x18, and a level 3 cache of 300 MiB.
RAW = {"cpuid_2_0": "00feff01 000000f0 00000000 00000000",
       "cpuid_4_0": "04004163 04c0003f 0003bfff 00000004"}  # fmt: skip
RECORDED = TREE / "data" / "samples"
GOOD = RECORDED / "amd-zen-5-guest" / "calibration.tsv"
POOR = RECORDED / "amd-zen-5-guest-busy" / "calibration-1.tsv"


def test_absent_is_na() -> None:
    section = describe(quick()).partition("TLBs, 2 MiB pages")[2]
    (line,) = [line for line in section.splitlines() if line.startswith("STLB entries")]
    assert line.split()[2] == "NA"


@BOTH
def test_every_figure_is_in_the_text(obtained: Obtained) -> None:
    text = describe(obtained)
    for row in obtained.calibration.costs:
        if row.interval is not None:
            value = row.interval.value
            if row.quantity.endswith("_bytes"):
                shown = units.size(round(value))
            elif row.quantity in WORDS:
                shown = f"{value:.0f}"
            else:
                shown = units.nanoseconds(value)
            assert f" {shown} " in text.replace("\n", " "), row


def test_ns_first_then_cycles_by_the_measured_clock() -> None:
    (line,) = [s for s in describe(full()).splitlines() if s.startswith("memory ")]
    assert line.split() == ["memory", "101", "98", "..", "104", "323"]
    # Without a clock there are no cycles.
    (line,) = [
        s for s in describe(quick()).splitlines() if s.startswith("page fault") and "4 K" in s
    ]
    assert line.split()[-1] == "NA"


def test_walks_over_footprint_with_their_page_tables() -> None:
    section = describe(full()).partition("Walks, 4 KiB pages")[2]
    (line,) = [s for s in section.splitlines() if s.split()[:1] == ["65536"]]
    assert line.split() == ["65536", "512", "KiB", "35", "32.9", "..", "37.8", "112",
                            "8", "6.8", "..", "9.2", "25.6"]  # fmt: skip


def test_a_cost_is_not_below_zero() -> None:
    obtained = quick()
    costs = tuple(
        replace(c, interval=Interval(12, -4.7, 40)) if c.quantity == "walk_ns" else c
        for c in obtained.calibration.costs
    )
    shown = replace(obtained, calibration=replace(obtained.calibration, costs=costs))
    assert "0 .. 40" in describe(shown)
    assert "-4.7" not in describe(shown)


def test_the_grade_and_each_reason() -> None:
    assert "\nGrade      good\n" in describe(quick())
    made = quick()
    poor = replace(made.calibration, grade_reasons=("steal 12 %", "another"))
    text = describe(replace(made, calibration=poor))
    assert (
        "\nGrade      poor calibration: repeat it when the machine is quiet\n"
        "           steal 12 %\n           another\n"
    ) in text


def wide(obtained: Obtained) -> Obtained:
    def larger(cost: Cost) -> Cost:
        if cost.interval is None or not cost.quantity.endswith("_ns"):
            return cost
        pages = 16777216 if cost.pages and cost.access not in ("serial", "overlapped") else None
        value = 1e6 if cost.quantity in ("fault_ns", "unmap_ns") else 222.4
        return replace(
            cost, interval=Interval(value, 0.9 * value, 5 * value), pages=pages or cost.pages
        )

    costs = tuple(larger(cost) for cost in obtained.calibration.costs)
    return replace(obtained, calibration=replace(obtained.calibration, costs=costs, cpuid=RAW))


@BOTH
def test_text_fits_80_columns(obtained: Obtained) -> None:
    for each in (obtained, wide(obtained)):
        text = describe(each, reported_figures(each.calibration))
        assert [line for line in text.splitlines() if len(line) > 80] == []
        assert not any(line.endswith(" ") for line in text.splitlines())


def test_others_accompany_the_measurement_and_disagreement_is_named() -> None:
    obtained = full()
    costs = (*obtained.calibration.costs, Cost("l3_bytes", None, None, None,
             Interval(30 << 20, 29 << 20, 31 << 20), 9))  # fmt: skip
    costs = tuple(c for c in costs if c.quantity != "l3_bytes" or c.interval)
    obtained = replace(obtained, calibration=replace(obtained.calibration, costs=costs, cpuid=RAW))
    text = describe(obtained, reported_figures(obtained.calibration))
    line = next(s for s in text.splitlines() if s.startswith("L3 cache "))
    assert line.split() == ["L3", "cache", "30", "MiB", "29", "MiB", "..", "31", "MiB",
                            "300", "MiB", "NA"]  # fmt: skip
    assert "note: L3 cache: 30 MiB measured, but 300 MiB reported by CPUID" in text
    assert "CPUID leaf 2 refers to leaf 0x18" in text
    (line,) = [s for s in text.splitlines() if s.startswith("STLB entries")][:1]
    assert line.split()[-2:] == ["2048", "NA"]


def test_loads_are_a_table_by_footprint() -> None:
    section = describe(full()).partition("\nLoads ")[2].partition("\n\n")[0]
    rows = [line.split() for line in section.splitlines()[2:]]
    assert rows == [
        ["16", "KiB", "1.25", "1.21", "..", "1.29", "4"],
        ["4", "MiB", "27.5", "26.7", "..", "28.3", "88", "2.1", "2.04", "..", "2.16"],
        ["16", "MiB", "NA", "1.8", "1.75", "..", "1.85"],
        ["256", "MiB", "NA", "NA", "NA"],
        ["memory", "99", "96", "..", "102", "317"],
    ]
    assert "\nLoads " not in describe(quick())


def test_notes_about_a_quantity_have_its_words() -> None:
    noted = full()
    notes = ("stlb_ways: no step", "l3_ns: not the same", "why: because", "a sentence")
    noted = replace(noted, calibration=replace(noted.calibration, notes=notes))
    text = describe(noted)
    for words in ("STLB ways: no step", "L3 cache, ns: not the same", "why: because", "a sentence"):
        assert f"note: {words}\n" in text


def test_a_guest_is_called_one() -> None:
    assert "nested paging" in describe(full())
    bare = full()
    machine = replace(bare.calibration.machine, hypervisor=None)
    bare = replace(bare, calibration=replace(bare.calibration, machine=machine))
    assert "nested" not in describe(bare)


def test_a_quick_one_says_what_it_left_out() -> None:
    assert "tlbcost calibrate --full" in describe(quick())
    assert "tlbcost calibrate --full" not in describe(full())


def test_costs_of_millions_of_ns_keep_to_their_columns() -> None:
    giant = Cost("fault_ns", 1 << 30, None, None, Interval(115633266, 114422852, 116608022), 4)
    made = full()
    calibration = replace(made.calibration, costs=(*made.calibration.costs, giant))
    text = describe(replace(made, calibration=calibration))
    (row,) = [line for line in text.splitlines() if "page fault" in line and "1 GiB" in line]
    assert "116 M  114 M .. 117 M" in row
    assert len(row) <= 80


@pytest.mark.parametrize(
    ("ns", "words"),
    [
        (3e6, "3 ms 2.91-3.09 ms"),
        # The calibrator waited no longer.
        (32e6, "32 ms or more"),
        (40e6, "32 ms or more"),
        (None, "NA"),
    ],
)
def test_how_long_lines_stay(ns: float | None, words: str) -> None:
    costs = (
        cost("load_ns", 4, None, "serial", 8192),
        cost("l3_half_life_ns", ns, None, None, 65536),
    )
    lines = load_table(replace(quick().calibration, costs=costs), None)
    assert lines[-2] == "Half of the lines that are not accessed leave the last-level cache in"
    assert lines[-1].split() == words.split()


def test_nothing_is_said_of_what_was_not_measured() -> None:
    costs = (cost("load_ns", 4, None, "serial", 8192),)
    lines = load_table(replace(quick().calibration, costs=costs), None)
    assert not any("not accessed" in line for line in lines)


def of(obtained: Obtained, width: int = 80) -> list[str]:
    return summarize(obtained, reported_figures(obtained.calibration), width).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "obtained",
    [
        quick(),
        full(),
        Obtained(read_calibration(GOOD), "cached in " + 30 * "/folder"),
        Obtained(read_calibration(POOR), "measured now"),
    ],
    ids=["quick", "full", "good", "poor"],
)
def test_it_fits(obtained: Obtained, width: int) -> None:
    lines = of(obtained, width)
    assert len(lines) <= 24
    assert all(len(line) <= max(width, 80) for line in lines)
    assert not any(line.endswith(" ") for line in lines)
    assert lines[-1] == "Everything else, and what is published: --details"


def test_the_grade_comes_first() -> None:
    good, poor = (of(Obtained(read_calibration(path), "measured now")) for path in (GOOD, POOR))
    assert good[0] == "Good calibration: 2026-11-23T08:48:38Z, quick, in 8.5 s"
    assert poor[0] == "POOR CALIBRATION: repeat it when the machine is quiet"
    assert poor[1].startswith("Because  a walk on 2 MiB pages (serial, 16,384 pages) costs -138 ns")


def test_figures_are_side_by_side() -> None:
    lines = of(Obtained(read_calibration(GOOD), "measured now"))
    walk = next(line for line in lines if line.startswith("Page walk, 8,192 pages"))
    assert walk.split("pages ")[1].split() == [
        "14.8", "(14.7", "to", "15.1)", "11.3", "(9.17", "to", "12.8)"
    ]  # fmt: skip
    assert any(line.startswith("STLB hit ") and line.endswith(" NA") for line in lines)
    assert "memory 144" in " ".join(lines)


def test_what_is_below_zero_is_not_shown() -> None:
    lines = of(Obtained(read_calibration(POOR), "measured now"))
    walk = next(line for line in lines if line.startswith("Page walk, 16,384 pages"))
    assert walk.split()[-1] == "NA"
    assert not any("-138" in line for line in lines[3:])


def test_without_walks_they_are_na() -> None:
    made = quick()
    costs = tuple(c for c in made.calibration.costs if c.quantity != "walk_ns")
    lines = of(replace(made, calibration=replace(made.calibration, costs=costs)))
    (walk,) = [line for line in lines if line.startswith("Page walk")]
    assert walk.split()[2:] == ["NA", "NA"]
