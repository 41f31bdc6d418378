# SPDX-License-Identifier: GPL-2.0-or-later
"""Do rounds know which of their runs was on which pages, whoever began?"""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tlbcost.measured import whole_runs
from tlbcost.measured.record import MeasuredGain, TooBusy
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run
from tlbcost.run.turns import NotTogetherError, Way
from tlbcost.thp import program as thp

FIRST = Outcome(Run(10**9, 990_000_000, 0, 100, 0, 1 << 20), "", None, 0, None, None)

Runner = Callable[..., tuple[Outcome, ...]]


@pytest.fixture(autouse=True)
def huge_pages_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thp, "is_here", lambda: True)
    monkeypatch.setattr(thp, "check_possible", lambda: None)
    monkeypatch.setattr(whole_runs, "reports_free_pages", lambda: False)


def took(user_ns: int) -> Outcome:
    assert FIRST.run is not None
    return replace(FIRST, run=replace(FIRST.run, user_ns=user_ns))


def pretended(seen: list[list[bool | None]]) -> Runner:
    """Runs on huge pages take a tenth less."""

    def run(_launcher: Launcher, ways: Sequence[Way], *_: object) -> tuple[Outcome, ...]:
        seen.append([way.transparent for way in ways])
        return tuple(took(900_000_000 if way.transparent else 10**9) for way in ways)

    return run


def measure(launcher: Launcher) -> MeasuredGain | str:
    return whole_runs.measure_runs(launcher, ["program"], {}, FIRST, 60)


def test_who_begins_does_not_matter(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[bool | None]] = []
    monkeypatch.setattr(whole_runs, "run_in_turns", pretended(seen))
    huge_was = set()
    for _ in range(10):
        found = measure(launcher)
        assert isinstance(found, MeasuredGain)
        assert found.source == "runs in turns"
        assert found.total_fraction.value == pytest.approx(0.1)
        assert found.null_fraction.value == 0
        huge_was |= {each.index(True) for each in seen}
    assert len(huge_was) > 1


def test_what_the_host_takes_to_back_huge_pages_is_not_the_gain(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[bool | None]] = []
    monkeypatch.setattr(whole_runs, "reports_free_pages", lambda: True)
    monkeypatch.setattr(whole_runs, "run_in_turns", pretended(seen))

    def first(_launcher: Launcher, ways: Sequence[Way], *_: object) -> tuple[Outcome, ...]:
        assert [way.transparent for way in ways] == [True]
        assert not seen
        one = took(900_000_000)
        assert one.run is not None
        return (replace(one, run=replace(one.run, system_ns=300_000_000)),)

    monkeypatch.setattr(whole_runs, "run_one_by_one", first)
    found = measure(launcher)
    assert isinstance(found, MeasuredGain)
    assert found.total_fraction.value == pytest.approx(0.1)
    assert found.returned_fraction == pytest.approx(0.3)


def test_runs_that_spoil_each_other_come_one_by_one(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def together(*_: object) -> tuple[Outcome, ...]:
        raise NotTogetherError("it writes to /a/file")

    seen: list[list[bool | None]] = []
    monkeypatch.setattr(whole_runs, "run_in_turns", together)
    monkeypatch.setattr(whole_runs, "run_one_by_one", pretended(seen))
    found = measure(launcher)
    assert isinstance(found, MeasuredGain)
    assert found.source == "runs one by one"
    assert found.total_fraction.value == pytest.approx(0.1)
    assert capsys.readouterr().err.count("one after the other: it writes to /a/file") == 1


@pytest.mark.long
def test_a_file_that_is_opened_late_leaves_no_watch_of_the_first_attempt(
    launcher: Launcher, tmp_path: Path
) -> None:
    if not os.access(thp.launcher()[0], os.X_OK):
        pytest.skip("needs tlbcost-thp")
    busy = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\n"
    code = f"{busy}f = open({str(tmp_path / 'late')!r}, 'w')\n{busy}"
    found = whole_runs.measure_runs(
        launcher, [sys.executable, "-c", code], dict(os.environ), FIRST, 1
    )
    # What was measured, or why it says nothing, is of runs one by one.
    assert isinstance(found, str) or found.source == "runs one by one"
    assert launcher.runs >= 2 + 3


def noisy(huge_ns: int, noise_ns: int) -> Runner:
    """Runs on base pages take 1 s, more or less by the same in each odd or even round."""
    turn = [0]

    def run(_launcher: Launcher, ways: Sequence[Way], *_: object) -> tuple[Outcome, ...]:
        turn[0] += 1
        shift = noise_ns if turn[0] % 2 else -noise_ns
        return tuple(took((huge_ns if way.transparent else 10**9) + i * shift)
                     for i, way in enumerate(ways))  # fmt: skip

    return run


def test_rounds_end_once_they_decide(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "sample", lambda population, k: list(population)[:k])
    monkeypatch.setattr(whole_runs, "run_in_turns", noisy(800_000_000, 15_000_000))
    clear = measure(launcher)
    monkeypatch.setattr(whole_runs, "run_in_turns", noisy(975_000_000, 15_000_000))
    close = measure(launcher)
    assert isinstance(clear, MeasuredGain)
    assert isinstance(close, MeasuredGain)
    assert clear.rounds == 3
    assert close.rounds > 3


def test_more_rounds_tell_a_moments_noise_from_a_busy_machine(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_turns(disturbed_rounds: int) -> Runner:
        rounds = itertools.count()

        def run(_launcher: Launcher, ways: Sequence[Way], *_: object) -> tuple[Outcome, ...]:
            slow_ns = 1_090_000_000 if next(rounds) < disturbed_rounds else 10**9
            base = iter((slow_ns, 10**9))
            return tuple(took(800_000_000 if way.transparent else next(base)) for way in ways)

        return run

    monkeypatch.setattr(random, "sample", lambda population, k: list(population)[:k])
    monkeypatch.setattr(whole_runs, "run_in_turns", in_turns(1))
    moment = measure(launcher)
    assert isinstance(moment, MeasuredGain)
    assert moment.rounds == 5
    monkeypatch.setattr(whole_runs, "run_in_turns", in_turns(99))
    busy = measure(launcher)
    assert isinstance(busy, TooBusy)
