# SPDX-License-Identifier: GPL-2.0-or-later
"""Are placements and their figures right where they can be worked out?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.placement import Row, image, region
from tlbcost.numa.accesses import gather, spread_threads
from tlbcost.numa.carrefour import intervals_of
from tlbcost.numa.locality import Score, direction_words, placement_direction, translation_direction
from tlbcost.numa.placement import (
    by_main_user,
    false_sharing,
    first_touch,
    hot_pages,
    hot_shared,
    hot_split,
    imbalance,
    interleaved,
    read_only,
    replicated,
    score,
)


def test_first_touch_differs_by_page_size(tmp_path: Path) -> None:
    # Two halves of one huge page: each thread touches and reads its own; the first thread is first.
    rows = [(region(3), 1, [10]), (region(3) + 300, 2, [30])]
    touches = [(region(3), 1, "huge"), (region(3) + 300, 2, "huge")]
    pages = gather([image(tmp_path, rows, touches)], 2)
    base = score(pages.totals, first_touch(pages, huge=False))
    huge = score(pages.totals, first_touch(pages, huge=True))
    assert base.local_fraction == 1.0
    assert huge.local_fraction == 0.25
    # All 40 accesses are to node 0: the sample deviation of 40 and 0 over their mean.
    assert huge.imbalance == pytest.approx(28.284 / 20, rel=1e-3)
    # The node with more accesses would do better with the page.
    moved = score(pages.totals, by_main_user(pages, pages.totals, huge=True))
    assert moved.local_fraction == 0.75
    assert false_sharing(pages) == 1.0


def test_small_mappings_stay_on_base_pages(tmp_path: Path) -> None:
    rows = [(region(3), 1, [10]), (region(3) + 300, 2, [30])]
    touches = [(region(3), 1, "anonymous"), (region(3) + 300, 2, "huge")]
    pages = gather([image(tmp_path, rows, touches)], 2)
    huge = score(pages.totals, first_touch(pages, huge=True))
    assert huge.local_fraction == 1.0
    assert not pages.is_huge.any()
    assert false_sharing(pages) == 0.0


def test_a_page_that_all_use_alike_shares_nothing_falsely(tmp_path: Path) -> None:
    rows = [(region(3) + i, thread, [10]) for i in (0, 9) for thread in (1, 2)]
    touches = [(region(3), 1, "huge"), (region(3) + 9, 2, "huge")]
    assert false_sharing(gather([image(tmp_path, rows, touches)], 2)) == 0.0


def test_interleaving_goes_by_the_page_that_there_is(tmp_path: Path) -> None:
    pages_of_one = [region(2) + i for i in range(8)]
    rows = [(page, 1, [10]) for page in pages_of_one]
    touches = [(page, 1, "huge") for page in pages_of_one]
    pages = gather([image(tmp_path, rows, touches)], 4)
    base = score(pages.totals, interleaved(pages, huge=False))
    huge = score(pages.totals, interleaved(pages, huge=True))
    assert (base.local_fraction, base.imbalance) == (0.25, 0.0)
    # Region 2 is on node 2, where no thread runs; one of four nodes has all: imbalance 2.
    assert (huge.local_fraction, huge.imbalance) == (0.0, 2.0)


def test_hot_pages_and_their_remedy(tmp_path: Path) -> None:
    # A vector in one huge page, read by all, and a part of its own for each of four threads.
    vector = [(region(1) + i, thread, [5]) for i in range(8) for thread in (1, 2, 3, 4)]
    parts = [
        (region(10 + thread * 32 + i), thread, [10]) for i in range(32) for thread in (1, 2, 3, 4)
    ]
    touches = [(region(1) + i, 1 + i // 2, "huge") for i in range(8)]
    touches += [(page, thread, "huge") for page, thread, _ in parts]
    pages = gather([image(tmp_path, [*vector, *parts], touches)], 4)
    base, huge = hot_pages(pages, huge=False), hot_pages(pages, huge=True)
    assert base is not None
    assert huge is not None
    assert (base.count, base.fraction) == (0, 0.0)
    assert (huge.count, huge.fraction) == (1, 160 / 1440)
    home = first_touch(pages, huge=True)
    split = score(pages.totals, hot_split(pages, pages.totals, home))
    assert score(pages.totals, home).imbalance == pytest.approx(2 * 160 / 1440)
    assert split.imbalance == 0.0


def test_a_hot_page_of_one_node_is_not_split(tmp_path: Path) -> None:
    rows = [(region(1) + i, 1, [50]) for i in range(8)] + [(region(2), 2, [1]), (region(2), 1, [1])]
    touches = [(region(1) + i, 2, "huge") for i in range(8)] + [(region(2), 1, "huge")]
    pages = gather([image(tmp_path, rows, touches)], 2)
    hot = hot_pages(pages, huge=True)
    assert hot is not None
    assert hot.count == 1
    assert not hot_shared(pages, pages.totals).any()


def test_copies_are_of_pages_that_are_only_read(tmp_path: Path) -> None:
    rows: list[Row] = [(1, 1, [4, 4]), (1, 2, [4, 4]), (2, 1, [4, 4]), (2, 2, [4, 4])]
    touches = [(1, 1, "huge"), (2, 1, "huge")]
    # Page 1 is written in the first interval, page 2 in the second.
    pages = gather([image(tmp_path, rows, touches, written={1: 1, 2: 2})], 2)
    copied = read_only(pages)
    assert copied.tolist() == [True, False]
    found = replicated(pages.totals, first_touch(pages, huge=False), copied)
    assert found.local_fraction == 0.75
    # One interval does not show what comes after the start.
    once = gather([image(tmp_path, rows, touches, written={1: 1}, intervals=1)], 2)
    assert read_only(once).tolist() == [False, True]


def test_processes_share_no_pages_but_the_nodes(tmp_path: Path) -> None:
    one = image(tmp_path, [(5, 1, [10])], [(5, 1, "huge")])
    pages = gather([one, one], 2)
    assert len(pages.number) == 2
    found = score(pages.totals, first_touch(pages, huge=True))
    assert (found.local_fraction, found.imbalance) == (1.0, 0.0)
    with pytest.raises(ValueError, match="no process image"):
        gather([], 2)


def test_no_accesses_are_no_shares(tmp_path: Path) -> None:
    pages = gather([image(tmp_path, [], [(5, 1, "huge")])], 2)
    assert score(pages.totals, first_touch(pages, huge=True)) == Score(None, None)
    assert hot_pages(pages, huge=True) is None
    assert false_sharing(pages) is None
    assert intervals_of(pages) == ()


def test_imbalance_is_the_sample_deviation_over_the_mean() -> None:
    assert imbalance(np.array([7.0, 3.0, 3.0, 3.0])) == pytest.approx(0.5)
    assert imbalance(np.array([1.0, 1.0])) == 0.0
    assert imbalance(np.array([5.0])) is None


def test_pages_of_files_stay_on_base_pages_next_to_huge_ones(tmp_path: Path) -> None:
    rows = [(region(3), 1, [10]), (region(3) + 300, 2, [30])]
    touches = [(region(3), 1, "huge"), (region(3) + 300, 2, "other")]
    pages = gather([image(tmp_path, rows, touches)], 2)
    assert pages.is_huge.tolist().count(True) == 1
    assert pages.faults.tolist() == [1, 0]
    assert [by.tolist() for by in pages.huge_faults] == [[0, 0], [1, 0]]


def test_threads_are_spread() -> None:
    assert spread_threads(6, 4, "round-robin").tolist() == [0, 1, 2, 3, 0, 1]
    assert spread_threads(8, 4, "blocks").tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert spread_threads(2, 4, "blocks").tolist() == [0, 2]


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
