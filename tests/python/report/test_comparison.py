# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a comparison say what differs, and whether that is more than the intervals allow?"""

from __future__ import annotations

import io
import json
from dataclasses import replace

import jsonschema
import pytest
from builders.answer import MACHINE, RUN, altered, estimated, overlapped
from builders.report import bare, made_up
from builders.tree import SCHEMAS
from tlbcost.answer.document import estimate_document
from tlbcost.answer.record import Estimate
from tlbcost.common.document import to_json
from tlbcost.common.interval import Interval
from tlbcost.report.comparison import Compared, ComparisonDocument, compared, print_comparison


def comparison(first: Estimate, second: Estimate) -> ComparisonDocument:
    return compared(
        estimate_document(first), estimate_document(second), ("before.json", "after.json")
    )


def row(found: ComparisonDocument, name: str) -> Compared:
    return next(each for each in found.rows if each.name == name)


def text_of(found: ComparisonDocument) -> str:
    file = io.StringIO()
    print_comparison(found, file)
    return file.getvalue()


def gains(value: float, low: float, high: float) -> Estimate:
    return overlapped(estimated(), Interval(value, low, high))


def test_intervals_that_overlap_are_no_difference() -> None:
    found = comparison(gains(0.2, 0.1, 0.3), gains(0.25, 0.15, 0.35))
    assert row(found, "cheaper TLB misses").change == "within"
    assert row(found, "elapsed time").change == "within"
    assert text_of(found).startswith("NO CLEAR DIFFERENCE: the gain is ")


@pytest.mark.parametrize(("second", "change"), [(0.5, "larger"), (0.01, "smaller")])
def test_intervals_apart_are_a_difference(second: float, change: str) -> None:
    def exact(value: float) -> Estimate:
        made = estimated()
        gain = replace(
            made.gain,
            expected_fraction=Interval(value, value - 0.005, value + 0.005),
            fault_fraction=Interval(0, 0, 0),
        )
        return altered(made, gain=gain)

    found = comparison(exact(0.2), exact(second))
    assert row(found, "total gain").change == change
    assert text_of(found).startswith("DIFFERENT: the gain goes from 20 % to ")


def test_an_estimate_does_not_differ_from_itself() -> None:
    for shown in made_up().values():
        found = comparison(shown, shown)
        assert found.notes == []
        assert not found.verdict_changed
        assert {each.change for each in found.rows} <= {"within", "unknown"}


def test_what_may_not_be_compared_is_noted() -> None:
    other = altered(
        estimated(0), argv=("./other",), machine=replace(MACHINE, kernel="5.15", cpu_name="Another")
    )
    found = comparison(estimated(), other)
    assert found.verdict_changed
    assert found.notes == [
        "different programs or arguments", "different CPUs", "different kernels",
    ]  # fmt: skip
    assert "Note: different programs or arguments, different CPUs" in text_of(found)


def test_what_was_not_obtained_is_unknown() -> None:
    found = comparison(estimated(), bare())
    assert row(found, "fewer page faults").second is None
    assert row(found, "fewer page faults").change == "unknown"
    line = next(each for each in text_of(found).splitlines() if each.startswith("fewer page"))
    assert line.split()[-2:] == ["NA", "NA"]


def test_page_faults_are_those_of_the_runs() -> None:
    runs = (RUN, replace(RUN, minor_faults=80_000), replace(RUN, minor_faults=75_000))
    found = row(comparison(estimated(), altered(estimated(), runs=runs)), "page faults")
    assert found.first == Interval(70_000, 70_000, 70_000)
    assert found.second == Interval(75_000, 70_000, 80_000)


@pytest.mark.parametrize("name", made_up())
@pytest.mark.parametrize("columns", [80, 120])
def test_it_fits_and_follows_its_schema(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    schema = json.loads((SCHEMAS / "compare.schema.json").read_text(encoding="utf-8"))
    for pair in ((made_up()[name], estimated()), (estimated(), made_up()[name])):
        found = comparison(*pair)
        lines = text_of(found).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= columns
        jsonschema.validate(json.loads(to_json(found)), schema)
