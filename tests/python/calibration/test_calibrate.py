# SPDX-License-Identifier: GPL-2.0-or-later
"""Does what `tlbcost calibrate` shows of a calibration say what is in it, and what is not?"""

from __future__ import annotations

import argparse
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from builders.calibration import curve, full, quick
from tlbcost.__main__ import main
from tlbcost.calibration.cache import Obtained
from tlbcost.calibration.figure import draw
from tlbcost.calibration.file import QUANTITIES
from tlbcost.calibration.json import as_json
from tlbcost.calibration.other_sources import WORDS, sayings
from tlbcost.calibration.records import Cost
from tlbcost.calibration.report import describe
from tlbcost.commands import calibrate
from tlbcost.commands.calibrate import page_size
from tlbcost.common import units
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval

TREE = Path(__file__).parents[3]
SCHEMA = json.loads((TREE / "data" / "schema" / "calibrate.schema.json").read_text("utf-8"))
BOTH = pytest.mark.parametrize("obtained", [quick(), full()], ids=["quick", "full"])
# Leaf 2 that refers to an empty leaf 0x18, and a level 3 cache of 300 MiB.
RAW = {"cpuid_2_0": "00feff01 000000f0 00000000 00000000",
       "cpuid_4_0": "04004163 04c0003f 0003bfff 00000004"}  # fmt: skip


def document(obtained: Obtained) -> dict[str, object]:
    known = sayings(obtained.calibration)
    loaded = json.loads(json.dumps(as_json(obtained, known), allow_nan=False))
    assert isinstance(loaded, dict)
    return loaded


@BOTH
def test_json_follows_its_schema(obtained: Obtained) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    made = document(obtained)
    jsonschema.validate(made, SCHEMA)
    assert isinstance(made["costs"], list)
    assert len(made["costs"]) == len(obtained.calibration.costs)
    assert {"quantity": "stlb_entries", "page_size_bytes": 4096, "source": "published",
            "value": 2048, "verified": False} in made["expected"]  # type: ignore[operator]  # fmt: skip


def test_schema_knows_every_quantity_and_refuses_others() -> None:
    properties = SCHEMA["properties"]
    assert properties["costs"]["items"]["properties"]["quantity"]["enum"] == list(QUANTITIES)
    assert set(properties["expected"]["items"]["properties"]["quantity"]["enum"]) == set(WORDS)
    made = json.loads(json.dumps(as_json(quick())))
    made["costs"][0]["quantity"] = "walk_cycles"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, SCHEMA)


def test_absent_is_null_in_json_and_na_in_text() -> None:
    made = json.loads(json.dumps(as_json(quick())))
    absent = [c for c in made["costs"] if c["value"] is None]
    assert [(c["quantity"], c["page_size_bytes"]) for c in absent] == [("stlb_entries", 2 << 20)]
    section = describe(quick()).partition("TLBs, 2 MiB pages")[2]
    (line,) = [line for line in section.splitlines() if line.startswith("STLB entries")]
    assert line.split()[2] == "NA"


@BOTH
def test_every_figure_is_in_the_text(obtained: Obtained) -> None:
    text = describe(obtained)
    for cost in obtained.calibration.costs:
        if cost.interval is not None:
            value = cost.interval.value
            if cost.quantity.endswith("_bytes"):
                shown = units.size(round(value))
            elif cost.quantity in WORDS:
                shown = f"{value:.0f}"
            else:
                shown = units.nanoseconds(value)
            assert f" {shown} " in text.replace("\n", " "), cost


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


def test_a_negative_low_end_is_shown_as_measured() -> None:
    obtained = quick()
    costs = tuple(
        replace(c, interval=Interval(12, -4.7, 40)) if c.quantity == "walk_ns" else c
        for c in obtained.calibration.costs
    )
    shown = replace(obtained, calibration=replace(obtained.calibration, costs=costs))
    assert "-4.7 .. 40" in describe(shown)


def wide(obtained: Obtained) -> Obtained:
    """The same with figures as large as they may get."""

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
        text = describe(each, sayings(each.calibration))
        assert [line for line in text.splitlines() if len(line) > 80] == []
        assert not any(line.endswith(" ") for line in text.splitlines())


def test_others_stand_beside_the_measurement_and_disagreement_is_named() -> None:
    obtained = full()
    costs = (*obtained.calibration.costs, Cost("l3_bytes", None, None, None,
             Interval(30 << 20, 29 << 20, 31 << 20), 9))  # fmt: skip
    costs = tuple(c for c in costs if c.quantity != "l3_bytes" or c.interval)
    obtained = replace(obtained, calibration=replace(obtained.calibration, costs=costs, cpuid=RAW))
    text = describe(obtained, sayings(obtained.calibration))
    line = next(s for s in text.splitlines() if s.startswith("L3 cache "))
    assert line.split() == ["L3", "cache", "30", "MiB", "29", "MiB", "..", "31", "MiB",
                            "300", "MiB", "NA"]  # fmt: skip
    assert "note: L3 cache: 30 MiB measured, but 300 MiB told by CPUID" in text
    assert "CPUID leaf 2 refers to leaf 0x18" in text
    (line,) = [s for s in text.splitlines() if s.startswith("STLB entries")][:1]
    assert line.split()[-3:] == ["2048", "?", "NA"]


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
    ("text", "size"),
    [("4096", 4096), ("64K", 65536), ("2M", 2 << 20), ("1g", 1 << 30), ("16KiB", 16384)],
)
def test_page_sizes(text: str, size: int) -> None:
    assert page_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-2M", "0", "1K", "3M", "2T", "2.5M", "1e6", "٢M"])
def test_no_page_sizes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a page size"):
        page_size(text)


@pytest.mark.parametrize(
    "options",
    [["--quick", "--full"], ["--show", "--quick"], ["--page-size", "3M"], ["--compare", "a"]],
)
def test_usage_errors(options: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", *options])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "options",
    [["--show", "--recalibrate"], ["--show", "--page-size", "2M"],
     ["--compare", "a", "b", "--plot", "c.png"], ["--compare", "a", "b", "--json", "c"]],
)  # fmt: skip
def test_options_without_meaning_are_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", *options]) == 2
    assert "has no meaning with" in capsys.readouterr().err


def test_show_without_a_calibration_fails_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibrate, "look_up", lambda: (None, "none is cached"))
    assert main(["calibrate", "--show"]) == 1
    said = capsys.readouterr().err
    assert said == "tlbcost: nothing to show: none is cached\ntlbcost: hint: tlbcost calibrate\n"


def test_show_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibrate, "look_up", lambda: (full(), ""))
    monkeypatch.setattr(calibrate, "obtain", lambda **_: pytest.fail("measured"))
    assert main(["calibrate", "--show"]) == 0
    assert "L1 dTLB entries" in capsys.readouterr().out
    assert main(["calibrate", "--show", "--plot", "curve.png"]) == 1
    assert "curve" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "extent", "recalibrate", "sizes"),
    [([], None, False, []), (["--quick"], "quick", False, []), (["--full"], "full", False, []),
     (["--recalibrate"], None, True, []),
     (["--page-size", "64K", "--page-size", "2M"], None, False, [65536, 2 << 20])],
)  # fmt: skip
def test_options_reach_the_calibration(
    options: list[str],
    extent: str | None,
    recalibrate: bool,
    sizes: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: dict[str, object] = {}

    def obtain(**how: object) -> Obtained:
        asked.update(how)
        return full()

    monkeypatch.setattr(calibrate, "obtain", obtain)
    assert main(["calibrate", *options]) == 0
    found = (asked["extent"], asked["recalibrate"], asked["page_sizes"])
    assert found == (extent, recalibrate, sizes)
    # No terminal: no progress.
    assert asked["progress"] is None
    assert capsys.readouterr().err == ""


def test_nothing_measured_is_not_drawn(tmp_path: Path) -> None:
    # As where others keep the machine busy until the time is over.
    calibration = replace(quick().calibration, costs=())
    rows = [line for line in curve().splitlines() if not line.startswith(("tlb\t", "# end"))]
    rows.append(f"# end: {sum(line.startswith('cache') for line in rows)}")
    empty = Obtained(calibration, "measured now", "\n".join(rows) + "\n")
    with pytest.raises(TlbcostError, match="nothing was measured of the TLBs"):
        draw(empty, [], tmp_path / "curve.svg")
    assert not (tmp_path / "curve.svg").exists()


def has_gnuplot() -> bool:
    try:
        return subprocess.run(["gnuplot", "--version"], check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not has_gnuplot(), reason="gnuplot is not installed")
@pytest.mark.parametrize("caches", [True, False], ids=["caches", "no-caches"])
@BOTH
def test_the_figure_has_labels_units_and_marks(
    obtained: Obtained, caches: bool, tmp_path: Path
) -> None:
    picture = tmp_path / "drawn.svg"
    draw(replace(obtained, curve=curve(caches)), sayings(obtained.calibration), picture)
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


@pytest.mark.skipif(not has_gnuplot(), reason="gnuplot is not installed")
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


def test_costs_of_millions_of_ns_keep_to_their_columns() -> None:
    giant = Cost("fault_ns", 1 << 30, None, None, Interval(115633266, 114422852, 116608022), 4)
    made = full()
    calibration = replace(made.calibration, costs=(*made.calibration.costs, giant))
    text = describe(replace(made, calibration=calibration))
    (row,) = [line for line in text.splitlines() if "page fault" in line and "1 GiB" in line]
    assert "116 M  114 M .. 117 M" in row
    assert len(row) <= 80
