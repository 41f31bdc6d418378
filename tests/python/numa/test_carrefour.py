# SPDX-License-Identifier: GPL-2.0-or-later
"""Does Carrefour-LP's decision follow its thresholds?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.placement import image
from tlbcost.numa import carrefour
from tlbcost.numa.accesses import gather
from tlbcost.numa.carrefour import IntervalFigures, intervals_of
from tlbcost.numa.locality import Score


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


def test_a_start_and_what_is_left_over_are_no_intervals(tmp_path: Path) -> None:
    rows = [(5, 1, [1, 100, 100, 100, 9])]
    pages = gather([image(tmp_path, rows, [(5, 1, "huge")], intervals=5)], 2)
    assert len(intervals_of(pages)) == 3
