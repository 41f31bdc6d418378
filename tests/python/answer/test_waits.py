# SPDX-License-Identifier: GPL-2.0-or-later
"""Is it said where a program sleeps or waits for a CPU, and is that the reason of no verdict?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.answer import RUN, altered, estimated, rebuilt
from tlbcost.answer import waits
from tlbcost.answer.advice import next_steps
from tlbcost.answer.record import Estimate
from tlbcost.answer.words import decider, verdict_sentence
from tlbcost.model.gain import VerdictCode
from tlbcost.run.outcome import Run

S = 1_000_000_000
BUSY = replace(RUN, wall_ns=2 * S, waited_ns=S)
SLEEPS = replace(RUN, wall_ns=10 * S, waited_ns=0)
UNKNOWN = replace(RUN, wall_ns=10 * S)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (replace(RUN, waited_ns=0), None),
        (RUN, None),
        (BUSY, "waited for a CPU 50 % of the time"),
        (SLEEPS, "idle 90 %"),
        (
            replace(RUN, wall_ns=4 * S, waited_ns=S),
            "idle 50 %, waited for a CPU 50 % of the time",
        ),
        (UNKNOWN, "idle or waiting for a CPU 90 % of the time"),
        # Four threads on two CPUs: the clock alone cannot say.
        (
            replace(RUN, user_ns=S, system_ns=S, waited_ns=2 * S),
            "waited for a CPU 50 % of the time",
        ),
    ],
)  # fmt: skip
def test_words(run: Run, words: str | None) -> None:
    assert waits.waits_words([run, run]) == words


def test_what_one_run_does_not_know_is_not_known() -> None:
    assert waits.waited_fraction([BUSY, UNKNOWN]) is None
    assert waits.idle_fraction([]) is None


def test_shares_of_a_program_that_sleeps_are_called_those_of_cpu_time() -> None:
    assert waits.time_words([RUN]) == "run time"
    assert waits.time_words([SLEEPS]) == "CPU time"


def test_a_verdict_that_is_not_proven_names_the_load() -> None:
    def sentence(*runs: Run, verdict: VerdictCode = "not_proven") -> str:
        found = _with(*runs)
        return verdict_sentence(replace(found, gain=replace(found.gain, verdict=verdict)))

    assert "waited for a CPU 50 % of the time" in sentence(*[BUSY] * 3)
    assert "varied by" in sentence(RUN, replace(RUN, user_ns=2 * S))
    assert "busy" not in sentence(*[RUN] * 3)
    assert "waited for a CPU" not in sentence(*[BUSY] * 3, verdict="worth_trying")


def _with(*runs: Run) -> Estimate:
    return rebuilt(altered(estimated(), runs=runs))


def test_more_runs_are_advised_only_where_their_spread_makes_the_interval() -> None:
    varied = [replace(RUN, user_ns=round(n * RUN.user_ns)) for n in (0.96, 1, 1.04)]
    found = [_with(*runs) for runs in ((RUN,) * 3, varied, (RUN,), varied * 4)]
    parts = [each.spread_part for each in found]
    assert parts[0] == 0
    assert parts[2] is None
    assert 0 < (parts[1] or 0) < 1
    assert (parts[3] or 0) > 0
    for part, runs, advised in (
        (0.6, 3, True),
        (0.4, 3, False),
        (0.6, 10, False),
        (None, 1, False),
    ):
        close = altered(estimated(), runs=(RUN,) * runs, spread_part=part)
        close = replace(close, gain=replace(close.gain, verdict="not_proven"))
        assert any("--runs 10" in step for step in next_steps(close)) is advised
        assert decider(close) == ("runs" if advised else "trial")
