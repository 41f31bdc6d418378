# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a plan read as it is meant, and is each mistake in one named with its key?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders.calibration import of_this_machine
from builders.review import plan_of
from builders.tree import TREE
from tlbcost.calibration.file import write_calibration
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.review.plan import read_plan, share, size, time_s
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
    [
        ("x = [", "not TOML"),
        ("", "services: it is missing"),
        ("services = []", "services: there are none"),
        ("[policies]\n" + ONE, "policies: there is no such key"),
        ("[policy]\nleast = 1\n" + ONE, "policy.least: there is no such key"),
        ("[policy]\nleast_gain = 3\n" + ONE, "policy.least_gain: expected `str`, got `int`"),
        ('[policy]\nleast_gain = "3"\n' + ONE, 'policy.least_gain: a share such as "3 %"'),
        ('[policy]\nleast_gain = "3 points"\n' + ONE, "policy.least_gain: a share"),
        ('[policy.gate]\nmost_growth = "x"\n' + ONE, "policy.gate.most_growth: a share"),
        ('[machines.a]\nmemory = "64 GB"\n' + ONE, 'machines.a.memory: a size such as "64 GiB"'),
        ("[machines.a]\nhosts = 0\n" + ONE, "machines.a.hosts: expected `int` >= 1"),
        ("[machines.b]\n[machines.a]\ncore = 1\n" + ONE, "machines.a.core: expected `str | null`"),
        ("[machines.a]\nprice = 1.0\n" + ONE, "machines.a: price and currency belong together"),
        (
            '[machines.a]\ncore = "spr"\ncalibration = "x"\n' + ONE,
            "machines.a: calibration and core exclude each other",
        ),
        ("[[services]]\nname = 'one'\n", "services[0]: one of command, pid"),
        (ONE + "pid = 1\n", "services[0]: one of command, pid, pidfile, counts, estimate was"),
        ("[[services]]\ncommand = ['x']\n", "services[0].name: it is missing"),
        (ONE + ONE, 'services[1].name: another service is called "one"'),
        (ONE + 'machines = ["x"]\n', "services[0].machines: there is no [machines.x]"),
        (ONE + 'time_limit = "5"\n', 'services[0].time_limit: a time such as "90 s"'),
        (ONE + 'seconds = "5 s"\n', "services[0].seconds: it belongs to pid, not to command"),
        (ONE + 'cpu = "skx"\n', "services[0].cpu: it belongs to counts, not to command"),
        (
            "[[services]]\nname = 'one'\npid = 1\nruns = 3\n",
            "services[0].runs: it belongs to command, not to pid",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(TlbcostError) as error:
        plan_of(tmp_path, text)
    assert why in str(error.value)
    assert error.value.exit_code == USAGE
    assert error.value.hint is not None


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="cannot read") as error:
        read_plan(tmp_path / "no.toml")
    assert error.value.exit_code == USAGE


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
    with pytest.raises(TlbcostError, match=why) as error:
        plan_tasks(plan)
    assert error.value.exit_code == USAGE


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
