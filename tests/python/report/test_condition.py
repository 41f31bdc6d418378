# SPDX-License-Identifier: GPL-2.0-or-later
"""Are conditions of --fail-if read as documented, and does a comparison say what differs?"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from builders.answer import MACHINE, RUN, altered, estimated, overlapped
from builders.counted import both
from builders.report import bare, made_up
from builders.tree import fails, printed, valid
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.answer.document import estimate_document
from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.answer.record import Estimate
from tlbcost.common.document import to_json
from tlbcost.common.errors import TlbcostError
from tlbcost.common.units import Interval
from tlbcost.report.comparison import Compared, ComparisonDocument, compared, print_comparison
from tlbcost.report.condition import ALIASES, exit_code, parse_comparison, value_of, words_of

WORTH = estimate_document(estimated())
# Without what fewer page faults save.
BARE = estimate_document(bare())


def gains(value: float) -> EstimateDocument:
    """Cheaper TLB misses save this much, and page faults nothing."""
    made = estimated()
    gain = replace(
        made.gain, expected_fraction=Interval(value, value, value), fault_fraction=Interval(0, 0, 0)
    )
    return estimate_document(altered(made, gain=gain))


@pytest.mark.parametrize(
    ("text", "holds"),
    [("gain>5%", True), ("gain > 0.05", True), ("gain>5.1e1 %", False), ("gain>=100%", False),
     ("total_fraction.value>5%", True), ("verdict==worth_trying", True),
     ('verdict=="worth_trying"', True), ("verdict!=worth_trying", False),
     ("verdict.code==not_proven", False), ("program.wall_ns>999ms", True),
     ("program.wall_ns<=1s", True), ("program.runs.0.max_rss_bytes==300MiB", True),
     ("costs.0.walk_serial_ns>=35ns", True), ("bound_capped==false", True),
     ("simulation.model==simple", True), ('program.argv.1=="an argument"', True),
     ("machine.cpu_name!=x", True)],
)  # fmt: skip
def test_comparisons(text: str, holds: bool) -> None:
    comparison = parse_comparison(text)
    assert comparison.holds(WORTH) is holds
    assert exit_code([comparison], WORTH) == (3 if holds else 0)


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ([], 0),
        (["gain>5%", "verdict==not_proven"], 3),
        (["gain>99%", "verdict==not_proven"], 0),
        # A value that was not obtained decides nothing.
        (["faults>1%"], 4),
        (["counters.translation_fraction>1%"], 4),
        (["costs.7.walk_serial_ns>1"], 4),
        (["faults>1%", "gain>-100%"], 3),
        (["gain>100%", "faults>1%"], 4),
    ],
)
def test_one_that_holds_is_enough(texts: list[str], code: int) -> None:
    document = BARE if "faults>1%" in texts or code == 4 else WORTH
    comparisons = [parse_comparison(text) for text in texts]
    if code != 4:
        assert exit_code(comparisons, document) == code
        return
    with fails("cannot be decided", 4):
        exit_code(comparisons, document)


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "not a key, one of > >= < <= == != and a value"), ("gain", "not a key"),
     ("gain>", "not a key"), ("gain>x", "not a number"), ("gain.low<gain", "not a number"),
     ("gain>5% and gain>3%", "not a number"), ("gain=5%", "not a key"),
     ("gain>5gb", "not a number, or a unit that is not known: 5gb"), ("gain#5", "not a key"),
     ("gainn>5%", "no key gainn; the nearest are gain"),
     ("simulation.mode==x", "no key simulation.mode; the nearest are model"),
     ("machine>1", "no single value: it has cpu_vendor"),
     ("caveats.code==T01", "is a list: caveats.0"), ("verdict>not_proven", "with == or !="),
     ("verdict==worthy", "one of worth_trying, not_worth_it, not_proven, already_huge")],
)  # fmt: skip
def test_a_wrong_comparison_is_refused(text: str, why: str) -> None:
    with fails(re.escape(why), 2) as error:
        parse_comparison(text)
    assert f"--fail-if '{text}'" in str(error.value)


def test_short_names_are_keys_of_the_document() -> None:
    for name, key in ALIASES.items():
        assert words_of(name) == words_of(key)
        assert value_of(WORTH, name) == value_of(WORTH, key)


def test_keys_of_counters_and_formulas() -> None:
    document = estimate_document(both())
    assert parse_comparison("counters.formulas.share.value>1%").holds(document) is True
    assert parse_comparison("counters.way==walk_cycles").holds(document) is True


@given(st.floats(-1, 1), st.floats(-100, 100))
def test_numbers_are_compared_as_they_are(gain: float, percent: float) -> None:
    document = gains(gain)
    found = value_of(document, "misses")
    assert found == gain
    for sign, expected in (
        (">", gain > percent * 0.01), ("<=", gain <= percent * 0.01),
    ):  # fmt: skip
        assert parse_comparison(f"misses{sign}{percent!r}%").holds(document) is expected


@given(st.text(alphabet="gain()<>=!andort5%. \"'_-#0", max_size=20))
def test_no_text_breaks_the_parser(text: str) -> None:
    refused = None
    try:
        parse_comparison(text).holds(WORTH)
    except TlbcostError as error:
        refused = error.exit_code
    assert refused in (None, 2)


def comparison(first: Estimate, second: Estimate) -> ComparisonDocument:
    return compared(
        estimate_document(first), estimate_document(second), ("before.json", "after.json")
    )


def row(found: ComparisonDocument, name: str) -> Compared:
    return next(each for each in found.rows if each.name == name)


def text_of(found: ComparisonDocument) -> str:
    return printed(print_comparison, found)


def gaining(value: float, low: float, high: float) -> Estimate:
    return overlapped(estimated(), Interval(value, low, high))


def test_intervals_that_overlap_are_no_difference() -> None:
    found = comparison(gaining(0.2, 0.1, 0.3), gaining(0.25, 0.15, 0.35))
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
    for pair in ((made_up()[name], estimated()), (estimated(), made_up()[name])):
        found = comparison(*pair)
        lines = text_of(found).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= columns
        valid(to_json(found), "compare")
