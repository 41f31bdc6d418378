# SPDX-License-Identifier: GPL-2.0-or-later
"""Do a calibration's text, its JSON and its figure say what is in it, and what is not?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from builders.calibration import cost, curve, full, quick
from builders.tree import SCHEMAS, TREE, needs_gnuplot
from tlbcost.calibration.document import calibration_document, draw
from tlbcost.calibration.file import QUANTITIES, read_calibration
from tlbcost.calibration.records import WORDS, Cost, Obtained, reported_figures
from tlbcost.calibration.report import describe, load_table, summarize
from tlbcost.common import units
from tlbcost.common.document import to_json
from tlbcost.common.errors import TlbcostError
from tlbcost.common.units import Interval

BOTH = pytest.mark.parametrize("obtained", [quick(), full()], ids=["quick", "full"])
# Leaf 2 that refers to an empty leaf 0x18, and a level 3 cache of 300 MiB.
RAW = {"cpuid_2_0": "00feff01 000000f0 00000000 00000000",
       "cpuid_4_0": "04004163 04c0003f 0003bfff 00000004"}  # fmt: skip
RECORDED = TREE / "data" / "samples"
GOOD = RECORDED / "amd-zen-5-guest" / "calibration.tsv"
POOR = RECORDED / "amd-zen-5-guest-busy" / "calibration-1.tsv"


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


def of(obtained: Obtained, width: int = 80) -> list[str]:
    return summarize(obtained, reported_figures(obtained.calibration), width).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "obtained",
    [quick(), full(), Obtained(read_calibration(GOOD), "cached in " + 30 * "/folder"),
     Obtained(read_calibration(POOR), "measured now")],
    ids=["quick", "full", "good", "poor"],
)  # fmt: skip
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


SCHEMA = json.loads((SCHEMAS / "calibrate.schema.json").read_text("utf-8"))


def document(obtained: Obtained) -> dict[str, list[dict[str, object]]]:
    known = reported_figures(obtained.calibration)
    found: dict[str, list[dict[str, object]]]
    found = json.loads(to_json(calibration_document(obtained, known)))
    return found


@BOTH
def test_json_follows_its_schema(obtained: Obtained) -> None:
    made = document(obtained)
    jsonschema.validate(made, SCHEMA)
    assert len(made["costs"]) == len(obtained.calibration.costs)
    assert {"quantity": "stlb_entries", "page_size_bytes": 4096, "source": "published",
            "value": 2048, "verified": True} in made["expected"]  # fmt: skip


def test_schema_knows_every_quantity_and_refuses_others() -> None:
    parts = SCHEMA["$defs"]
    assert parts["CalibratedCost"]["properties"]["quantity"]["enum"] == list(QUANTITIES)
    assert parts["ReportedFigure"]["properties"]["quantity"]["enum"] == list(WORDS)
    made = document(quick())
    made["costs"][0]["quantity"] = "walk_cycles"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, SCHEMA)


def test_nothing_measured_is_not_drawn(tmp_path: Path) -> None:
    # As where others keep the machine busy until the time is over.
    calibration = replace(quick().calibration, costs=())
    rows = [line for line in curve().splitlines() if not line.startswith(("tlb\t", "# end"))]
    rows.append(f"# end: {sum(line.startswith('cache') for line in rows)}")
    empty = Obtained(calibration, "measured now", "\n".join(rows) + "\n")
    with pytest.raises(TlbcostError, match="nothing was measured of the TLBs"):
        draw(empty, [], tmp_path / "curve.svg")
    assert not (tmp_path / "curve.svg").exists()


@needs_gnuplot
@pytest.mark.parametrize("caches", [True, False], ids=["caches", "no-caches"])
@BOTH
def test_the_figure_has_labels_units_and_marks(
    obtained: Obtained, caches: bool, tmp_path: Path
) -> None:
    picture = tmp_path / "drawn.svg"
    draw(replace(obtained, curve=curve(caches)), reported_figures(obtained.calibration), picture)
    text = picture.read_text(encoding="utf-8")
    for words in ("translation time per access (ns)", "cost of a page walk (ns)",
                  "footprint (pages, one cache line in each)", "reach in 4 KiB pages",
                  "L1 dTLB 96 x 4 KiB", "STLB 2048 x 4 KiB", "4 KiB, serial",
                  "4 KiB in 2 MiB pages, serial",
                  "A made-up CPU"):  # fmt: skip
        assert words in text, words
    assert ("load-to-use latency (ns)" in text) == caches
    assert ("2 chains at once" in text) == (obtained.calibration.extent == "full")
    assert ("fill L2 (2 MiB)" in text) == (obtained.calibration.extent == "full")
    assert 'width="800"' in text


@needs_gnuplot
def test_a_figure_without_any_knee_or_walk_is_drawn(tmp_path: Path) -> None:
    obtained = quick()
    costs = tuple(replace(c, interval=None, pages=None) for c in obtained.calibration.costs)
    calibration = replace(obtained.calibration, costs=costs)
    picture = tmp_path / "drawn.svg"
    draw(Obtained(calibration, "", curve(caches=False)), (), picture)
    text = picture.read_text(encoding="utf-8")
    assert "L1 dTLB" not in text
    assert "NA: no walk's cost was obtained" in text.replace("&#39;", "'")


def test_a_curve_that_is_garbage_is_named(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="the curve of the calibration:1: not a"):
        draw(replace(quick(), curve="garbage"), (), tmp_path / "c.svg")
    assert list(tmp_path.iterdir()) == []
