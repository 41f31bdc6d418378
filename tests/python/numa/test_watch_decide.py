# SPDX-License-Identifier: GPL-2.0-or-later
"""What is decided about the slides' three patterns, and about processes without trouble?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders.numa_patterns import (
    BLOCK,
    FIRST,
    FOLD,
    NODES,
    Process,
    blocks,
    conjugate_gradient,
    graph,
    parts,
)
from tlbcost.numa.watch.decide import Conditions, Verdict, decide
from tlbcost.numa.watch.evidence import Window, least_walk_fraction, walk_fraction
from tlbcost.numa.watch.thresholds import Thresholds

LIMITS = Thresholds()


def verdict(
    process: Process, windows: list[Window], before: int = 0, **conditions: object
) -> Verdict:
    known = Conditions(**conditions)  # type: ignore[arg-type]
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
    few = [
        replace(each, at_s=at) for at, each in enumerate((windows[0], *windows[:2], *windows[2::2]))
    ]
    result = verdict(process, few)
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


def test_splitting_false_sharing_restores_local_accesses() -> None:
    process = ua()
    action = verdict(process, blocks(process, 0), before=1).actions[1]
    process.huge[:] = False
    process.node[action.pages - FIRST] = action.to
    local = verdict(process, blocks(process, 10)).figures.now.local_fraction
    assert local is not None
    assert local > 0.8


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
    naive = evidence.score(np.asarray(evidence.accesses.argmax(axis=1))).local_fraction
    assert naive is not None
    assert naive > 0.5
    assert evidence.lar_split().least_gain < LIMITS.split_gain
    assert evidence.lar_split().value == pytest.approx(0.25, abs=0.08)


def test_too_few_accesses_decide_nothing() -> None:
    process = ua()
    few = [process.window(0, i % NODES, np.array([i, i + 1])) for i in range(8)]
    result = verdict(process, few, before=5)
    assert not result.enough
    assert kinds(result) == []
    assert result.reasons == ("16 accesses seen, 200 are needed",)


def test_too_few_windows_decide_nothing() -> None:
    process = ua()
    result = verdict(process, blocks(process, 0)[:3], before=5)
    assert result.reasons == ("3 windows seen, 4 are needed",)


def test_a_node_without_a_window_is_waited_for() -> None:
    process = ua()
    windows = [w for w in blocks(process, 0) if w.node != 2]
    assert verdict(process, windows, before=5).reasons == ("no window yet of a thread on node 2",)


def test_a_slow_rate_is_no_reason_to_act() -> None:
    process = ua()
    result = verdict(process, blocks(process, 0), before=5, maptu=14.0)
    assert kinds(result) == []
    result = verdict(process, blocks(process, 0), before=5, maptu=89.0)
    assert "split" not in kinds(result)
    assert kinds(verdict(process, blocks(process, 0), before=5, maptu=90.0))[-1] == "split"


def test_page_walks_promote() -> None:
    process = Process.of([0, 0, 1, 1, 2, 2, 3, 3], huge=False)
    windows = parts(process, 0, walks=0.08)
    assert walk_fraction(windows) == pytest.approx(0.08)
    least = least_walk_fraction(windows)
    regions = np.arange(FIRST // FOLD, FIRST // FOLD + 8)
    result = verdict(process, windows, least_walk_fraction=least, promotable=tuple(regions))
    assert kinds(result) == ["promote"]
    assert list(result.actions[0].regions) == list(regions)
    known = {"least_walk_fraction": least, "promotable": tuple(regions)}
    assert kinds(verdict(process, windows, huge_allowed=False, **known)) == [
        "allocate_huge", "promote",
    ]  # fmt: skip
    # What was split here is not made huge again by the other component.
    kept = {int(region) for region in regions}
    assert kinds(verdict(process, windows, kept_split=kept, **known)) == []


def test_few_page_walks_promote_nothing() -> None:
    process = Process.of([0, 1, 2, 3], huge=False)
    windows = parts(process, 0, walks=0.04)
    regions = np.array([FIRST // FOLD])
    least = least_walk_fraction(windows)
    assert (
        kinds(verdict(process, windows, least_walk_fraction=least, promotable=tuple(regions))) == []
    )


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
