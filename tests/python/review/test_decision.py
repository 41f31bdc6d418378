# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the policy decide, and are savings and pools those of the plan's figures?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from builders.review import plan_of, result, there_already, worth_it, worthless
from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.interval import Interval
from tlbcost.review.decision import review_document
from tlbcost.review.document import ReviewRow
from tlbcost.review.plan import Plan

POLICY = "[policy]\nleast_gain = '5 %'\nmost_growth = '10 %'\n"


def plan(folder: Path, more: str = "", machine: str = "") -> Plan:
    service = "[[services]]\nname = 'one'\ncommand = ['x']\n"
    return plan_of(folder, f"{POLICY}{more}\n[machines.here]\n{machine}\n{service}")


def gaining(low: float, value: float, high: float) -> EstimateDocument:
    return msgspec.structs.replace(worth_it(), total_fraction=Interval(value, low, high))


def only_row(of: Plan, estimate: EstimateDocument | None, failure: str | None = None) -> ReviewRow:
    (row,) = review_document(of, [result("one", estimate, failure=failure)]).rows
    return row


def test_a_gain_above_the_least_is_adopted(tmp_path: Path) -> None:
    row = only_row(plan(tmp_path), gaining(0.06, 0.1, 0.2))
    assert row.decision == "adopt"
    assert row.remedy == worth_it().what_to_do[0].remedies[0]
    assert row.why == row.remedy.words
    assert row.regions == ("anonymous memory",)


@pytest.mark.parametrize(
    ("end", "decision"), [("low", "undecided"), ("value", "adopt"), ("high", "adopt")]
)
def test_the_end_that_decides(tmp_path: Path, end: str, decision: str) -> None:
    of = plan(tmp_path, f"decide_on = '{end}'")
    assert only_row(of, gaining(0.01, 0.06, 0.1)).decision == decision


def test_what_is_not_worth_it_saves_nothing(tmp_path: Path) -> None:
    row = only_row(plan(tmp_path, "", "hosts = 10"), gaining(0, 0.01, 0.049))
    assert (row.decision, row.hosts_saved, row.remedy) == ("leave", None, None)
    assert row.why == "4.9 % at most, and 5 % is wanted"
    assert only_row(plan(tmp_path), worthless()).decision == "leave"


def test_what_is_there_already_and_what_failed(tmp_path: Path) -> None:
    assert only_row(plan(tmp_path), there_already()).decision == "done"
    row = only_row(plan(tmp_path), None, "no such program")
    assert (row.decision, row.why, row.gain_fraction) == ("failed", "no such program", None)


def test_remedies_that_are_not_allowed(tmp_path: Path) -> None:
    codes = [remedy.code for each in worth_it().what_to_do for remedy in each.remedies]
    of = plan(tmp_path, f"without = {codes[:1]}")
    row = only_row(of, gaining(0.1, 0.2, 0.3))
    assert row.remedy is not None
    assert row.remedy.code == codes[1]
    row = only_row(plan(tmp_path, f"without = {codes}"), gaining(0.1, 0.2, 0.3))
    assert (row.decision, row.why) == ("blocked", "no remedy of the policy serves it")
    bare = msgspec.structs.replace(gaining(0.1, 0.2, 0.3), what_to_do=[])
    assert only_row(plan(tmp_path), bare).why == "no remedy is known for it"


def with_cost(growth: int, pool: int | None = None) -> EstimateDocument:
    """Its first remedy costs this many bytes, and this many pages of a pool."""
    estimate = gaining(0.1, 0.2, 0.3)
    first = estimate.what_to_do[0]
    size = None if pool is None else 2 << 20
    cost = replace(
        first.remedies[0].cost, growth_bytes=growth, pool_pages=pool, pool_page_bytes=size
    )
    first = msgspec.structs.replace(first, remedies=(replace(first.remedies[0], cost=cost),))
    return msgspec.structs.replace(estimate, what_to_do=[first])


def test_memory_that_grows_too_much(tmp_path: Path) -> None:
    row = only_row(plan(tmp_path), with_cost(1 << 40))
    assert row.decision == "blocked"
    assert row.why.startswith("its memory grows by ")
    assert only_row(plan(tmp_path), with_cost(4096)).decision == "adopt"


def test_hosts_and_money_saved(tmp_path: Path) -> None:
    of = plan_of(
        tmp_path,
        f"{POLICY}[machines.here]\nhosts = 50\nprice = 2.0\ncurrency = 'EUR'\n"
        "[[services]]\nname = 'one'\ncommand = ['x']\ncpu_share = '40 %'\n",
    )
    row = only_row(of, gaining(0.1, 0.2, 0.3))
    assert row.hosts_saved is not None
    assert row.hosts_saved.value == pytest.approx(50 * 0.4 * 0.2)
    assert row.saved_per_year is not None
    assert row.saved_per_year.low == pytest.approx(50 * 0.4 * 0.1 * 2 * 8760)
    assert row.currency == "EUR"
    assert only_row(plan(tmp_path), gaining(0.1, 0.2, 0.3)).hosts_saved is None


def test_pools_that_do_not_fit_are_blocked(tmp_path: Path) -> None:
    services = "".join(
        f"[[services]]\nname = '{name}'\ninstances = 2\ncommand = ['x']\n" for name in "ab"
    )
    of = plan_of(tmp_path, f"{POLICY}[machines.here]\nmemory = '1 GiB'\n{services}")
    # Half of 1 GiB is 256 pages: two instances of 100 pages fit once.
    more = msgspec.structs.replace(with_cost(0, 100), total_fraction=Interval(0.4, 0.3, 0.5))
    review = review_document(of, [result("a", with_cost(0, 100)), result("b", more)])
    assert [(row.service, row.decision) for row in review.rows] == [
        ("b", "adopt"),
        ("a", "blocked"),
    ]
    (pool,) = review.pools
    assert (pool.needed_bytes, pool.most_bytes) == (400 << 20, 512 << 20)
    assert pool.left_out == ("a",)
    assert "its pool of 400 MiB does not fit: 112 MiB left" in review.rows[1].why


def test_rows_to_adopt_come_first(tmp_path: Path) -> None:
    services = "".join(f"[[services]]\nname = '{name}'\ncommand = ['x']\n" for name in "abcd")
    results = [
        result("a", None, failure="gone"),
        result("b", worthless()),
        result("c", gaining(0.06, 0.1, 0.2)),
        result("d", gaining(0.1, 0.2, 0.3)),
    ]
    review = review_document(plan_of(tmp_path, POLICY + services), results)
    assert [row.service for row in review.rows] == ["d", "c", "b", "a"]
