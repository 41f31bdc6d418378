# SPDX-License-Identifier: GPL-2.0-or-later
"""Are tables of placement read, are the figures right, and do Carrefour-LP's decisions follow?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from builders.tree import fails, there
from tlbcost.common import formats
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.formats import Cell, format_table
from tlbcost.numa import carrefour
from tlbcost.numa.carrefour import IntervalFigures, intervals_of
from tlbcost.numa.locality import Score, direction_words, placement_direction, translation_direction
from tlbcost.numa.placement import (
    by_main_user,
    false_sharing,
    first_touch,
    gather,
    hot_pages,
    hot_shared,
    hot_split,
    imbalance,
    interleaved,
    read_only,
    score,
    spread_threads,
)
from tlbcost.numa.placement_table import (
    ImagePlacement,
    PlacementPlan,
    cache_within,
    read_placements,
)

HUGE_PAGES = 512  # base pages of a huge page

Row = tuple[int, int, Sequence[int]]  # page, thread, accesses by interval


def header(state: str = "exited", **changed: Cell) -> dict[str, Cell]:
    made: dict[str, Cell] = {
        "pid": 7, "program": "/bin/x", "state": state, "base_page_bytes": 4096,
        "huge_page_bytes": 2097152,
    }  # fmt: skip
    if state == "exited":
        made |= {
            "l2": "65536:16", "l3": "0:0", "period": 1, "warm": 0, "measured": 1,
            "references": 1000, "interval": 500, "intervals": 2, "l2_misses": 100,
            "walk_l2_misses": 4,
        }  # fmt: skip
    return made | changed


def write(
    folder: Path,
    rows: Sequence[Row],
    touches: Sequence[tuple[int, int, str]],
    *,
    written: dict[int, int] | None = None,
    **changed: Cell,
) -> None:
    cells = [
        (page, thread, (written or {}).get(page, 0), *[*by, *[0] * 8][:8])
        for page, thread, by in rows
    ]
    made = header(**changed)  # type: ignore[arg-type]
    (folder / "placement.7.0.tsv").write_text(format_table(formats.PLACEMENT, made, cells))
    (folder / "touches.7.0.tsv").write_text(format_table(formats.TOUCHES, header(), touches))


def image(tmp_path: Path, *arguments: object, **changed: object) -> ImagePlacement:
    write(tmp_path, *arguments, **changed)  # type: ignore[arg-type]
    (found,) = read_placements(tmp_path)
    return found


def region(number: int) -> int:
    """First base page of a huge page."""
    return number * HUGE_PAGES


# Two halves of one huge page: each thread touches and reads its own; the first thread is first.
HALVES: list[Row] = [(region(3), 1, [10]), (region(3) + 300, 2, [30])]


def test_first_touch_differs_by_page_size(tmp_path: Path) -> None:
    touches = [(region(3), 1, "huge"), (region(3) + 300, 2, "huge")]
    pages = gather([image(tmp_path, HALVES, touches)], 2)
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
    touches = [(region(3), 1, "anonymous"), (region(3) + 300, 2, "huge")]
    pages = gather([image(tmp_path, HALVES, touches)], 2)
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
    assert there(hot_pages(pages, huge=True)).count == 1
    assert not hot_shared(pages, pages.totals).any()


def test_copies_are_of_pages_that_are_only_read(tmp_path: Path) -> None:
    rows: list[Row] = [(1, 1, [4, 4]), (1, 2, [4, 4]), (2, 1, [4, 4]), (2, 2, [4, 4])]
    touches = [(1, 1, "huge"), (2, 1, "huge")]
    # Page 1 is written in the first interval, page 2 in the second.
    pages = gather([image(tmp_path, rows, touches, written={1: 1, 2: 2})], 2)
    copied = read_only(pages)
    assert copied.tolist() == [True, False]
    found = score(pages.totals, first_touch(pages, huge=False), copied)
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
    touches = [(region(3), 1, "huge"), (region(3) + 300, 2, "other")]
    pages = gather([image(tmp_path, HALVES, touches)], 2)
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


def test_tables_are_read(tmp_path: Path) -> None:
    found = image(tmp_path, [(5, 1, [3, 4]), (6, 2, [1])], [(5, 1, "huge"), (6, 2, "other")])
    assert found.pages.tolist() == [5, 6]
    assert found.accesses[0].tolist() == [3, 4, 0, 0, 0, 0, 0, 0]
    assert found.touched_kinds.tolist() == [0, 2]
    assert (found.l2_misses, found.walk_l2_misses, found.intervals) == (100, 4, 2)


def test_an_image_that_did_not_finish_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, [], [], state="running")
    assert read_placements(tmp_path) == ()


def test_pages_that_were_not_all_noted_are_no_result(tmp_path: Path) -> None:
    write(tmp_path, [], [], state="failed")
    with fails("could not note all its pages", TOOL_FAILED):
        read_placements(tmp_path)


@pytest.mark.parametrize(
    ("rows", "touches", "changed"),
    [([(5, 1, [-3])], [], {}), ([(5, 1, [3])], [(5, 1, "wood")], {}), ([(5, 1, [None])], [], {}),
     ([(5, 1, [3])], [], {"intervals": "many"}), ([(1 << 70, 1, [3])], [], {})],
)  # fmt: skip
def test_garbage_is_refused_by_name(
    tmp_path: Path, rows: list[Row], touches: list[tuple[int, int, str]], changed: dict[str, Cell]
) -> None:
    write(tmp_path, rows, touches, **changed)
    with pytest.raises(TlbcostError, match=r"7\.0\.tsv: "):
        read_placements(tmp_path)


@pytest.mark.parametrize(
    ("n_bytes", "cache"),
    [(1 << 20, (1 << 20, 16)), (300 << 10, (288 << 10, 18)), (64, (64, 1)), (0, (0, 0))],
)
def test_caches_have_sets_of_a_power_of_two(n_bytes: int, cache: tuple[int, int]) -> None:
    assert cache_within(n_bytes) == cache
    lines = cache[0] // 64
    assert lines == 0 or (lines // cache[1]).bit_count() == 1


def test_the_sample_is_asked_for() -> None:
    plan = PlacementPlan(
        period_references=4000, warm_references=250, measured_references=750,
        l2_bytes=1 << 20, l3_share_bytes=0, caches_source="made up",
    )  # fmt: skip
    assert plan.options[:2] == ["--placement=4000:250:750", "--placement-caches=1048576:16,0:0"]


@pytest.mark.parametrize("kept", [1, 2])
def test_a_table_that_was_cut_short_is_refused_or_left_out(tmp_path: Path, kept: int) -> None:
    write(tmp_path, [(5, 1, [3]), (6, 1, [3])], [(5, 1, "huge")])
    path = tmp_path / "placement.7.0.tsv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # A row is missing.
    path.write_text("".join([*lines[:-2], lines[-1]]), encoding="utf-8")
    with pytest.raises(TlbcostError, match="cells are missing"):
        read_placements(tmp_path)
    # The end is: its writer was killed.
    path.write_text("".join(lines[:-kept]), encoding="utf-8")
    assert read_placements(tmp_path) == ()


def test_first_touches_that_were_cut_short_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [(5, 1, [3])], [(5, 1, "huge")])
    path = tmp_path / "touches.7.0.tsv"
    path.write_text(path.read_text(encoding="utf-8").replace("# end: 1\n", ""), encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"touches\.7\.0\.tsv: truncated"):
        read_placements(tmp_path)


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
    [(Score(0.9, 0.36), True, False), (Score(0.9, 0.35), False, False),
     (Score(0.79, 0.35), False, True), (Score(0.80, 0.35), False, False),
     (Score(1.0, 0.9), False, False)],
)  # fmt: skip
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
