# SPDX-License-Identifier: GPL-2.0-or-later
"""Outputs of perf as people publish them: tests/golden/perf."""

from __future__ import annotations

import re

import pytest
from builders.tree import GOLDEN, fails, there
from tlbcost.answer.estimate import estimate
from tlbcost.answer.record import Estimate
from tlbcost.answer.request import EstimateRequest

SHARES = [
    ("02-blanks-between-thousands/ascii.txt", "hsw", 2302337616 / 9009806878),
    ("02-blanks-between-thousands/nnbsp.txt", "hsw", 2302337616 / 9009806878),
    ("04-csv-decimal-commas/counts.csv", "skl", 4135032318 / 25508409769),
    ("04-csv-decimal-commas/task.csv", "skl", 4135032318 / 25508409769),
    ("08-commented-out-paste/notes.txt", "hsw", 1551322822 / 48941806493),
    ("11-raw-codes-with-os-usr-enable-bits/haswell.txt", "hsw", 1571441152 / 14104118204),
    ("11-raw-codes-with-os-usr-enable-bits/zen5.csv", "zen5", 61204118 * 35 / 9702118204),
    ("15-per-thread-names-with-blanks/stat.csv", "icx", 0.21),
    ("15-per-thread-names-with-blanks/stat.txt", "icx", 0.21),
    ("16-topdown-rows-without-count/stat.txt", "icl", 795354612 / 5400118204),
    ("17-layout-of-perf-6-19/stat.txt", "icl", 2410354612 / 16626915897),
    ("19-command-of-several-lines/stat.txt", "skl", 975354612 / 8800118204),
]
REFUSALS = [
    ("06-nmi-watchdog-not-counted/stat.txt", "skx", "never had a counter: itlb_misses.walk_p", 4),
    ("27-cycles-of-both-hyperthreads/stat.txt", "skx", "while either hyperthread", 4),
    ("29-two-pods-for-each-cgroup/stat.csv", "icx", "pod-db; kubepods.slice/", 1),
    ("29-two-pods-for-each-cgroup/stat.txt", "icx", "pod-db; kubepods.slice/", 1),
    ("30-two-different-programs-in-a-file/both.txt", "skl", "./baseline input; ./tuned input", 1),
]


def estimated(name: str, cpu: str, object_name: str | None = None) -> Estimate:
    walk = 35.0 if cpu == "zen5" else None
    path = (GOLDEN / "perf" / name,)
    return estimate(
        EstimateRequest(imported=path, cpu=cpu, object_name=object_name, walk_cycles=walk)
    )


def share(found: Estimate) -> float:
    return there(found.counted).witness.total.value


def notes(found: Estimate) -> str:
    return "\n".join(there(found.counted).counted.notes)


@pytest.mark.parametrize(("name", "cpu", "expected"), SHARES, ids=[row[0] for row in SHARES])
def test_the_share_of_walks(name: str, cpu: str, expected: float) -> None:
    found = estimated(name, cpu)
    assert share(found) == pytest.approx(expected, abs=1e-4)
    assert "no counts" not in notes(found)


@pytest.mark.parametrize(("name", "cpu", "why", "code"), REFUSALS, ids=[r[0] for r in REFUSALS])
def test_what_cannot_be_used_is_refused_by_its_reason(
    name: str, cpu: str, why: str, code: int
) -> None:
    with fails(re.escape(why), code) as error:
        estimated(name, cpu)
    assert error.value.hint


@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_one_of_several_cgroups_is_chosen(suffix: str) -> None:
    name = f"29-two-pods-for-each-cgroup/stat.{suffix}"
    assert share(estimated(name, "icx", "pod-db")) == pytest.approx(0.22)
    web = estimated(name, "icx", "kubepods.slice/kubepods-burstable.slice/pod-web")
    assert share(web) == pytest.approx(0.02)
    for wrong, why in {"pod": "'pod' is in 2 of", "x": "'x' is in 0 of"}.items():
        with fails(why, 2):
            estimated(name, "icx", wrong)


def test_one_of_several_commands_is_chosen() -> None:
    found = estimated("30-two-different-programs-in-a-file/both.txt", "skl", "tuned")
    assert share(found) == pytest.approx(437536688 / 47800118204)
    assert found.given.argv == ("./tuned", "input")


def test_what_else_the_outputs_say() -> None:
    blanks = there(estimated("02-blanks-between-thousands/ascii.txt", "hsw").given.counted)
    assert blanks.wall_ns == 4462055158
    assert blanks.counts[1].running_fraction == 0.5718
    system = estimated("17-layout-of-perf-6-19/stat.txt", "icl")
    assert "not of one program but of system wide" in notes(system)
    clock = next(c for c in there(system.given.counted).counts if c.event == "cpu-clock")
    assert clock.value == 16061923339
    threads = notes(estimated("15-per-thread-names-with-blanks/stat.txt", "icx"))
    assert "6 CPUs, sockets or threads are added up" in threads
    lines = estimated("19-command-of-several-lines/stat.txt", "skl").given.argv
    assert lines[:2] == ("python3", "-c")
    assert "+=" in lines


def test_every_fixture_is_used() -> None:
    used = {row[0] for row in SHARES} | {row[0] for row in REFUSALS}
    folder = GOLDEN / "perf"
    assert used == {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
