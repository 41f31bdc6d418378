# SPDX-License-Identifier: GPL-2.0-or-later
"""Does Carrefour-LP's decision follow its thresholds, and the directions those of the slides?"""

from __future__ import annotations

import pytest
from tlbcost.numa import carrefour
from tlbcost.numa.carrefour import IntervalFigures
from tlbcost.numa.locality import Score, direction_words, placement_direction, translation_direction


def interval(
    now: float, moved: float, split: float, hot: int = 0, imbalance: float = 0.1
) -> IntervalFigures:
    return IntervalFigures(Score(now, imbalance), moved, split, hot)


WHOLE = Score(0.66, 0.12)


def test_splits_what_two_intervals_in_a_row_ask_for() -> None:
    gain, none = interval(0.66, 0.66, 0.88), interval(0.66, 0.66, 0.70)
    for figures, split in (
        ([gain, gain], "shared"),
        ([gain, none, gain], "none"),
        ([none, gain, gain, none], "shared"),
    ):
        assert carrefour.decide(tuple(figures), WHOLE, None, None).split == split
    alone = carrefour.decide((gain,), WHOLE, None, None)
    assert (alone.split, alone.lar_split) == ("none", None)


def test_exactly_five_points_are_enough() -> None:
    five, less = interval(0.5, 0.5, 0.55), interval(0.5, 0.5, 0.5499)
    assert carrefour.decide((five, five), WHOLE, None, None).lar_split
    assert not carrefour.decide((less, less), WHOLE, None, None).lar_split


def test_moving_huge_pages_is_tried_first_where_it_helps() -> None:
    veto, just = interval(0.60, 0.70, 0.90), interval(0.60, 0.68, 0.90)
    assert carrefour.decide((veto, veto), WHOLE, None, None).vetoed == 2
    assert not carrefour.decide((veto, veto), WHOLE, None, None).lar_split
    assert carrefour.decide((just, just), WHOLE, None, None).lar_split
    hardly = interval(0.09, 0.09, 0.5)
    assert carrefour.decide((hardly, hardly), WHOLE, None, None).vetoed == 2


def test_hot_pages_are_split_where_something_is_wrong_with_placement() -> None:
    hot = interval(0.76, 0.76, 0.76, hot=1)
    decided = carrefour.decide((hot, hot), Score(0.76, 0.6), None, None)
    assert (decided.split, decided.interleave, decided.migrate) == ("hot", True, True)
    fine = carrefour.decide((hot, hot), Score(1.0, 0.0), None, None)
    assert (fine.split, fine.interleave, fine.migrate) == ("none", False, False)


@pytest.mark.parametrize(
    ("whole", "interleave", "migrate"),
    [
        (Score(0.9, 0.36), True, False),
        (Score(0.9, 0.35), False, False),
        (Score(0.79, 0.35), False, True),
        (Score(0.80, 0.35), False, False),
        (Score(1.0, 0.9), False, False),
    ],
)
def test_thresholds_of_carrefour(whole: Score, interleave: bool, migrate: bool) -> None:
    decided = carrefour.decide((), whole, None, None)
    assert (decided.interleave, decided.migrate) == (interleave, migrate)


@pytest.mark.parametrize(("share", "acts"), [(None, None), (0.05, True), (0.049, False)])
def test_thresholds_of_the_conservative_component(share: float | None, acts: bool | None) -> None:
    decided = carrefour.decide((), WHOLE, share, share)
    assert (decided.promote, decided.allocate) == (acts, acts)


@pytest.mark.parametrize(
    ("base", "huge", "direction"),
    [
        (Score(0.40, 0.01), Score(0.36, 0.59), "slower"),  # CG.D in the slides
        (Score(0.88, 0.14), Score(0.66, 0.12), "slower"),  # UA.C
        (Score(0.25, 0.08), Score(0.26, 0.52), "slower"),  # SSCA.20
        (Score(0.12, 0.16), Score(0.15, 0.39), "slower"),  # SPECjbb
        (Score(0.50, 1.47), Score(0.55, 1.36), "faster"),  # WR: 5 points, though both uneven
        (Score(0.90, 0.10), Score(0.88, 0.10), "same"),
        (Score(0.90, 0.40), Score(0.90, 0.10), "faster"),
        (Score(None, None), Score(0.9, 0.1), "same"),
    ],
)
def test_directions_of_placement(base: Score, huge: Score, direction: str) -> None:
    assert placement_direction(base, huge) == direction


def test_directions_of_translation_and_their_words() -> None:
    assert translation_direction(0.03, 0.5, 0.02) == "faster"
    assert translation_direction(-0.5, -0.03, 0.02) == "slower"
    assert translation_direction(0.0, 0.01, 0.02) == "same"
    assert translation_direction(0.0, 0.5, 0.02) is None
    assert direction_words("faster", "slower") == "faster by translation, slower by placement"
    assert direction_words(None, "same") == "not clear by translation, about the same by placement"
    assert direction_words("same", "same") == "about the same by translation and by placement"
