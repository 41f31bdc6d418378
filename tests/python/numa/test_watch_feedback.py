# SPDX-License-Identifier: GPL-2.0-or-later
"""Is what did not help taken back and left alone, and does no page move too often?"""

from __future__ import annotations

import numpy as np
from builders.numa_patterns import FIRST, FOLD, Process, parts
from tlbcost.numa.locality import Score
from tlbcost.numa.watch.decide import Action, Conditions, decide
from tlbcost.numa.watch.evidence import Window
from tlbcost.numa.watch.feedback import Feedback, worth_it
from tlbcost.numa.watch.thresholds import Thresholds

LIMITS = Thresholds()
NONE = np.zeros(0, dtype=np.int64)


def split(pages: list[int], to: list[int], regions: list[int]) -> tuple[Action, ...]:
    return (
        Action("stop_huge", "", NONE, NONE, NONE),
        Action("split", "", np.array(pages), np.array(to), np.array(regions)),
    )


def test_what_helps_stays() -> None:
    feedback = Feedback(LIMITS)
    feedback.begin(split([5], [1], [0]), Score(0.6, 0.1), {5: 0}, 100.0)
    assert feedback.judge(Score(0.9, 0.1), 3, 102.0) is None, "too few windows"
    assert feedback.judge(Score(0.9, 0.1), 4, 103.0) == ()
    assert feedback.trial is None
    assert feedback.kept_split == {0}
    assert not feedback.paused_until


def test_what_does_not_help_is_taken_back_after_its_pages_rested_and_not_tried_again() -> None:
    feedback = Feedback(LIMITS)
    feedback.begin(split([5, 6], [1, 1], [0]), Score(0.6, 0.1), {5: 0, 6: 2}, 100.0)
    assert feedback.judge(Score(0.62, 0.1), 4, 104.0) is None
    undone = feedback.judge(Score(0.62, 0.1), 8, 110.0)
    assert undone is not None
    assert [action.kind for action in undone] == ["migrate", "allocate_huge", "promote"]
    assert dict(zip(undone[0].pages, undone[0].to, strict=True)) == {5: 0, 6: 2}
    assert list(undone[2].regions) == [0]
    assert feedback.kept_split == set()
    again = split([9], [1], [1])
    assert feedback.allowed(again, 104.0 + LIMITS.pause_s - 1) == ()
    kinds = [action.kind for action in feedback.allowed(again, 104.0 + LIMITS.pause_s)]
    assert kinds == ["stop_huge", "split"]


def test_balance_counts_where_it_was_bad() -> None:
    assert worth_it(Score(0.25, 0.6), Score(0.25, 0.5), LIMITS)
    assert not worth_it(Score(0.25, 0.6), Score(0.25, 0.56), LIMITS)
    assert not worth_it(Score(0.25, 0.02), Score(0.25, 0.01), LIMITS)
    assert not worth_it(Score(None, None), Score(0.9, 0.0), LIMITS)


def test_one_thing_is_tried_at_a_time() -> None:
    feedback = Feedback(LIMITS)
    feedback.begin(split([5], [1], [0]), Score(0.6, 0.1), {5: 0}, 100.0)
    assert feedback.allowed(split([9], [1], [1]), 101.0) == ()
    promote = Action("promote", "", NONE, NONE, np.array([7]))
    assert [a.kind for a in feedback.allowed([promote], 101.0)] == ["promote"]


def test_a_page_rests_and_one_that_cannot_move_is_left_alone() -> None:
    feedback = Feedback(LIMITS)
    move = Action("migrate", "", np.array([5, 6]), np.array([1, 1]), NONE)
    feedback.note_moves([5], 100.0)
    assert list(feedback.allowed([move], 109.9)[0].pages) == [6]
    assert list(feedback.allowed([move], 110.0)[0].pages) == [5, 6]
    feedback.note_refusals([6])
    assert list(feedback.allowed([move], 110.0)[0].pages) == [5, 6]
    feedback.note_refusals([6])
    assert list(feedback.allowed([move], 1e6)[0].pages) == [5]
    assert feedback.refused_pages() == 1


def test_a_wish_to_split_has_to_last() -> None:
    feedback = Feedback(LIMITS)
    feedback.note_wish(enough=True, wants_split=True)
    feedback.note_wish(enough=False, wants_split=False)
    assert feedback.wanted == 1, "an interval without samples says nothing"
    feedback.note_wish(enough=True, wants_split=False)
    assert feedback.wanted == 0


def test_a_process_that_changes_sides_is_followed_without_thrashing() -> None:
    """Every 20 s each node reads the next one's part: one move of a page for each change."""
    process = Process.of([0, 0, 1, 1, 2, 2, 3, 3])
    feedback = Feedback(LIMITS)
    seen: list[Window] = []
    moves: dict[int, list[float]] = {}
    local = []
    for second in range(100):
        fresh = parts(process, second, shift=second // 20, rounds=1)
        seen = [w for w in [*seen, *fresh] if second - w.at_s < 8]
        evidence = process.evidence(seen)
        local.append(process.evidence(fresh).score().local_fraction)
        if feedback.trial is not None:
            since = [w for w in seen if w.at_s > feedback.trial.at_s]
            assert feedback.judge(process.evidence(since).score(), len(since), second) in (None, ())
        verdict = decide(evidence, Conditions(), LIMITS, feedback.wanted)
        feedback.note_wish(enough=verdict.enough, wants_split=verdict.wants_split)
        actions = feedback.allowed(verdict.actions, second)
        assert {action.kind for action in actions} <= {"migrate"}
        for action in actions:
            before = {}
            for page, to in zip(action.pages, action.to, strict=True):
                at = int(page) - FIRST
                before[int(page)] = int(process.node[at])
                process.node[at : at + FOLD] = to
                moves.setdefault(int(page), []).append(second)
            feedback.begin(actions, evidence.score(), before, second)
            feedback.note_moves(before, second)
    assert len(moves) == 8
    for times in moves.values():
        assert len(times) == 4
        assert min(np.diff(times)) >= LIMITS.rest_s
    # At the end of each side its pages are where they are used.
    assert [local[20 * i + 19] for i in range(5)] == [1.0] * 5
