# SPDX-License-Identifier: GPL-2.0-or-later
"""Are predictions for other machines judged as they should be, and what did the last run say?"""

from __future__ import annotations

import re

import pytest
from accuracy_rows import Row, text_of
from builders.tree import TREE
from tlbcost.common import formats
from tlbcost.common.interval import Interval
from tlbcost.common.table import read_table
from tlbcost.machines.plan import machine_named, named

PUBLISHED = TREE / "data" / "published"
ROWS = read_table(PUBLISHED / "machines.tsv", formats.PUBLISHED_MACHINES).records()


def row(published: float, predicted: float, *, half: float | None = None) -> Row:
    interval = None if half is None else Interval(predicted, predicted - half, predicted + half)
    return Row("someone", "a CPU", "snb", "time of something", published, predicted, interval)


def recorded() -> list[list[str]]:
    """The cells of the rows of the last run."""
    text = (TREE / "doc" / "accuracy-machines.md").read_text(encoding="utf-8")
    lines = text.split("<!-- rows: begin -->")[1].split("<!-- rows: end -->")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    sources = {"khuong2014", *(str(each["source"]) for each in ROWS)}
    return [own for own in cells if own[0].partition(",")[0] in sources]


@pytest.mark.parametrize(
    ("seen", "inside"),
    [
        (row(0.5, 0.6, half=0.1), True),
        (row(0.5, 0.6, half=0.09), False),
        (row(1.0, 1.14), True),
        (row(1.0, 0.84), False),
        (row(0.00001, 0.0009), True),
        (row(0.00001, 0.002), False),
    ],
)
def test_a_figure_is_inside_or_not(seen: Row, *, inside: bool) -> None:
    assert seen.inside is inside


def test_what_is_nothing_on_both_sides_has_no_error() -> None:
    assert row(0.00001, 0.0009).error == 0
    assert row(0.5, 0.6, half=0.1).error == pytest.approx(0.2)


def test_the_table_counts_what_is_inside() -> None:
    text = text_of([row(0.5, 0.6, half=0.1), row(0.5, 0.8, half=0.1)])
    assert "| all | 2 | 1 (50 %) | 40 % |" in text
    assert "| someone, a CPU | snb | time of something | 0.5 | 0.6 | 0.5 to 0.7 | yes |" in text


def test_each_published_figure_has_a_source_and_a_core_that_is_timed() -> None:
    table = read_table(PUBLISHED / "machines.tsv", formats.PUBLISHED_MACHINES)
    for each in ROWS:
        assert table.header[f"source_{each['source']}"]
        assert named(str(each["core"])).core == each["core"]
        assert each["reads"] in ("chain", "drawn", "independent", "update", "product")


def test_each_product_is_one_of_the_published_machines() -> None:
    products = read_table(PUBLISHED / "products.tsv", formats.PUBLISHED_PRODUCTS).records()
    known = {(each["source"], each["cpu"]) for each in ROWS}
    assert {(each["source"], each["cpu"]) for each in products} <= known


def test_a_product_has_its_own_figures_in_place_of_the_file() -> None:
    plain = machine_named("skx", (4096,), None, None)
    own = machine_named("skx", (4096,), None, None, {"ghz": 2.0, "memory_ns": 100.0})
    assert plain.core is not None
    assert own.core is not None
    assert dict(own.core.fields)["memory-cycles"] == 200
    assert "ghz" not in {unknown.name for each in own.variants for unknown in each.unknowns}


def test_the_last_run_has_all_rows() -> None:
    assert len(recorded()) == len(ROWS) + 20


def test_the_last_run_had_the_reads_of_4_gib_on_tiger_lake_right() -> None:
    own = [cells for cells in recorded() if cells[0] == "hugepagedemo, i5-1135G7"]
    assert len(own) == 5
    for cells in own:
        assert cells[-1] == "yes", cells
        found = re.fullmatch(r"([\d.]+) to ([\d.]+)", cells[5])
        if found is not None:
            assert float(found[2]) - float(found[1]) <= 0.2, cells
