# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the watch do to the slides' patterns, as the kernel of four nodes sees it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

FOLD = 512
BLOCK = 448  # base pages: 1.75 MiB, as numa-blocks has them
NODES = 4

Step = Mapping[str, Any]


def taken(machine: Mapping[str, Step], name: str) -> Step:
    if name not in machine:
        pytest.skip(f"the step {name} was not taken: make check-numa")
    found = machine[name]
    assert "error" not in found, found["error"]
    return found


def step(machine: Mapping[str, Step], name: str) -> Step:
    found = taken(machine, name)
    assert found["code"] == 0, found["text"]
    assert found["after"]["alive"]
    return found


def kinds(found: Step) -> list[str]:
    return [each["kind"] for each in found["document"]["actions"]]


def judged(found: Step) -> list[Any]:
    """The figures of the intervals with enough evidence."""
    intervals = found["document"]["intervals"]
    return [each["figures"] for each in intervals if each["figures"]["moved_fraction"] is not None]


def spread(pages: Sequence[int]) -> Counter[int]:
    return Counter(node for node in pages if node >= 0)


def test_a_hot_page_is_split_and_interleaved(machine: Mapping[str, Step]) -> None:
    found = step(machine, "hot")
    assert len(spread(found["before"]["pages"][:FOLD])) == 1, "the vector is a huge page"
    assert kinds(found)[:2] == ["stop_huge", "split_hot"]
    # move_pages: the vector is the first huge page of the memory. Of its base pages, those with
    # zeros alone became the zero page when it was split (Linux 6.12), which is on no node.
    for count in spread(found["after"]["pages"][:FOLD]).values():
        assert FOLD // NODES - 8 <= count <= FOLD // NODES
    assert len(spread(found["after"]["pages"][:FOLD])) == NODES
    assert found["after"]["huge_kib"] == found["before"]["huge_kib"] - 2048
    figures = judged(found)
    assert figures[0]["now"]["imbalance"] > 0.35
    assert figures[-1]["now"]["imbalance"] < 0.15
    assert all(each["helped"] for each in found["document"]["effects"])
    # The allocation mode is put back.
    assert found["after"]["thp_enabled"] == 1


def test_it_takes_few_intervals_with_enough_evidence(machine: Mapping[str, Step]) -> None:
    found = step(machine, "hot")
    split = next(each for each in found["document"]["actions"] if each["kind"] == "split_hot")
    before = [
        each
        for each in found["document"]["intervals"]
        if each["figures"]["moved_fraction"] is not None and each["at_s"] < split["at_s"]
    ]
    assert len(before) <= 5


def test_false_sharing_is_split_and_its_pieces_moved(machine: Mapping[str, Step]) -> None:
    found = step(machine, "shared")
    assert "split" in kinds(found)
    figures = judged(found)
    assert figures[0]["now"]["local_fraction"] < 0.75
    assert figures[-1]["now"]["local_fraction"] > 0.8
    # numa-blocks: block i belongs to thread, and node, i modulo 4.
    pages = found["after"]["pages"][: 16 * BLOCK]
    right = sum(node == i // BLOCK % NODES for i, node in enumerate(pages))
    before = found["before"]["pages"][: 16 * BLOCK]
    assert right > sum(node == i // BLOCK % NODES for i, node in enumerate(before))
    assert found["after"]["huge_kib"] < found["before"]["huge_kib"]


def test_huge_pages_that_everybody_uses_are_kept(machine: Mapping[str, Step]) -> None:
    found = step(machine, "graph")
    assert not {"split", "split_hot", "stop_huge"} & set(kinds(found))
    assert found["after"]["huge_kib"] == found["before"]["huge_kib"]
    most = [max(spread(found[when]["pages"]).values()) for when in ("before", "after")]
    # But for a few pages of its own.
    assert most[1] < most[0] + 16


def unchanged(found: Step) -> bool:
    """But for a few pages of its own, such as of stacks."""
    before, after = found["before"], found["after"]
    maps = [Counter[str](state["numa_maps"]) for state in (before, after)]
    few = all(abs(maps[0][node] - maps[1][node]) < 16 for node in maps[0] | maps[1])
    moved = sum(a != b for a, b in zip(before["pages"], after["pages"], strict=True))
    same = all(before[key] == after[key] for key in ("huge_kib", "thp_enabled", "alive"))
    return few and moved < 16 and same


def test_what_has_no_trouble_is_not_touched(machine: Mapping[str, Step]) -> None:
    found = step(machine, "local")
    assert kinds(found) == []
    assert unchanged(found)
    assert judged(found), "there was evidence"


def test_without_apply_it_is_only_said(machine: Mapping[str, Step]) -> None:
    found = step(machine, "would")
    assert "split_hot" in kinds(found)
    assert all(each["would"] for each in found["document"]["actions"])
    assert unchanged(found)
    assert "would split hot huge pages" in found["text"]


def test_page_walks_promote_base_pages(machine: Mapping[str, Step]) -> None:
    found = step(machine, "base_pages")
    assert found["before"]["huge_kib"] == 0
    assert "promote" in kinds(found)
    assert found["after"]["huge_kib"] >= 16 << 10


def test_page_faults_get_huge_pages(machine: Mapping[str, Step]) -> None:
    found = step(machine, "faults")
    assert found["changed"] == 1
    assert found["before"]["huge_kib"] == 0
    (action,) = found["document"]["actions"]
    assert (action["kind"], action["failed"]) == ("allocate_huge", None)
    intervals = found["document"]["intervals"]
    # It ends the interval that it follows from.
    (decided, *after) = [each for each in intervals if each["at_s"] > action["at_s"]]
    assert decided["fault_fraction"] >= 0.05
    assert max(each["huge_bytes"] for each in after) >= 2 << 20
    # One huge page instead of 512; and the process's own switch is as it was.
    assert after[-1]["fault_fraction"] < decided["fault_fraction"] / 5
    assert found["before"]["thp_enabled"] == found["after"]["thp_enabled"] == 0


def test_one_that_changes_sides_is_followed_without_thrashing(machine: Mapping[str, Step]) -> None:
    found = step(machine, "turning")
    moves = [each for each in found["document"]["actions"] if each["moved_pages"]]
    assert len(moves) >= 2
    assert set(kinds(found)) == {"migrate"}
    assert found["after"]["huge_kib"] == found["before"]["huge_kib"]
    # Its huge pages are 16; no time of rest has more moves.
    rest = found["rest_s"]
    for first in moves:
        near = [each["moved_pages"] for each in moves if 0 <= each["at_s"] - first["at_s"] < rest]
        assert sum(near) <= 16 + NODES


def test_pages_that_cannot_move_are_counted_and_left_alone(machine: Mapping[str, Step]) -> None:
    found = taken(machine, "stuck")
    free, pinned, shared, zero = (range(at, at + 16) for at in (0, 16, 32, 48))
    assert [each["failed"] for each in found["tries"]] == [None] * 4
    assert [len(each["asked"]) for each in found["tries"]] == [64, 64, 16, 16]
    for each in found["tries"]:
        assert each["moved"] == list(free)
    for each in found["tries"][:2]:
        assert each["refused"]["Permission denied"] == len(shared)
        assert each["refused"]["Bad address"] == len(zero)
        assert sum(each["refused"].values()) == 48
    assert found["left_alone"] == 48
    assert {found["nodes"][at] for at in free} == {1}
    assert {found["nodes"][at] for at in (*pinned, *shared)} == {0}


@pytest.mark.parametrize("event", ["exit", "exec", "fork"])
@pytest.mark.parametrize("name", ["split", "move"])
def test_a_process_may_become_another_one_in_the_middle(
    machine: Mapping[str, Step], event: str, name: str
) -> None:
    found = taken(machine, "interrupted")
    assert not found["left"]
    each = found[f"{event} {name}"]
    assert each["stopped"] is None
    assert each["huge_before_kib"] == 16 << 10
    if event == "exit":
        assert not each["alive"]
        assert each["done_regions"] == (1 if name == "split" else 4)
        assert each["failed"] in ("the process has ended", "pages cannot be moved: No such process")
        return
    assert each["alive"]
    assert each["failed"] is None
    assert each["thp_enabled"] == 1
    if event == "exec":
        # The memory is gone.
        assert each["moved"] == 0
    else:
        # Both processes have the pages now, which stay; the others were where they should be.
        assert each["refused"] == {"Permission denied": 3 * FOLD}
        assert each["moved"] == FOLD
        # What the child inherited is put back, too.
        assert (each["child_before"], each["child_after"]) == (0, 1)


def test_a_killed_watch_leaves_the_process_and_its_allocation(machine: Mapping[str, Step]) -> None:
    found = taken(machine, "killed")
    assert found["killed"], found
    # Every other kill came after the watch had switched the allocation mode.
    assert found["awaited"] >= 3
    assert found["switched"] >= found["awaited"]
    assert not found["left"]
