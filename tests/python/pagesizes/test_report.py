# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the report, the document and the figure say what was measured?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from builders.answer import MACHINE
from builders.page_times import full, timed, times
from builders.tree import TREE, needs_gnuplot, printed, there, valid
from msgspec.structs import replace
from tlbcost.calibration.records import Calibration, Cost
from tlbcost.common import formats
from tlbcost.common.document import to_json
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import format_table
from tlbcost.common.units import Interval
from tlbcost.pagesizes.document import (
    PageSizesDocument,
    document_of,
    draw_page_sizes,
    notes,
    print_page_sizes,
    tlbs,
)
from tlbcost.pagesizes.published import GIB, PATTERNS, published, ratio_of
from tlbcost.pagesizes.runner import PageTimes, read_run


def report(result: PageTimes) -> PageSizesDocument:
    return replace(
        document_of(result, MACHINE, None), tlbcost_version="1.0", date="2026-01-01T00:00:00Z",
        tlbs=("4 KiB: 64",), notes=("so",),
    )  # fmt: skip


def test_the_report_has_the_articles_table() -> None:
    text = printed(print_page_sizes, report(full()), details=True)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    ratios = lines[next(i for i, line in enumerate(lines) if line.startswith("time over 4 KiB")) :]
    assert ratios[1].split() == [
        "2", "a", "chunk", "in", "each", "GiB", "2.82", "(2.67-3.00)", "NA", "0.82", "0.59",
    ]  # fmt: skip
    assert ratios[2].split()[-5:] == ["(0.33-0.38)", "0.19", "(0.17-0.22)", "0.34", "0.34"]
    whole = " ".join(text.split())
    assert "NA 1 GiB, pattern 2: 5 pages of 1 GiB are needed at least" in whole
    assert "type: reserve more" in whole
    assert "NA 64 KiB: none here." in whole
    assert "Worst here: pattern 2 on 2 MiB pages takes 2.82 (2.67-3.00) times" in whole
    assert "Best here: pattern 9 on 1 GiB pages takes 0.19 (0.17-0.22) times" in whole


def test_a_summary_begins_with_the_worst_and_the_best() -> None:
    text = printed(print_page_sizes, report(full()), details=False)
    lines = text.splitlines()
    assert len(lines) <= 24
    assert lines[0].startswith("Worst here: ")
    assert "core cycles" not in text


def test_what_may_be_noise_is_neither_worst_nor_best() -> None:
    runs = [timed(r, 9, 4096, 10) for r in range(3)]
    runs += [timed(r, 9, 2 << 20, ns) for r, ns in enumerate((9, 10.5, 11))]
    found = report(times(runs))
    assert (found.worst, found.best) == (None, None)


def test_json_has_null_for_what_is_not_there() -> None:
    document = valid(to_json(report(full())), "pagesizes")
    lacking = document["patterns"][0]["page_sizes"][2]
    assert lacking["cycles"] is None
    assert lacking["ratio"] is None
    assert lacking["runs"] == []
    assert lacking["missing"]["reason"].startswith("5 pages")
    assert document["patterns"][1]["page_sizes"][1]["ratio"]["value"] == pytest.approx(11 / 31)
    valid(to_json(report(times([]))), "pagesizes")


def test_the_recorded_run_is_what_the_document_says() -> None:
    text = (TREE / "doc/page-sizes.md").read_text(encoding="utf-8")
    recorded = list((TREE / "data" / "pagesizes").glob("*.json"))
    assert recorded
    for file in recorded:
        assert f"data/pagesizes/{file.name}" in text
        document = valid(file.read_text(encoding="utf-8"), "pagesizes")
        read = msgspec.json.decode(file.read_bytes(), type=PageSizesDocument)
        assert json.loads(to_json(read)) == document
        assert len(document["patterns"]) == len(PATTERNS)
        for each in document["patterns"]:
            ratios = [size["ratio"] for size in each["page_sizes"][1:]]
            cells = [f"{r['value']:.2f} ({r['low']:.2f}-{r['high']:.2f})" for r in ratios]
            assert re.search(
                rf"^\| {each['pattern']} \|.*{re.escape(' | '.join(cells))}", text, re.MULTILINE
            )


def test_no_picture_without_a_ratio(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="no ratio was measured"):
        draw_page_sizes(report(times([])), tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


@needs_gnuplot
def test_a_picture(tmp_path: Path) -> None:
    draw_page_sizes(report(full()), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for words in ("time over that on 4 KiB pages", "2 a chunk in each GiB", "9 64 MiB + 64 B"):
        assert words in text


def test_published_ratios_are_those_of_the_cycles() -> None:
    figures = published()
    for number in range(1, 11):
        cycles = {f.page_bytes: f.cycles for f in figures if f.pattern == number}
        for size in (2 << 20, GIB):
            known = there(ratio_of(figures, number, size))
            assert known.ratio is not None
            above, below = cycles[size], cycles[4096]
            assert below is not None
            if above is not None:
                assert known.ratio == pytest.approx(above / below, abs=0.011)
    assert there(ratio_of(figures, 11, 2 << 20)).ratio == pytest.approx(1 / 2.9, abs=0.001)


def calibration(entry_bytes: float | None) -> Calibration:
    value = None if entry_bytes is None else Interval(entry_bytes, entry_bytes, entry_bytes)
    cost = Cost("tlb_entry_bytes", 2 << 20, None, None, value, 0)
    return Calibration(MACHINE, "2026-01-01T00:00:00Z", "0", 1.0, (cost,))


def test_a_host_that_holds_pages_in_pieces_is_reported() -> None:
    from dataclasses import replace

    result = times([])
    guest, metal = replace(MACHINE, hypervisor="kvm"), replace(MACHINE, hypervisor=None)
    words = " ".join(notes(guest, calibration(4096.0), result))
    assert "one TLB entry covers 4 KiB of a page of 2 MiB" in words
    assert "T21" in words
    assert tlbs(guest, calibration(4096.0), result)[1:] == (
        "2 MiB: as for 4 KiB pages, split into these",
        "1 GiB: as for 4 KiB pages, split into these",
    )
    assert "is not known" in " ".join(notes(guest, None, result))
    assert "T21" not in " ".join(notes(guest, calibration(2.0**21), result))
    assert "T21" not in " ".join(notes(metal, None, result))


EMPTY = format_table(formats.PATTERN, {}, [])


def test_a_ratio_is_of_runs_of_the_same_round() -> None:
    runs = [timed(r, 9, 4096, ns) for r, ns in enumerate((10, 20, 40))]
    runs += [timed(r, 9, 2 << 20, ns) for r, ns in enumerate((5, 10, 20))]
    result = times(runs)
    assert result.ratio(9, 2 << 20) == Interval(0.5, 0.5, 0.5)
    cycles = there(result.cost(9, 4096, lambda run: run.cycles))
    assert cycles.value == 40
    # In cycles: that the clock was slower in one of both runs is no cost of its pages.
    slow = [timed(r, 9, 2 << 20, 2 * each.ns / 2, 1.0) for r, each in enumerate(runs[:3])]
    assert times([*runs[:3], *slow]).ratio(9, 2 << 20) == Interval(0.5, 0.5, 0.5)


def test_too_few_rounds_tell_no_ratio() -> None:
    runs = [timed(r, 9, 4096, 10) for r in range(3)] + [timed(r, 9, 2 << 20, 10) for r in range(2)]
    assert times(runs).ratio(9, 2 << 20) is None
    assert times(runs).ratio(2, 2 << 20) is None


@pytest.mark.parametrize("text", ["", "checksum 0\n", "# tlbcost pattern 1\n", EMPTY])
def test_a_table_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TlbcostError, match="page-patterns"):
        read_run(0, text)
