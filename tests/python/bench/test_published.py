# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the gain's constants those of the published pairs, predictions judged, schemas up to date?"""

from __future__ import annotations

import json

import published_gains as bench
import pytest
import schemas
from accuracy_rows import Row
from builders.tree import TREE, there
from tlbcost.common import formats
from tlbcost.common.document import properties
from tlbcost.common.formats import read_table
from tlbcost.common.units import Interval
from tlbcost.machines.plan import machine_named, named
from tlbcost.model.gain import (
    REMOVED_SLOPE,
    SHARE_SLOPE,
    SHARE_SPREAD,
    expected_from_share,
    expected_with_remaining,
)

PAIRS = read_table(TREE / "data" / "published" / "pairs.tsv", formats.PUBLISHED)


def test_every_pair_has_its_source_and_a_status() -> None:
    assert len(PAIRS.rows) == 40
    for row in PAIRS.records():
        assert PAIRS.header[f"source_{row['source']}"]
        assert row["status"] in ("read", "computed", "digitised", "remembered")
        assert row["sockets"] in ("1", "4")
        assert 0 < float(row["walk_share_4k"] or "") < 1


def test_the_constants_are_the_fit_of_the_published_pairs() -> None:
    assert bench.wrong_constants() == []


def test_the_interval_holds_nine_of_ten_on_a_machine_left_out() -> None:
    for column, (form, _) in bench.CHOSEN.items():
        assert bench.coverage_apart(form, bench.read_pairs(column, single_socket=True)) >= 0.9


def test_no_walks_nothing_to_gain() -> None:
    assert expected_from_share(0) == Interval(0, 0, 0)


def test_the_gain_is_a_part_of_the_share_and_at_most_the_share() -> None:
    found = expected_from_share(0.1784)
    assert found.value == pytest.approx(SHARE_SLOPE * 0.1784)
    assert found.low == pytest.approx(SHARE_SLOPE * 0.1784 - SHARE_SPREAD * 0.1784**0.5)
    assert found.high == 0.1784
    # Gorman measured 12.7 %.
    assert found.low < 0.1271 < found.high


def test_the_ends_of_a_share_widen_the_gain() -> None:
    found = expected_from_share(Interval(0.3, 0.2, 0.4))
    assert found.low == expected_from_share(0.2).low
    assert found.high == expected_from_share(0.4).high
    # The low end is lowest in between, not at an end.
    wide = expected_from_share(Interval(0.1, 0, 0.2))
    assert wide.low < min(expected_from_share(0).low, expected_from_share(0.2).low)
    assert wide.low == pytest.approx(-(SHARE_SPREAD**2) / (4 * SHARE_SLOPE))


def test_walks_that_stay_are_not_gained() -> None:
    # Mitosis, GUPS on one socket: 82.6 % of the cycles, of which 64.3 % go; 61.1 % gained.
    found = expected_with_remaining(0.8257, 1 - 0.6427 / 0.8257)
    assert found.value == pytest.approx(REMOVED_SLOPE * 0.6427)
    assert found.low < 0.6112 < found.high <= 0.8257
    assert expected_with_remaining(0.4, 1.0) == Interval(0, 0, 0)


def test_huge_pages_that_walk_more_lose() -> None:
    found = expected_with_remaining(Interval(0.1, 0.05, 0.2), 1.3)
    assert found.value == pytest.approx(-0.3 * 0.1 * REMOVED_SLOPE)
    assert found.low < -0.06 * REMOVED_SLOPE < 0 < found.high <= 0.2


@pytest.mark.parametrize("share", [-0.1, 1.1, Interval(0.5, -0.5, 0.6), float("nan")])
def test_what_is_no_share_is_refused(share: float | Interval) -> None:
    with pytest.raises(ValueError, match="not a"):
        expected_from_share(share)


@pytest.mark.parametrize("remaining", [-0.1, float("nan"), float("inf")])
def test_what_is_no_part_of_the_walks_is_refused(remaining: float) -> None:
    with pytest.raises(ValueError, match="not a part"):
        expected_with_remaining(0.3, remaining)


PUBLISHED = TREE / "data" / "published"
ROWS = read_table(PUBLISHED / "machines.tsv", formats.PUBLISHED_MACHINES).records()


def row(published: float, predicted: float, *, half: float | None = None) -> Row:
    interval = None if half is None else Interval(predicted, predicted - half, predicted + half)
    return Row("someone", "a CPU", "snb", "time of something", published, predicted, interval)


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
    assert dict(there(own.core).fields)["memory-cycles"] == 200
    assert "ghz" not in {unknown.name for each in own.variants for unknown in each.unknowns}


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_the_committed_schema_is_that_of_the_document(name: str) -> None:
    file = schemas.SCHEMAS / f"{name}.schema.json"
    assert file.read_text(encoding="utf-8") == schemas.text(name), "make bench NAME=schemas"


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_every_key_is_described(name: str) -> None:
    found = properties(json.loads(schemas.text(name)))
    assert [key for key, value in found if "description" not in value] == []
