# SPDX-License-Identifier: GPL-2.0-or-later
"""Are pages of a live process split, moved and made huge as decided, and refusals counted?

On the node that there is: make check-numa has four.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from builders.memory import huge_kib
from builders.tree import TREE
from tlbcost.numa.watch.decide import Action
from tlbcost.numa.watch.process import ActionResult, Actor, LiveProcess
from tlbcost.settings.journal import read_journal

pytestmark = pytest.mark.settings

FOLD, PAGE = 512, 4096
NONE = np.zeros(0, dtype=np.int64)
# Eight MiB that ask for huge pages, and where the first whole one begins.
PROGRAM = """
import ctypes, mmap, sys
memory = mmap.mmap(-1, 10 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_HUGEPAGE)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
first = -(-start // (2 << 20)) * (2 << 20)
for at in range(first - start, first - start + (8 << 20), 4096):
    memory[at] = 1
print(first, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def program() -> Iterator[tuple[int, int]]:
    """Its pid, and the number of its first huge page."""
    if os.geteuid() != 0:
        pytest.skip("not root")
    if not (TREE / "build/libexec/tlbcost-thp").exists():
        pytest.skip("build/libexec/tlbcost-thp is not built")
    words = [sys.executable, "-c", PROGRAM]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            first = int(process.stdout.readline()) // (FOLD * PAGE)
            if huge_kib(process.pid) < 8 << 10:
                pytest.skip("no transparent huge pages")
            yield process.pid, first
        finally:
            process.kill()


def until_kib(actor: Actor, action: Action, pid: int, huge: int) -> ActionResult:
    """Again, if the kernel held a page for a moment, or khugepaged has undone a split."""
    for _ in range(100):
        outcome = actor.do(action)
        if huge_kib(pid) == huge:
            return outcome
    return pytest.fail(f"{huge_kib(pid)} KiB on huge pages, not {huge}")


def test_a_huge_page_is_split_and_made_again(program: tuple[int, int]) -> None:
    pid, first = program
    actor = Actor(LiveProcess(pid, 2), FOLD, PAGE)
    before = huge_kib(pid)
    pages = first * FOLD + np.arange(3)
    asked = Action("split", "", pages, np.zeros_like(pages), np.array([first]))
    split = until_kib(actor, asked, pid, before - 2048)
    assert (split.done_regions, split.moved, split.stuck) == (1, pages.tolist(), [])
    assert split.ns > 0
    joined = until_kib(actor, Action("promote", "", NONE, NONE, np.array([first])), pid, before)
    assert (joined.done_regions, joined.stuck_regions) == (1, [])


def test_what_cannot_be_done_is_counted(program: tuple[int, int]) -> None:
    pid, first = program
    actor = Actor(LiveProcess(pid, 2), FOLD, PAGE)
    # Nothing is mapped there.
    outcome = actor.do(Action("promote", "", NONE, NONE, np.array([1])))
    assert (outcome.done_regions, outcome.stuck_regions) == (0, [1])
    assert sum(outcome.refused.values()) == 1
    # A page that is not in memory is neither moved nor refused; a node that is not there fails.
    gone = actor.do(Action("migrate", "", np.array([1]), np.array([0]), NONE))
    assert (gone.moved, gone.failed) == ([], None)
    wrong = actor.do(Action("migrate", "", np.array([first * FOLD]), np.array([63]), NONE))
    assert wrong.failed is not None
    assert wrong.failed.startswith("pages cannot be moved: ")


def test_allocation_is_stopped_and_put_back(program: tuple[int, int]) -> None:
    pid, _ = program
    process = LiveProcess(pid, 2)
    actor = Actor(process, FOLD, PAGE)
    assert actor.do(Action("stop_huge", "", NONE, NONE, NONE)).failed is None
    assert process.huge_allowed() is False
    assert [change.path for change in read_journal() if change.kind == "thp"] == [
        f"{pid} {process.started}"
    ]
    actor.put_back()
    assert process.huge_allowed() is True
    assert not [change for change in read_journal() if change.kind == "thp"]


def test_a_process_that_ended_is_said(program: tuple[int, int]) -> None:
    pid, first = program
    actor = Actor(LiveProcess(pid, 2), FOLD, PAGE)
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    outcome = actor.do(Action("split", "", NONE, NONE, np.array([first])))
    assert outcome.failed == "the process has ended" or outcome.stuck_regions == [first]
    assert actor.do(Action("migrate", "", np.array([first * FOLD]), np.array([0]), NONE)).failed
