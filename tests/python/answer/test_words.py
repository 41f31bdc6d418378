# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the verdict name the figures, and does the JSON follow its schema and say the same?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from builders.answer import RUN, altered, estimated, overlapped, rebuilt
from builders.counted import SKL, counted, imported
from builders.report import advised, bare, json_of, text_of
from builders.tree import valid
from tlbcost.accuracy.record import TrackRecord
from tlbcost.answer.record import Estimate
from tlbcost.answer.words import (
    decider,
    idle_fraction,
    next_steps,
    time_words,
    verdict_sentence,
    waited_fraction,
    waits_words,
)
from tlbcost.common import units
from tlbcost.common.units import Interval
from tlbcost.model.gain import VerdictCode, total_interval
from tlbcost.run.outcome import Run

S = 1_000_000_000
BUSY = replace(RUN, wall_ns=2 * S, waited_ns=S)
SLEEPS = replace(RUN, wall_ns=10 * S, waited_ns=0)
UNKNOWN = replace(RUN, wall_ns=10 * S)
COMMAND = "./app 'an argument'"


def test_verdict_names_the_figures() -> None:
    for walks, start in ((10**7, "WORTH"), (10**6, "NOT PROVEN"), (0, "NOT WORTH")):
        c = estimated(walks)
        sentence = verdict_sentence(c)
        assert sentence.startswith(start)
        end = total_interval(c.gain)
        assert units.percent(end.low if walks == 10**7 else end.high) in sentence


def test_a_gain_below_zero_is_called_nothing() -> None:
    c = estimated(0)
    loss = replace(c.gain, expected_fraction=Interval(-0.01, -0.02, -0.001))
    none = replace(loss, fault_fraction=None, verdict="not_worth_it")
    assert verdict_sentence(replace(c, gain=none)).endswith("would save nothing.")


def test_a_tiny_gain_is_next_to_nothing() -> None:
    c = estimated(0)
    small = replace(c.gain, fault_fraction=None)
    assert verdict_sentence(replace(c, gain=small)).endswith("would save next to nothing.")


def test_what_is_not_proven_by_a_poor_calibration_says_so() -> None:
    c = estimated(10**6)
    assert c.given.calibrated is not None
    poor = replace(c.given.calibrated.calibration, grade_reasons=("steal 12 %", "more"))
    given = replace(c.given, calibrated=replace(c.given.calibrated, calibration=poor))
    disturbed = replace(c, given=given)
    assert decider(disturbed) == "calibration"
    assert verdict_sentence(disturbed).endswith(
        "; poor calibration (steal 12 %): repeat when the machine is quiet."
    )
    # Without costs the estimate has nothing of it.
    assert decider(replace(disturbed, base_costs=None)) == decider(c) != "calibration"


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
    assert waits_words([run, run]) == words


def test_what_one_run_does_not_know_is_not_known() -> None:
    assert waited_fraction([BUSY, UNKNOWN]) is None
    assert idle_fraction([]) is None


def test_shares_of_a_program_that_sleeps_are_called_those_of_cpu_time() -> None:
    assert time_words([RUN]) == "run time"
    assert time_words([SLEEPS]) == "CPU time"


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
    for part, runs, more in ((0.6, 3, True), (0.4, 3, False), (0.6, 10, False), (None, 1, False)):
        close = altered(estimated(), runs=(RUN,) * runs, spread_part=part)
        close = replace(close, gain=replace(close.gain, verdict="not_proven"))
        assert any("--runs 10" in step for step in next_steps(close)) is more
        assert decider(close) == ("runs" if more else "trial")


def test_nothing_is_to_be_done_where_nothing_is_to_gain() -> None:
    assert next_steps(estimated(0)) == ["# Nothing to configure for this program."]


def test_the_first_remedy_of_each_region_and_its_proof() -> None:
    made = advised(("./app", "an argument"))
    steps = next_steps(made)
    first = made.advice[0].remedies[0]
    assert steps[:2] == [f"# {first.words}:", f"GLIBC_TUNABLES=glibc.malloc.hugetlb=1 {COMMAND}"]
    assert first.proof in steps
    assert first.proof.endswith(f"-- {COMMAND}")


def test_without_advice_a_trial_is_the_next_step() -> None:
    assert next_steps(estimated()) == ["# to prove it:", f"tlbcost trial -- {COMMAND}"]
    elsewhere = imported(counted(SKL))
    assert next_steps(elsewhere)[0] == "# to prove it, where the program runs:"


UNITS = ("_ns", "_bytes", "_pages", "_entries", "_fraction", "_ratio")

# Keys that hold no quantity, or a plain count.
PLAIN = {
    "schema", "tlbcost_version", "date", "argv", "path", "source", "notes", "access", "program",
    "code", "sentence", "remedy", "exit_code", "simulated_exit_code", "pid", "parent_pid",
    "threads", "entries", "ways", "minor_faults", "major_faults", "l1_tlb_misses", "stlb_hits",
    "stlb_misses", "bound_capped", "has_pmu", "thp_mode", "kernel", "governor", "hypervisor",
    "microcode", "cpu_vendor", "cpu_family", "cpu_model", "cpu_stepping", "cpu_name",
    "next_steps", "value", "low", "high", "source_kind", "programs", "inside", "here", "windows",
    "references", "sampled_references",
}  # fmt: skip


def test_every_json_key_carries_its_unit() -> None:
    def check(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                holds_figure = isinstance(inner, (int, float)) and not isinstance(inner, bool)
                assert not holds_figure or key in PLAIN or key.endswith(UNITS), key
                check(inner)
        elif isinstance(value, list):
            for inner in value:
                check(inner)

    check(json.loads(json_of(estimated())))
    check(json.loads(json_of(overlapped(estimated()))))


def test_the_record_of_this_machine_is_quoted() -> None:
    tried = TrackRecord(True, "2026-01-01T00:00:00Z", 16, 12, 0.0812, 0.264)
    shown = altered(estimated(), track_record=tried)
    text = " ".join(text_of(shown).split())
    assert "On 16 programs run on this machine the expected gain of cheaper TLB misses" in text
    assert "was off by 8.1 points on average and 26.4 at most; 12 were within" in text
    assert "on 16 programs on this machine the TLB part was off by 8.1 points" in text
    other = text_of(altered(shown, track_record=replace(tried, here=False)))
    assert "programs run on a machine with this CPU" in " ".join(other.split())
    assert valid(json_of(shown), "estimate")["tried"]["mean_error_fraction"] == 0.0812
    assert "run on this machine" not in text_of(estimated())


def test_absent_is_null_in_json() -> None:
    report = json.loads(json_of(bare()))
    assert report["fault_fraction"] is None
    assert report["fault_saved_ns"] is None
    assert report["costs"][1]["walk_serial_ns"] is None
    assert report["simulation"]["geometry"][1]["stlb"] is None
    assert report["simulation"]["processes"][1]["counts"] is None
    assert report["simulation"]["processes"][1]["touched"] is None
