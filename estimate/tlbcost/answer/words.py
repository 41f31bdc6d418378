# SPDX-License-Identifier: GPL-2.0-or-later
"""The sentences of an estimate: its verdict, and what huge pages do on NUMA nodes."""

from __future__ import annotations

from tlbcost.answer.record import Decider, Estimate, Evidence, TimeName
from tlbcost.answer.waits import load_words, time_words
from tlbcost.common import units
from tlbcost.measured.record import WORTHWHILE_FRACTION, MeasuredGain
from tlbcost.model.gain import PredictedGain, total_interval
from tlbcost.numa.locality import direction_words, placement_words, translation_direction

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


def time_name(gain: PredictedGain, given: Evidence) -> TimeName:
    """What fractions are of."""
    if given.region is not None:
        return "region's time"
    return "cycles counted" if gain.cpu_ns is None else time_words(given.runs)


def decider(estimate: Estimate) -> Decider | None:
    """What would decide a verdict that is not proven; None: it is decided.

    More runs, if their spread, and not the costs or the model, makes most of the interval.
    """
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
    """Why the costs that the estimate takes are not to be relied on; empty: they are, or none."""
    calibrated = estimate.given.calibrated
    if calibrated is None or estimate.base_costs is None:
        return ()
    return calibrated.calibration.grade_reasons


def verdict_sentence(estimate: Estimate) -> str:
    """One sentence: worth trying, not worth it, or not proven and what would decide."""
    gain, given = estimate.gain, estimate.given
    pages = f"{units.size(given.huge_page_bytes)} pages"
    total, time = total_interval(gain), time_name(gain, given)
    low, high = units.percent(total.low), units.percent(total.high)
    if given.measured is not None:
        return _measured_sentence(estimate, given.measured, pages)
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
    return f"NOT PROVEN: {pages} should save between {low} and {high} of the {time}; {decides}."


def _measured_sentence(estimate: Estimate, measured: MeasuredGain, pages: str) -> str:
    """The same of what was measured."""
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
            grown = measured.growth_bytes or 0
            more = f", and take {units.size(grown)} more memory" if grown >= _MUCH_BYTES else ""
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
    """What a program gains that runs on, where getting huge pages costs it time at the start.

    None: it was not measured in runs, or there is no such cost, or no gain.
    """
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
    """What huge pages do on several NUMA nodes, besides translation; None: not asked for.

    Directions alone: what a remote access costs is not calibrated.
    """
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
