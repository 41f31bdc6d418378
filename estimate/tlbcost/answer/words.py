# SPDX-License-Identifier: GPL-2.0-or-later
"""The sentences of an estimate: its verdict, and what huge pages do on NUMA nodes."""

from __future__ import annotations

from tlbcost.answer.record import Decider, Estimate, Evidence, TimeName
from tlbcost.answer.waits import load_words, time_words
from tlbcost.common import units
from tlbcost.measured.record import WORTHWHILE_FRACTION
from tlbcost.model.gain import PredictedGain, total_interval
from tlbcost.numa.locality import direction_words, placement_words, translation_direction

_DECIDERS: dict[Decider, str] = {
    "quiet": "{load}: repeat when the machine is quiet",
    "calibration": "poor calibration ({reason}): repeat when the machine is quiet",
    "runs": "more runs would decide (--runs 10)",
    "trial": "a trial would decide",
}
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
        return "trial"
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
    if given.measured is not None and gain.verdict != "already_huge":
        return _measured_sentence(estimate, pages)
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


def _measured_sentence(estimate: Estimate, pages: str) -> str:
    """The same of what was measured."""
    gain = estimate.gain
    total, time = total_interval(gain), time_name(gain, estimate.given)
    low, high = units.percent(total.low), units.percent(total.high)
    if gain.verdict == "worth_trying":
        saved = units.percent(total.value)
        return f"WORTH TRYING: {pages} saved {saved} of the {time}, at least {low} (measured)."
    if gain.verdict == "not_worth_it":
        if total.high <= 0:
            return f"NOT WORTH IT: {pages} saved nothing (measured)."
        return f"NOT WORTH IT: {pages} saved {high} of the {time} at most (measured)."
    return (
        f"NOT PROVEN: {pages} saved between {low} and {high} of the {time} (measured); a trial "
        "would decide."
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
