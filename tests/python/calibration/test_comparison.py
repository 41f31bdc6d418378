# SPDX-License-Identifier: GPL-2.0-or-later
"""Are two calibrations compared figure by figure, and is what is no calibration refused by name?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders.calibration import BASE, cost, full, quick
from tlbcost.__main__ import main
from tlbcost.calibration.document import calibration_document, compare, cost_pairs, read_document
from tlbcost.calibration.records import Calibration, Cost, Obtained
from tlbcost.common.document import to_json
from tlbcost.common.units import Interval

NAMES = ("a.json", "b.json")


def written(obtained: Obtained) -> str:
    return to_json(calibration_document(obtained))


def with_costs(*costs: Cost) -> Calibration:
    return replace(quick().calibration, costs=costs)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(written(full()))
    # Notes and CPUID's raw words belong to the machine they were made on.
    assert read_document(path) == replace(full().calibration, notes=(), cpuid={})


def test_change_and_overlap() -> None:
    first = with_costs(cost("stlb_hit_ns", 2.0), cost("walk_ns", 20), cost("fault_ns", 500))
    second = with_costs(cost("stlb_hit_ns", 2.02), cost("walk_ns", 30), cost("fault_ns", None))
    found = cost_pairs(first, second)
    assert [pair.overlap for pair in found] == [True, False, None]
    assert found[0].change_fraction == pytest.approx(0.01)
    assert found[1].change_fraction == pytest.approx(0.5)
    assert found[2].change_fraction is None
    text = compare(first, second, NAMES)
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert lines["stlb_hit_ns"][-5:] == ["2", "2.02", "+1.0", "%", "overlap"]
    assert lines["walk_ns"][-5:] == ["20", "30", "+50", "%", "apart"]
    assert lines["fault_ns"][-4:] == ["500", "NA", "NA", "NA"]
    assert "2 figures are in both; of 1 the 95 % intervals do not overlap" in text


def test_intervals_that_touch_overlap() -> None:
    one = Cost("walk_ns", BASE, "serial", 1, Interval(1, 0, 2), 9)
    other = Cost("walk_ns", BASE, "serial", 1, Interval(3, 2, 4), 9)
    assert cost_pairs(with_costs(one), with_costs(other))[0].overlap


def test_no_change_from_what_is_not_above_zero() -> None:
    one = Cost("walk_ns", BASE, "serial", 1, Interval(-0.1, -1, 2), 9)
    (pair,) = cost_pairs(with_costs(one), with_costs(cost("walk_ns", 3, access="serial", pages=1)))
    assert pair.change_fraction is None
    assert pair.overlap is False


def test_walks_are_paired_by_footprint_and_single_figures_without() -> None:
    def walks(*pages: int) -> list[Cost]:
        return [cost("walk_ns", 20, access="serial", pages=at) for at in pages]

    first = with_costs(*walks(4096, 8192), cost("stlb_hit_ns", 2, access="serial", pages=400))
    second = with_costs(*walks(8192, 16384), cost("stlb_hit_ns", 2, access="serial", pages=420))
    found = cost_pairs(first, second)
    sides = [(p.first and p.first.pages, p.second and p.second.pages) for p in found]
    assert sides == [(4096, None), (8192, 8192), (400, 420), (None, 16384)]
    assert "differs" in compare(first, second, NAMES)


def test_differing_machines_are_named_first() -> None:
    first, second = quick().calibration, full().calibration
    assert "The same machine with the same settings." in compare(first, second, NAMES)
    machine = replace(second.machine, kernel="6.6.0", microcode=None)
    text = compare(first, replace(second, machine=machine), NAMES)
    assert "kernel: 6.1.0 | 6.6.0" in text
    assert "microcode: 0x1 | NA" in text
    assert "cpu_model:" not in text
    assert text.index("Different machines") < text.index("quantity")


def test_the_comparison_fits_80_columns() -> None:
    text = compare(quick().calibration, full().calibration, NAMES)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    for row in full().calibration.costs:
        assert f"\n{row.quantity} " in text


def test_compare_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in NAMES]
    for file, obtained in zip(files, (quick(), full()), strict=True):
        file.write_text(written(obtained))
    assert main(["calibrate", "--compare", *map(str, files)]) == 0
    assert "walk_cache_regions" in capsys.readouterr().out
    output = tmp_path / "text"
    assert main(["calibrate", "--compare", *map(str, files), "--output", str(output)]) == 0
    assert "walk_cache_regions" in output.read_text()


COST = ("costs", 0)


@pytest.mark.parametrize(
    ("where", "value", "defect"),
    [
        (("schema",), "tlbcost-calibration-1", "schema tlbcost-calibration-1, not tlbcost-"),
        (("date",), None, "Expected `str`, got `null` - at `$.date`"),
        (("extent",), "half", "Invalid enum value 'half' - at `$.extent`"),
        (("duration_s",), 1e999, "not a JSON document"),
        (("costs",), {}, "Expected `array`, got `object` - at `$.costs`"),
        (COST, 7, "Expected `object`, got `int` - at `$.costs[0]`"),
        (COST, {}, "missing required field `quantity`"),
        ((*COST, "quantity"), "walk_cycles", "not a calibrated quantity: walk_cycles"),
        ((*COST, "value"), "96", "Expected `float | null`, got `str` - at `$.costs[0].value`"),
        ((*COST, "low"), None, "a value without its interval"),
        ((*COST, "low"), 1e9, "not an interval"),
        ((*COST, "access"), "fast", "Invalid enum value 'fast' - at `$.costs[0].access`"),
        ((*COST, "samples"), -1, "Expected `int` >= 0 - at `$.costs[0].samples`"),
        (("machine", "base_page_bytes"), "4096", "got `str` - at `$.machine.base_page_bytes`"),
        (("machine", "kernel"), 6, "Expected `str | null`, got `int` - at `$.machine.kernel`"),
    ],
)
def test_a_spoilt_document_is_refused_by_name(
    where: tuple[str | int, ...],
    value: object,
    defect: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = json.loads(written(full()))
    *folders, key = where
    inside = document
    for folder in folders:
        inside = inside[folder]
    inside[key] = value
    path = tmp_path / "spoilt.json"
    path.write_text(json.dumps(document))
    assert main(["calibrate", "--compare", str(path), str(path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"tlbcost: {path}: ")
    assert defect in said
    assert "tlbcost: hint: tlbcost calibrate --json" in said


@pytest.mark.parametrize("content", [b"garbage", b"", b"\xff\xfe", b"[1]", b"{}", b"[" * 99999])
def test_garbage_is_refused_by_name(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "garbage.json"
    path.write_bytes(content)
    assert main(["calibrate", "--compare", str(path), str(path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"tlbcost: {path}: not a ")
    assert main(["calibrate", "--compare", str(tmp_path / "none"), str(path)]) == 1
    assert "No such file" in capsys.readouterr().err
