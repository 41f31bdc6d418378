# SPDX-License-Identifier: GPL-2.0-or-later
"""The sentences of a report: the verdict with its reason, and where memory lies."""

from __future__ import annotations

from tlbcost.answer.record import Estimate
from tlbcost.common import units
from tlbcost.model.gain import WORTHWHILE_FRACTION, PredictedGain, total_interval
from tlbcost.numa.locality import direction_words, placement_words, translation_direction


def verdict_sentence(gain: PredictedGain, huge_page_bytes: int) -> str:
    """One sentence: worth trying, not worth it or too close to call, and why."""
    pages = f"{units.size(huge_page_bytes)} pages"
    total = total_interval(gain)
    threshold = f"{100 * WORTHWHILE_FRACTION:.0f} %"
    # Of the simple model costs alone are uncertain.
    least, most = "even at the lowest costs", "even at the highest costs"
    if gain.model == "overlap":
        least, most = "at the least", "at the most"
    if gain.verdict == "worth_trying":
        return (
            f"Worth trying: {pages} should save {units.percent(total.value)} of the run time, "
            f"and {units.percent(total.low)} {least}; mostly "
            f"{_main_part(gain)}."
        )
    if gain.verdict == "already_huge":
        return (
            "Already there: the program was timed with most of its memory on huge pages, so that "
            "the shares above are what it may have gained, not what is left to gain."
        )
    if gain.verdict == "not_worth_it":
        if total.high <= 0:
            return f"Not worth it: {most} {pages} would save nothing."
        if units.percent(total.high) == units.ABOUT_ZERO:
            return f"Not worth it: {most} {pages} would save next to nothing."
        return (
            f"Not worth it: {most} {pages} would save "
            f"{units.percent(total.high)} of the run time, less than the {threshold} that are "
            "worth a change."
        )
    return (
        f"Too close to call: {pages} should save between {units.percent(total.low)} and "
        f"{units.percent(total.high)} of the run time, and {threshold} are worth a change; "
        "only a trial can tell."
    )


def placement_sentence(estimate: Estimate) -> str | None:
    """What huge pages do on several NUMA nodes, beside what they do for translation; None: unasked.

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
        sentence += " tlbcost numa tells which remedies there are."
    return sentence


def _main_part(gain: PredictedGain) -> str:
    fault = gain.fault_fraction.value if gain.fault_fraction else 0.0
    if fault > gain.expected_fraction.value:
        return "by fewer page faults"
    return "by cheaper address translation"
