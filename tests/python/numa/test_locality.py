# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the directions of placement and translation follow the slides, and what are they called?"""

from __future__ import annotations

import pytest
from tlbcost.numa.locality import Score, direction_words, placement_direction, translation_direction


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
