# SPDX-License-Identifier: GPL-2.0-or-later
"""Are reviews written so that other programs read them, whatever services are called?"""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pandas as pd
import pytest
from builders.review import HOSTILE, fleet, plan_of, result, there_already, worth_it, worthless
from builders.tree import printed, there
from tlbcost.common.document import to_json
from tlbcost.common.errors import TlbcostError
from tlbcost.common.units import Interval
from tlbcost.review.document import ReviewDocument, review_document
from tlbcost.review.gate import broken_rules, compared, read_review
from tlbcost.review.plan import Gate
from tlbcost.review.text import print_comparison, print_report, to_csv, to_junit, to_markdown

GATE = "[policy.gate]\nmost_gain_left = '1 %'\nmost_translation = '1 %'\n"


def review_of(folder: Path, gate: str = GATE) -> ReviewDocument:
    names = ("one", "two", "three", "four")
    services = "".join(f"[[services]]\nname = '{name}'\ncommand = ['x']\n" for name in names)
    plan = plan_of(folder, gate + services)
    found = review_document(
        plan,
        [
            result("one", worth_it()),
            result("two", worthless()),
            result("three", there_already()),
            result("four", None, failure="ended by SIGKILL"),
        ],
    )
    return msgspec.structs.replace(found, broken=broken_rules(found, None))


def hostile(folder: Path) -> ReviewDocument:
    """The same, with a name that would be markup, or a command of the terminal."""
    review = review_of(folder)
    first = msgspec.structs.replace(review.rows[0], service=HOSTILE, machine=HOSTILE)
    return msgspec.structs.replace(review, rows=[first, *review.rows[1:]])


def test_a_saved_review_reads_the_same(tmp_path: Path) -> None:
    review, file = hostile(tmp_path), tmp_path / "review.json"
    file.write_text(to_json(review), encoding="utf-8")
    assert read_review(file) == review
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(TlbcostError, match="not a review of this version"):
        read_review(file)


def test_csv_has_a_line_for_each_row(tmp_path: Path) -> None:
    review = hostile(tmp_path)
    table = pd.read_csv(io.StringIO(to_csv(review)))
    assert list(table["decision"]) == [row.decision for row in review.rows]
    assert table["gain_fraction_low"][0] == pytest.approx(there(review.rows[0].gain_fraction).low)
    assert table["gain_fraction"].isna().tolist() == [False, False, False, True]


def test_markdown_shows_names_as_they_are(tmp_path: Path) -> None:
    text = to_markdown(hostile(tmp_path))
    assert "<script" not in text
    assert "&lt;script" in text
    assert "\x1b" not in text
    # A name is one cell: its bars are escaped.
    row = next(line for line in text.splitlines() if line.startswith("| &lt;"))
    assert row.replace("\\|", "").count("|") == 8
    assert "### Broken rules" in text
    kept = review_of(tmp_path, "[policy.gate]\nfailures = false\n")
    assert "### Broken rules" not in to_markdown(kept)


def test_junit_fails_rows_that_break_rules(tmp_path: Path) -> None:
    root = ElementTree.fromstring(to_junit(hostile(tmp_path)).encode())
    (suite,) = root
    counts = {key: suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")}
    assert (counts["tests"], counts["errors"], counts["skipped"]) == ("4", "1", "0")
    failures = suite.findall("testcase/failure")
    assert len(failures) == int(counts["failures"])
    (error,) = suite.findall("testcase/error")
    assert error.attrib["message"] == "ended by SIGKILL"
    # The order of elements that JUnit's schema asks for.
    for case in suite:
        assert [child.tag for child in case][-1] == "system-out"


@pytest.mark.parametrize(
    ("rule", "limit", "broken"),
    [("most_translation", "90 %", False), ("most_translation", "89 %", True),
     ("most_gain_left", "20 %", False), ("most_gain_left", "19.9 %", True),
     ("most_growth", "1.1 %", True), ("most_growth", "1.2 %", False)],
)  # fmt: skip
def test_a_limit_is_allowed_and_more_is_not(
    rule: str, limit: str, broken: bool, tmp_path: Path
) -> None:
    plan, results = fleet(tmp_path)
    gate = Gate(failures=False, **{rule: limit})
    plan = msgspec.structs.replace(plan, policy=msgspec.structs.replace(plan.policy, gate=gate))
    found = broken_rules(review_document(plan, results), None)
    assert {each.rule for each in found} <= {rule}
    assert (("cache", "large") in {(each.service, each.machine) for each in found}) == broken


def test_the_gates_rules(tmp_path: Path) -> None:
    review = review_of(tmp_path)
    broken = {(rule.rule, rule.service) for rule in review.broken}
    assert ("most_gain_left", "one") in broken
    assert ("most_translation", "one") in broken
    assert ("failures", "four") in broken
    assert not any(rule == "most_gain_left" and name == "three" for rule, name in broken)
    kept = review_of(tmp_path, "[policy.gate]\nfailures = false\n")
    assert kept.broken == []


def moved(review: ReviewDocument, low: float, value: float, high: float) -> ReviewDocument:
    row = msgspec.structs.replace(review.rows[0], gain_fraction=Interval(value, low, high))
    return msgspec.structs.replace(review, rows=[row, *review.rows[1:]])


def test_only_what_both_intervals_do_not_explain_is_a_change(tmp_path: Path) -> None:
    review = review_of(tmp_path, "[policy.gate]\nfailures = false\n")
    old = moved(review, 0.02, 0.05, 0.08)
    for after, change in (
        (moved(review, 0.07, 0.1, 0.2), "within"),
        (moved(review, 0.09, 0.1, 0.2), "larger"),
        (moved(review, -0.1, 0, 0.01), "smaller"),
    ):
        assert compared(old, after).rows[0].change == change
        broken = broken_rules(after, old)
        assert [rule.rule for rule in broken] == (["baseline"] if change == "larger" else [])


def test_rows_of_one_review_alone(tmp_path: Path) -> None:
    review = review_of(tmp_path)
    less = msgspec.structs.replace(review, rows=review.rows[1:])
    assert compared(less, review).rows[-1].change == "new"
    assert compared(review, less).rows[0].change == "gone"
    assert "one on here: adopt, now not there" in printed(print_comparison, compared(review, less))


def test_the_text_has_reasons_and_broken_rules(tmp_path: Path) -> None:
    text = printed(print_report, hostile(tmp_path))
    lines = text.splitlines()
    assert "\x1b" not in text
    assert "failed: four on here: ended by SIGKILL" in lines
    assert any(line.startswith("GATE most_gain_left: one on here") for line in lines)
