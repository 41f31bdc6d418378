# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the verdict name the figures?"""

from __future__ import annotations

from dataclasses import replace

from builders.answer import (
    estimated,
)
from tlbcost.answer.words import decider, verdict_sentence
from tlbcost.common import units
from tlbcost.common.interval import Interval
from tlbcost.model.gain import total_interval


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
