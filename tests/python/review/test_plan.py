# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a plan read as it is meant, each mistake named with its key, and does the policy decide?"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from builders.answer import stalls
from builders.calibration import of_this_machine
from builders.review import plan_of, result, there_already, worth_it, worthless
from builders.tree import TREE, fails, there
from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.calibration.file import write_calibration
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.units import Interval
from tlbcost.measured.record import MeasuredGain
from tlbcost.review.document import ReviewRow, review_document
from tlbcost.review.plan import Plan, read_plan, share, size, time_s
from tlbcost.review.task import plan_tasks

ONE = '[[services]]\nname = "one"\ncommand = ["true"]\n'


def test_the_example_is_a_plan() -> None:
    plan = read_plan(TREE / "data" / "review" / "example.toml")
    assert [service.name for service in plan.services] == ["sorting"]
    assert plan.services[0].folder == str(TREE / "data" / "review")
    assert list(plan.machines) == ["here"]


def test_units() -> None:
    assert share("2.5 %", "key") == 0.025
    assert size("1.5GiB", "key") == 3 << 29
    assert (time_s("90 s", "key"), time_s("2 min", "key")) == (90, 120)


def test_without_machines_it_is_this_one(tmp_path: Path) -> None:
    assert [name for _, name in plan_of(tmp_path, ONE).pairs()] == ["here"]


def test_each_service_is_paired_with_its_machines(tmp_path: Path) -> None:
    text = "[machines.a]\n[machines.b]\n" + ONE + ONE.replace("one", "two") + 'machines = ["b"]\n'
    found = [(service.name, name) for service, name in plan_of(tmp_path, text).pairs()]
    assert found == [("one", "a"), ("one", "b"), ("two", "b")]


@pytest.mark.parametrize(
    ("text", "why"),
    [("x = [", "not TOML"), ("", "services: it is missing"),
     ("services = []", "services: there are none"),
     ("[policies]\n" + ONE, "policies: there is no such key"),
     ("[policy]\nleast = 1\n" + ONE, "policy.least: there is no such key"),
     ("[policy]\nleast_gain = 3\n" + ONE, "policy.least_gain: expected `str`, got `int`"),
     ('[policy]\nleast_gain = "3"\n' + ONE, 'policy.least_gain: a share such as "3 %"'),
     ('[policy]\nleast_gain = "3 points"\n' + ONE, "policy.least_gain: a share"),
     ('[policy.gate]\nmost_growth = "x"\n' + ONE, "policy.gate.most_growth: a share"),
     ('[policy]\nmost_stall = "5"\n' + ONE, "policy.most_stall: a time"),
     ('[machines.a]\nmemory = "64 GB"\n' + ONE, 'machines.a.memory: a size such as "64 GiB"'),
     ("[machines.a]\nhosts = 0\n" + ONE, "machines.a.hosts: expected `int` >= 1"),
     ("[machines.b]\n[machines.a]\ncore = 1\n" + ONE, "machines.a.core: expected `str | null`"),
     ("[machines.a]\nprice = 1.0\n" + ONE, "machines.a: price and currency belong together"),
     ('[machines.a]\ncore = "spr"\ncalibration = "x"\n' + ONE,
      "machines.a: calibration and core exclude each other"),
     ("[[services]]\nname = 'one'\n", "services[0]: one of command, pid"),
     (ONE + "pid = 1\n", "services[0]: one of command, pid, pidfile, counts, estimate was"),
     ("[[services]]\ncommand = ['x']\n", "services[0].name: it is missing"),
     (ONE + ONE, 'services[1].name: another service is called "one"'),
     (ONE + 'machines = ["x"]\n', "services[0].machines: there is no [machines.x]"),
     (ONE + 'time_limit = "5"\n', 'services[0].time_limit: a time such as "90 s"'),
     (ONE + 'seconds = "5 s"\n', "services[0].seconds: it belongs to pid, not to command"),
     (ONE + 'cpu = "skx"\n', "services[0].cpu: it belongs to counts, not to command"),
     ("[[services]]\nname = 'one'\npid = 1\nruns = 3\n",
      "services[0].runs: it belongs to command, not to pid")],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, text: str, why: str) -> None:
    with fails(re.escape(why), USAGE) as error:
        plan_of(tmp_path, text)
    assert error.value.hint is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("counts = 'no/*.txt'", r"one.counts: no file matches .*/no/\*.txt"),
        ("pid = 4194300", "one.pid: there is no process 4194300"),
        ("pidfile = 'no.pid'", "one.pidfile: no process number"),
        ("estimate = 'no.json'\nmachines = ['a']", "one.estimate: there is no file"),
        ("estimate = 'no.json'", "one.machines: an estimate is of one machine: name it"),
    ],
)
def test_evidence_that_is_missing(tmp_path: Path, text: str, why: str) -> None:
    plan = plan_of(tmp_path, f"[machines.a]\n[machines.b]\n[[services]]\nname = 'one'\n{text}\n")
    with fails(why, USAGE):
        plan_tasks(plan)


def test_machines_that_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="no machine is called 'x86'"):
        plan_tasks(plan_of(tmp_path, f'[machines.a]\ncore = "x86"\n{ONE}'))
    (tmp_path / "bad.tsv").write_text("garbage", encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"plan: machines.a.calibration: .*bad.tsv"):
        plan_tasks(plan_of(tmp_path, f'[machines.a]\ncalibration = "bad.tsv"\n{ONE}'))


def test_options_of_an_estimate(tmp_path: Path) -> None:
    here = tmp_path / "here.tsv"
    write_calibration(here, of_this_machine())
    text = (
        f'[machines.a]\ncalibration = "here.tsv"\n[machines.b]\ncore = "spr"\n{ONE}'
        'runs = 4\nprepare = "sync"\ntime_limit = "2 min"\n'
    )
    first, second = plan_tasks(plan_of(tmp_path, text))
    same = ("--time-limit", "120s", "--runs", "4", "--prepare", "sync", "--", "true")
    assert first.options == ("--calibration", str(here), *same)
    assert second.options == ("--machine", "spr", *same)
    assert first.plan != second.plan


def test_a_process_is_on_this_machine(tmp_path: Path) -> None:
    text = f'[machines.a]\ncore = "spr"\n[[services]]\nname = "one"\npid = {os.getpid()}\n'
    with pytest.raises(TlbcostError, match="a is another machine than this one"):
        plan_tasks(plan_of(tmp_path, text))
    text = text.replace('core = "spr"\n', "") + 'seconds = "5 s"\n'
    (task,) = plan_tasks(plan_of(tmp_path, text))
    assert task.options[-4:] == ("--seconds", "5", "--pid", str(os.getpid()))


def test_a_changed_file_is_another_task(tmp_path: Path) -> None:
    (tmp_path / "stat.txt").write_text("1", encoding="utf-8")
    plan = plan_of(tmp_path, '[[services]]\nname = "one"\ncounts = "*.txt"\ncpu = "skx"\n')
    (before,) = plan_tasks(plan)
    assert before.options == ("--cpu", "skx", "--from", str(tmp_path / "stat.txt"))
    (tmp_path / "stat.txt").write_text("2", encoding="utf-8")
    (after,) = plan_tasks(plan)
    assert before.plan != after.plan


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
    assert there(row.remedy).code == codes[1]
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


def test_first_touches_that_take_too_long(tmp_path: Path) -> None:
    found, pool = with_cost(4096), with_cost(4096, pool=1)
    slow = stalls(base_ns=1, huge_ns=1)
    touches = msgspec.structs.replace(there(slow.huge), p999_ns=7_000_000)
    slow = msgspec.structs.replace(slow, huge=touches)
    strict, lax = (plan(tmp_path, f"most_stall = '{most}'") for most in ("5 ms", "7 ms"))
    row = only_row(strict, msgspec.structs.replace(found, stalls=slow))
    assert row.decision == "blocked"
    assert row.why == "one in 1000 first touches of huge pages took 7 ms there"
    for of, estimate, seen in ((lax, found, slow), (strict, found, None), (strict, pool, slow)):
        row = only_row(of, msgspec.structs.replace(estimate, stalls=seen))
        assert row.decision == "adopt"


def test_a_service_gains_without_its_start_and_grows_as_was_measured(tmp_path: Path) -> None:
    share = Interval(0.2, 0.1, 0.3)
    found = MeasuredGain(
        "runs in turns", Interval(0, 0, 0), share, None, None, 3, {}, 1.0, 1.0,
        growth_bytes=Interval(5 << 20, 5 << 20, 5 << 20),
    )  # fmt: skip
    estimate = msgspec.structs.replace(gaining(0, 0, 0), measured=found)
    row = only_row(plan(tmp_path), estimate)
    assert (row.gain_fraction, row.growth_bytes) == (share, 5 << 20)
    job = plan_of(tmp_path, "[[services]]\nname = 'one'\ncommand = ['x']\nkind = 'job'\n")
    assert only_row(job, estimate).decision == "leave"


def test_hosts_and_money_saved(tmp_path: Path) -> None:
    of = plan_of(
        tmp_path,
        f"{POLICY}[machines.here]\nhosts = 50\nprice = 2.0\ncurrency = 'EUR'\n"
        "[[services]]\nname = 'one'\ncommand = ['x']\ncpu_share = '40 %'\n",
    )
    row = only_row(of, gaining(0.1, 0.2, 0.3))
    assert there(row.hosts_saved).value == pytest.approx(50 * 0.4 * 0.2)
    assert there(row.saved_per_year).low == pytest.approx(50 * 0.4 * 0.1 * 2 * 8760)
    assert row.currency == "EUR"
    assert only_row(plan(tmp_path), gaining(0.1, 0.2, 0.3)).hosts_saved is None


@pytest.mark.parametrize(("gib", "decision"), [(1, "adopt"), (4, "leave")])
def test_memory_that_costs_more_than_is_saved(tmp_path: Path, gib: int, decision: str) -> None:
    of = plan_of(
        tmp_path,
        "[policy]\nmost_growth = '1000000 %'\n"
        "[machines.here]\nhosts = 50\nprice = 2.0\nprice_per_gib_year = 20\ncurrency = 'EUR'\n"
        "[[services]]\nname = 'one'\ninstances = 3\ncommand = ['x']\ncpu_share = '4 %'\n",
    )
    row = only_row(of, with_cost(gib << 30))
    # 50 hosts, of whose 4 % at least 10 % are saved, at 2 an hour: 3,504 a year.
    assert row.decision == decision
    if decision == "adopt":
        assert row.memory_per_year == pytest.approx(3 * 50 * 20 * gib)
    else:
        assert row.why == "it saves EUR 3,504 a year, and its memory costs 12,000"
        assert row.memory_per_year is row.saved_per_year is None


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
