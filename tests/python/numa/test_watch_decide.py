# SPDX-License-Identifier: GPL-2.0-or-later
"""What is decided about the slides' patterns, and is what did not help taken back?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from builders.tree import there
from tlbcost.numa.locality import Score
from tlbcost.numa.placement import Ints
from tlbcost.numa.watch.decide import Action, Thresholds, Verdict, WatchConditions, decide
from tlbcost.numa.watch.evidence import (
    PageEvidence,
    ThreadWindow,
    least_walk_fraction,
    pages_of,
    walk_fraction,
)
from tlbcost.numa.watch.feedback import Feedback, worth_it

FOLD, NODES = 512, 4
FIRST = 1 << 20  # a base page number, the first of a huge page


@dataclass
class Process:
    """Base pages from FIRST on: the node of each, and whether it is part of a huge page."""

    node: Ints
    huge: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    @classmethod
    def of(cls, node: list[int], *, huge: bool = True) -> Process:
        """One node for each huge page."""
        homes = np.repeat(np.array(node, dtype=np.int64), FOLD)
        return cls(homes, np.full(len(homes), huge))

    def window(
        self, at_s: float, node: int, pages: Ints, walks: float | None = None
    ) -> ThreadWindow:
        """Accesses to these offsets, as often as each is named."""
        seen, counts = np.unique(pages, return_counts=True)
        l2 = (None, None) if walks is None else (10000, int(walks * 10000))
        return ThreadWindow(at_s, node, node, FIRST + seen, counts, *l2)

    def evidence(self, windows: list[ThreadWindow]) -> PageEvidence:
        page = pages_of(windows)
        at = page - FIRST
        return PageEvidence(windows, page, self.node[at], self.huge[at], [1 / NODES] * NODES, FOLD)


def conjugate_gradient(process: Process, at_s: float, rounds: int = 2) -> list[ThreadWindow]:
    """A third of the accesses go to one huge page (the first), the rest to each one's own."""
    own = (len(process.node) - FOLD) // NODES
    windows = []
    for i in range(rounds * NODES):
        node = i % NODES
        vector = process.random.integers(0, FOLD, 300)
        matrix = FOLD + node * own + process.random.integers(0, own, 600)
        windows.append(process.window(at_s + i / 100, node, np.concatenate([vector, matrix])))
    return windows


BLOCK = 448  # base pages: 1.75 MiB


def blocks(process: Process, at_s: float, rounds: int = 2) -> list[ThreadWindow]:
    """Blocks smaller than a huge page belong to the nodes in turn: false sharing."""
    windows = []
    number = np.arange(len(process.node))
    for i in range(rounds * NODES):
        node = i % NODES
        own = number[number // BLOCK % NODES == node]
        mine = process.random.choice(own, 4000)
        others = process.random.choice(number, 500)
        windows.append(process.window(at_s + i / 100, node, np.concatenate([mine, others])))
    return windows


def graph(
    process: Process, at_s: float, rounds: int = 2, walks: float = 0.36
) -> list[ThreadWindow]:
    """Everybody reads everywhere."""
    return [
        process.window(
            at_s + i / 100, i % NODES, process.random.integers(0, len(process.node), 900), walks
        )
        for i in range(rounds * NODES)
    ]


def parts(
    process: Process, at_s: float, shift: int = 0, rounds: int = 2, walks: float | None = None
) -> list[ThreadWindow]:
    """Each node reads a part of its own, that of the node `shift` further on."""
    own = len(process.node) // NODES
    return [
        process.window(
            at_s + i / 100,
            i % NODES,
            (i + shift) % NODES * own + process.random.integers(0, own, 900),
            walks,
        )
        for i in range(rounds * NODES)
    ]


LIMITS = Thresholds()


def verdict(
    process: Process, windows: list[ThreadWindow], before: int = 0, **conditions: object
) -> Verdict:
    known = WatchConditions(**conditions)  # type: ignore[arg-type]
    return decide(process.evidence(windows), known, LIMITS, before)


def kinds(result: Verdict) -> list[str]:
    return [action.kind for action in result.actions]


def cg() -> Process:
    """The vector, and one huge page of the matrix for each node."""
    return Process.of([0, 0, 1, 2, 3])


def ua() -> Process:
    """The greater part of a huge page decides where it is."""
    middles = np.arange(28) * FOLD + FOLD // 2
    return Process.of(list(middles // BLOCK % NODES))


def test_a_hot_page_is_split_and_interleaved() -> None:
    process = cg()
    result = verdict(process, conjugate_gradient(process, 0))
    assert result.figures.now.imbalance == pytest.approx(0.67, abs=0.1)
    assert kinds(result) == ["stop_huge", "split_hot"]
    action = result.actions[1]
    assert list(action.regions) == [FIRST // FOLD]
    # The quarter that belongs on node 0 is there already.
    assert len(action.pages) == FOLD * 3 // 4
    assert (action.to == action.pages % NODES).all()


def test_before_a_page_that_may_be_hot_is_moved_more_windows_tell() -> None:
    process = cg()
    windows = conjugate_gradient(process, 0)
    # Only one node in the older half: that several use it all the time is not proven.
    windows.sort(key=lambda each: each.node)
    chosen = (windows[0], *windows[:2], *windows[2::2])
    result = verdict(process, [replace(each, at_s=at) for at, each in enumerate(chosen)])
    assert result.enough
    assert result.figures.hot_pages == 0
    assert kinds(result) == []
    assert result.reasons == ("a huge page may be hot: more windows will tell",)


def test_a_hot_page_on_base_pages_is_no_trouble() -> None:
    process = cg()
    process.huge[:] = False
    process.node[:FOLD] = np.arange(FOLD) % NODES
    result = verdict(process, conjugate_gradient(process, 0))
    assert result.figures.now.imbalance == pytest.approx(0, abs=0.1)
    assert kinds(result) == []


def test_false_sharing_is_split_and_each_piece_moved_in_the_second_interval() -> None:
    process = ua()
    windows = blocks(process, 0)
    first = verdict(process, windows)
    assert first.figures.now.local_fraction == pytest.approx(0.63, abs=0.05)
    assert first.wants_split
    assert "split" not in kinds(first)
    second = verdict(process, windows, before=1)
    assert kinds(second) == ["stop_huge", "split"]
    action = second.actions[1]
    right = (action.pages - FIRST) // BLOCK % NODES == action.to
    assert right.mean() > 0.95


def test_huge_pages_that_everybody_reads_are_kept_and_interleaved() -> None:
    process = Process.of([0 if i % 16 < 4 else i % 4 for i in range(128)])
    result = verdict(process, graph(process, 0, rounds=4), before=5)
    assert not result.wants_split
    assert kinds(result) == ["interleave"]
    assert not len(result.actions[0].regions)
    assert (result.actions[0].pages % FOLD == 0).all()


def test_what_is_local_and_even_is_not_touched() -> None:
    process = Process.of([0, 0, 1, 1, 2, 2, 3, 3])
    result = verdict(process, parts(process, 0), before=5)
    assert result.figures.now.local_fraction == 1
    assert kinds(result) == []


def test_few_windows_of_one_node_are_no_imbalance() -> None:
    process = Process.of([0, 0, 1, 1, 2, 2, 3, 3])
    windows = [w for i, w in enumerate(parts(process, 0, rounds=3)) if w.node == 0 or i < 4]
    result = verdict(process, windows)
    assert result.figures.now.imbalance == pytest.approx(0, abs=0.02)
    assert kinds(result) == []


def test_pages_far_from_their_users_move_whole() -> None:
    process = Process.of([0, 0, 1, 1, 2, 2, 3, 3])
    result = verdict(process, parts(process, 0, shift=1), before=5)
    assert result.figures.now.local_fraction == 0
    assert kinds(result) == ["migrate"]
    assert len(result.actions[0].pages) == 8
    assert result.figures.moved_fraction == 1


@pytest.mark.parametrize("rounds", [2, 4])
def test_chance_is_no_reason_to_split(rounds: int) -> None:
    """Where everybody reads everywhere, few samples make each page look as if it had an owner."""
    process = Process.of([i % 4 for i in range(64)])
    evidence = process.evidence(graph(process, 0, rounds=rounds))
    assert there(evidence.score(np.asarray(evidence.accesses.argmax(axis=1))).local_fraction) > 0.5
    assert evidence.lar_split().least_gain < LIMITS.split_gain
    assert evidence.lar_split().value == pytest.approx(0.25, abs=0.08)


def test_what_is_not_enough_decides_nothing() -> None:
    process = ua()
    windows = blocks(process, 0)
    few = [process.window(0, i % NODES, np.array([i, i + 1])) for i in range(8)]
    for seen, reason in (
        (few, "16 accesses seen, 200 are needed"),
        (windows[:3], "3 windows seen, 4 are needed"),
        ([w for w in windows if w.node != 2], "no window yet of a thread on node 2"),
    ):
        result = verdict(process, seen, before=5)
        assert (result.enough, kinds(result), result.reasons) == (False, [], (reason,))


def test_a_slow_rate_is_no_reason_to_act() -> None:
    process = ua()
    assert kinds(verdict(process, blocks(process, 0), before=5, maptu=14.0)) == []
    assert "split" not in kinds(verdict(process, blocks(process, 0), before=5, maptu=89.0))
    assert kinds(verdict(process, blocks(process, 0), before=5, maptu=90.0))[-1] == "split"


def test_page_walks_promote() -> None:
    process = Process.of([0, 0, 1, 1, 2, 2, 3, 3], huge=False)
    windows = parts(process, 0, walks=0.08)
    assert walk_fraction(windows) == pytest.approx(0.08)
    least = least_walk_fraction(windows)
    regions = range(FIRST // FOLD, FIRST // FOLD + 8)
    known = {"least_walk_fraction": least, "promotable": tuple(regions)}
    result = verdict(process, windows, **known)
    assert kinds(result) == ["promote"]
    assert list(result.actions[0].regions) == list(regions)
    assert kinds(verdict(process, windows, huge_allowed=False, **known)) == [
        "allocate_huge", "promote",
    ]  # fmt: skip
    # What was split here is not made huge again by the other component.
    assert kinds(verdict(process, windows, kept_split=set(regions), **known)) == []


def test_few_page_walks_promote_nothing() -> None:
    process = Process.of([0, 1, 2, 3], huge=False)
    windows = parts(process, 0, walks=0.04)
    known = {"least_walk_fraction": least_walk_fraction(windows), "promotable": (FIRST // FOLD,)}
    assert kinds(verdict(process, windows, **known)) == []


@pytest.mark.parametrize(("share", "expected"), [(0.04, []), (0.05, ["allocate_huge"])])
def test_page_fault_time_forces_huge_allocation(share: float, expected: list[str]) -> None:
    process = Process.of([0, 1, 2, 3], huge=False)
    windows = parts(process, 0)
    assert kinds(verdict(process, windows, fault_fraction=share, huge_allowed=False)) == expected
    assert kinds(verdict(process, windows, fault_fraction=share, huge_allowed=True)) == []


def test_pages_that_are_not_in_memory_do_not_count() -> None:
    process = Process.of([0, 1, 2, 3])
    process.node[:FOLD] = -1
    evidence = process.evidence(parts(process, 0))
    assert evidence.samples == 900 * 6
    assert (evidence.node >= 0).all()


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
    undone = there(feedback.judge(Score(0.62, 0.1), 8, 110.0))
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
    seen: list[ThreadWindow] = []
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
        verdict = decide(evidence, WatchConditions(), LIMITS, feedback.wanted)
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
