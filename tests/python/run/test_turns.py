# SPDX-License-Identifier: GPL-2.0-or-later
"""Do runs take turns, and is nothing stopped or left when that ends in any way?"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from tlbcost.common.cleanup import Stopped
from tlbcost.run import process_tree, turns
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Run
from tlbcost.run.turns import NotTogetherError, Way, cpus_for, objection, run_in_turns

ALL = frozenset(os.sched_getaffinity(0))
BUSY = Run(1_000_000_000, 990_000_000, 0, 100, 0, 1 << 20)


def spin(seconds: float, *, more: str = "") -> tuple[str, ...]:
    """Uses so much CPU time, whatever the time of day."""
    code = f"import os, sys, time\n{more}\nwhile time.process_time() < {seconds}: pass"
    return (sys.executable, "-c", code)


def test_all_end_with_their_own_codes_and_times(launcher: Launcher) -> None:
    ways = [Way(spin(0.3)), Way((*spin(0.15),)), Way(("sh", "-c", "exit 3"))]
    found = run_in_turns(launcher, ways, ALL)
    assert [outcome.code for outcome in found] == [0, 0, 3]
    first, second = found[0].run, found[1].run
    assert first is not None
    assert second is not None
    assert first.cpu_ns > second.cpu_ns > 100_000_000
    # The time of its turns: not that in which others ran.
    assert first.wall_ns < first.cpu_ns + second.cpu_ns + 150_000_000
    assert process_tree.descendants(os.getpid()) == {}


def state(pid: int) -> str:
    """As in /proc; of a process that has ended, as if it were stopped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
    except OSError:
        return "T"


def test_one_at_a_time_is_running(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[list[str]] = []
    take = turns._Run.turn

    def watched(self: turns._Run) -> None:
        family = process_tree.offspring([self.started.process.pid])
        until = time.monotonic() + 2
        # Signals take a moment.
        while (now := [state(pid) for pid in family]) != ["T"] * len(now):
            if time.monotonic() > until:
                break
        states.append(now)
        take(self)

    monkeypatch.setattr(turns._Run, "turn", watched)
    run_in_turns(launcher, [Way(spin(0.2)), Way(spin(0.2))], ALL)
    # Each was stopped when its turn came.
    assert len(states) > 4
    assert {found for each in states[1:] for found in each} <= {"T", "Z"}


def test_children_are_stopped_with_their_parents(launcher: Launcher) -> None:
    family = (
        "sh",
        "-c",
        f"{sys.executable} -c 'while __import__(\"time\").process_time() < 0.2: pass'",
    )
    found = run_in_turns(launcher, [Way(family), Way(family)], ALL)
    assert [outcome.code for outcome in found] == [0, 0]


def test_a_program_that_writes_a_file_is_not_run_twice(launcher: Launcher, tmp_path: Path) -> None:
    file = tmp_path / "result"
    writer = spin(5, more=f"f = open({str(file)!r}, 'w')")
    begun = time.monotonic()
    with pytest.raises(NotTogetherError, match=str(file)):
        run_in_turns(launcher, [Way(writer), Way(writer)], ALL)
    assert time.monotonic() - begun < 5
    assert launcher.runs == 1
    assert process_tree.descendants(os.getpid()) == {}


def test_who_is_interrupted_leaves_nothing_stopped(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_runs: object, _tick: object) -> None:
        raise Stopped(15)

    monkeypatch.setattr(turns, "_take_turns", interrupted)
    with pytest.raises(Stopped):
        run_in_turns(launcher, [Way(spin(60)), Way(spin(60))], ALL)
    assert process_tree.descendants(os.getpid()) == {}
    assert launcher.transparent is None


def test_programs_that_wait_or_are_made_ready_do_not_take_turns(launcher: Launcher) -> None:
    assert objection(launcher, BUSY) is None
    idle = Run(1_000_000_000, 100_000_000, 0, 100, 0, 1 << 20)
    assert "waits" in (objection(launcher, idle) or "")
    large = Run(1_000_000_000, 990_000_000, 0, 100, 0, 1 << 50)
    assert "too little memory" in (objection(launcher, large) or "")
    launcher.prepare = "true"
    assert "--prepare" in (objection(launcher, BUSY) or "")


def test_threads_at_the_same_time_keep_all_cpus() -> None:
    parallel = Run(1_000_000_000, 1_900_000_000, 0, 100, 0, 1 << 20)
    assert cpus_for(parallel) == ALL
    assert len(cpus_for(BUSY)) == 1
