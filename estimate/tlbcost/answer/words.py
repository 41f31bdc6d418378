# SPDX-License-Identifier: GPL-2.0-or-later
"""Sentences of an estimate: verdict, waits, NUMA, advice."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Literal

from tlbcost.answer.record import Decider, Estimate, Evidence, TimeName
from tlbcost.common import names, units
from tlbcost.common.units import spread_fraction
from tlbcost.measured.record import WORTHWHILE_FRACTION, MeasuredGain, OverLimit, grown_words
from tlbcost.model.gain import PredictedGain, total_interval
from tlbcost.numa.locality import direction_words, placement_words, translation_direction
from tlbcost.remedies.advice import Advice, advise
from tlbcost.remedies.remedy import Remedy, Situation
from tlbcost.run.outcome import Run, trial_command
from tlbcost.system.machine import TUNABLES

_DECIDERS: dict[Decider, str] = {
    "quiet": "{load}: repeat when the machine is quiet",
    "calibration": "poor calibration ({reason}): repeat when the machine is quiet",
    "runs": "more runs would decide (--runs 10)",
    "pairs": "more pairs would decide (--time-budget)",
    "trial": "a trial would decide",
}
# A start that costs a smaller share of the run is not mentioned, nor is less memory.
_SMALL_FRACTION, _MUCH_BYTES = 0.01, 16 << 20
_MANY_PAIRS = 100
# From nine runs on the interval of their median is narrower than their range.
_MOST_RUNS = 10
# Less is the share of any quiet system.
WORTH_SAYING_FRACTION = 0.10
# Run times that vary by more are not those of the program alone.
SPREAD_FRACTION = 0.10


def time_name(gain: PredictedGain, given: Evidence) -> TimeName:
    if given.region is not None:
        return "region's time"
    return "cycles counted" if gain.cpu_ns is None else time_words(given.runs)


def decider(estimate: Estimate) -> Decider | None:
    """What would decide an unproven verdict: runs if their spread makes most of the interval."""
    runs = estimate.given.runs
    if estimate.gain.verdict != "not_proven":
        return None
    if estimate.given.measured is not None:
        return "trial" if estimate.given.measured.source == "copies" else "pairs"
    if load_words(runs) is not None:
        return "quiet"
    if poor_because(estimate):
        return "calibration"
    narrow = (estimate.spread_part or 0) > 0.5 and len(runs) < _MOST_RUNS
    return "runs" if narrow else "trial"


def poor_because(estimate: Estimate) -> tuple[str, ...]:
    calibrated = estimate.given.calibrated
    if calibrated is None or estimate.base_costs is None:
        return ()
    return calibrated.calibration.grade_reasons


def verdict_sentence(estimate: Estimate) -> str:
    gain, given = estimate.gain, estimate.given
    pages = f"{units.size(given.huge_page_bytes)} pages"
    total, time = total_interval(gain), time_name(gain, given)
    low, high = units.percent(total.low), units.percent(total.high)
    if given.measured is not None:
        return _measured_sentence(estimate, given.measured, pages)
    if isinstance(given.not_measured, OverLimit):
        return f"NOT WORTH IT: {given.not_measured}; on base pages it was not."
    if gain.verdict == "worth_trying":
        return (
            f"WORTH TRYING: {pages} should save {units.percent(total.value)} of the {time}, "
            f"at least {low}."
        )
    if gain.verdict == "already_huge":
        return (
            f"ALREADY THERE: the program was timed with most of its memory on {pages}; the shares "
            "are what it may have gained."
        )
    if gain.verdict == "not_worth_it":
        if total.high <= 0:
            return f"NOT WORTH IT: {pages} would save nothing."
        if high == units.ABOUT_ZERO:
            return f"NOT WORTH IT: {pages} would save next to nothing."
        return f"NOT WORTH IT: {pages} would save {high} of the {time} at most."
    by = decider(estimate)
    assert by is not None
    reason = next(iter(poor_because(estimate)), None)
    decides = _DECIDERS[by].format(load=load_words(given.runs), reason=reason)
    if total.high < WORTHWHILE_FRACTION:
        return (
            f"NOT PROVEN: {pages} should save {high} of the {time} at most, but a model alone does "
            f"not rule out more; {decides}."
        )
    return f"NOT PROVEN: {pages} should save between {low} and {high} of the {time}; {decides}."


def _measured_sentence(estimate: Estimate, measured: MeasuredGain, pages: str) -> str:
    gain = estimate.gain
    total, time = total_interval(gain), time_name(gain, estimate.given)
    low, value, high = (units.percent(each) for each in (total.low, total.value, total.high))
    if gain.verdict == "already_huge":
        if total.high <= 0:
            return (
                f"ALREADY THERE AND LOSING: its {pages} cost {units.percent(-total.value)} of the "
                f"{time}, at least {units.percent(-total.high)} (measured)."
            )
        return f"ALREADY THERE: its {pages} save {value} of the {time}, {low} to {high} (measured)."
    if gain.verdict == "worth_trying":
        return f"WORTH TRYING: {pages} saved {value} of the {time}, at least {low} (measured)."
    if gain.verdict == "not_worth_it":
        if total.high <= 0:
            grown = measured.growth_bytes
            much = grown is not None and grown.value >= _MUCH_BYTES
            more = f", and take {grown_words(grown)}" if grown is not None and much else ""
            return (
                f"NOT WORTH IT: {pages} lose {units.percent(-total.value)} of the {time}, at "
                f"least {units.percent(-total.high)}{more} (measured)."
            )
        return f"NOT WORTH IT: {pages} saved {high} of the {time} at most (measured)."
    by = "a trial would decide"
    if measured.more_pairs is not None:
        by = f"about {measured.more_pairs} more pairs would decide (--time-budget)"
        if measured.more_pairs > _MANY_PAIRS:
            by = f"it is too close to {units.percent(WORTHWHILE_FRACTION)} to decide"
    return f"NOT PROVEN: {pages} saved between {low} and {high} of the {time} (measured); {by}."


def service_sentence(estimate: Estimate) -> str | None:
    """Gain of a program that runs on, if getting huge pages costs it time at the start."""
    measured = estimate.given.measured
    if measured is None or measured.start_cost_s is None or not estimate.given.runs:
        return None
    run = estimate.given.runs[-1]
    gain, cost_s = measured.user_fraction, measured.start_cost_s.value
    if cost_s < _SMALL_FRACTION * run.cpu_ns / 1e9 or gain.low <= 0:
        return None
    after_s = cost_s / (gain.value * run.cpu_ns / run.user_ns) if run.user_ns else 0.0
    user = gain.scaled(run.cpu_ns / run.user_ns) if run.user_ns else gain
    return (
        f"Getting them costs {units.time(cost_s * 1e9)} at each start, which pays off after "
        f"{units.time(after_s * 1e9)}; a service gains {units.percent(user.value)} of its user "
        f"time ({units.range_of(user)})."
    )


def placement_sentence(estimate: Estimate) -> str | None:
    """Effects of huge pages on NUMA nodes, as directions: remote accesses are not calibrated."""
    placed, expected = estimate.given.placed, estimate.gain.expected_fraction
    if placed is None:
        return None
    translation = translation_direction(expected.low, expected.high, WORTHWHILE_FRACTION)
    words = direction_words(translation, placed.direction)
    but = estimate.gain.verdict == "worth_trying" and placed.direction == "slower"
    sentence = (
        f"{'But on' if but else 'On'} {placed.nodes} NUMA nodes ({placed.source}): {words} "
        f"({placement_words(placed.base, placed.huge)})."
    )
    if placed.direction == "slower":
        sentence += " tlbcost numa shows the remedies."
    return sentence


def waited_fraction(runs: Sequence[Run]) -> float | None:
    """Share of runnable time spent waiting for a CPU: median, or None if unknown for a run."""
    return _median([run.waited_fraction for run in runs])


def idle_fraction(runs: Sequence[Run]) -> float | None:
    """Share of elapsed time with nothing runnable: median, or None if unknown for a run."""
    return _median([_share(run.idle_ns, run) for run in runs])


def off_cpu_fraction(runs: Sequence[Run]) -> float | None:
    """Of the elapsed time, how much exceeds the CPU time; 0 where several threads outrun it."""
    return _median([_share(max(0, run.wall_ns - run.cpu_ns), run) for run in runs])


def waits_words(runs: Sequence[Run]) -> str | None:
    """'idle 94 %', 'waited for a CPU 69 % of the time'; None: not worth saying."""
    waited, idle, off = waited_fraction(runs), idle_fraction(runs), off_cpu_fraction(runs)
    if waited is None and off is not None and off > WORTH_SAYING_FRACTION:
        return f"idle or waiting for a CPU {units.percent(off)} of the time"
    said = []
    if idle is not None and idle > WORTH_SAYING_FRACTION:
        said.append(f"idle {units.percent(idle)}")
    if waited is not None and waited > WORTH_SAYING_FRACTION:
        said.append(f"waited for a CPU {units.percent(waited)} of the time")
    return ", ".join(said) or None


def time_words(runs: Sequence[Run]) -> Literal["run time", "CPU time"]:
    """What shares are of: 'run time', or 'CPU time' where that is visibly another one."""
    if not runs:
        return "CPU time"
    wall, cpu = (median(each) for each in zip(*((r.wall_ns, r.cpu_ns) for r in runs), strict=True))
    return "run time" if abs(wall - cpu) <= WORTH_SAYING_FRACTION * wall else "CPU time"


def load_words(runs: Sequence[Run]) -> str | None:
    waited = waited_fraction(runs)
    if waited is not None and waited > WORTH_SAYING_FRACTION:
        return f"the program waited for a CPU {units.percent(waited)} of the time"
    spread = spread_fraction([run.cpu_ns for run in runs]) if runs else None
    if spread is not None and spread > SPREAD_FRACTION:
        return f"the program's CPU time varied by {units.percent(spread)} between runs"
    return None


def _share(part_ns: int | None, run: Run) -> float | None:
    return None if part_ns is None or not run.wall_ns else part_ns / run.wall_ns


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known and len(known) == len(values) else None


def advice_for(estimate: Estimate) -> tuple[Advice, ...]:
    if estimate.gain.verdict in ("not_worth_it", "already_huge"):
        return ()
    around = estimate.given.surroundings
    attribution = estimate.attribution
    if around is None or around.settings is None or attribution is None:
        return ()
    faults = tuple(
        None if costs is None else costs.fault_ns
        for costs in (estimate.base_costs, estimate.huge_costs)
    )
    names: dict[str, dict[str, None]] = {}
    for program, mapping in estimate.given.seen:
        names.setdefault(program, {})[mapping.name] = None
    situation = Situation(
        estimate.given.argv,
        around.settings,
        around.glibc,
        around.hugectl,
        estimate.given.runs,
        (faults[0], faults[1]),
        {**os.environ, TUNABLES: around.glibc_tunables or ""},
        None if estimate.gain.fault_fraction is None else estimate.gain.fault_fraction.value,
        {program: tuple(found) for program, found in names.items()},
        around.can_run_thp,
        estimate.given.region,
    )
    found = advise(attribution.regions, situation)
    measured = estimate.given.measured
    if measured is None or measured.method is None:
        return found
    return tuple(_measured_first(advice, measured.method) for advice in found)


def _measured_first(advice: Advice, method: str) -> Advice:
    def other(remedy: Remedy) -> bool:
        if method == "thp":
            return remedy.code != "thp-always"
        switch = method.removeprefix("env:").partition("=")[2] or method
        return remedy.code != method and not any(switch in step for step in remedy.steps)

    return replace(advice, remedies=tuple(sorted(advice.remedies, key=other)))


def next_steps(estimate: Estimate) -> list[str]:
    """Lines to type: the simplest remedy of each region and its proof; those with # explain."""
    if estimate.gain.verdict in ("not_worth_it", "already_huge"):
        return ["# Nothing to configure for this program."]
    command, region = names.command_line(estimate.given.argv), estimate.given.region
    steps = []
    if decider(estimate) == "runs":
        of = f" --region {shlex.quote(region)}" if region else ""
        steps += ["# a narrower interval:", f"tlbcost estimate{of} --runs 10 -- {command}"]
    for advice in estimate.advice:
        for remedy in advice.remedies[:1]:
            steps += [f"# {remedy.words}:", *remedy.steps]
            if remedy.proof is not None:
                steps += ["# to prove it:", remedy.proof]
    if not estimate.advice:
        where = "" if estimate.given.runs else ", where the program runs"
        steps += [f"# to prove it{where}:", f"{trial_command(region)} -- {command}"]
    return steps
