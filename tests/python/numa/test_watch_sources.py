# SPDX-License-Identifier: GPL-2.0-or-later
"""Do windows of copies see a live process, and is it known where each page is and went?"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import subprocess
import time
from collections.abc import Iterator, MutableSequence, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from builders.memory import huge_kib
from builders.tree import TREE, there
from tlbcost.common.errors import TlbcostError
from tlbcost.copies.run import unavailable
from tlbcost.numa.watch import kernel, process
from tlbcost.numa.watch.decide import Action, Kind
from tlbcost.numa.watch.evidence import ThreadWindow, pages_of, walk_fraction
from tlbcost.numa.watch.process import (
    AssumedPlaces,
    LiveProcess,
    huge_regions,
    nodes_of,
    promotable,
)
from tlbcost.numa.watch.sources import Copies, SamplingCost
from tlbcost.system.process import tracing_rights

BLOCKS = TREE / "build/workloads/numa-blocks"
THP = TREE / "build/libexec/tlbcost-thp"
FOLD, PAGE = 512, 4096
CACHES = 256 << 10, 0


@pytest.fixture
def blocks() -> Iterator[subprocess.Popen[bytes]]:
    """Two threads that read 16 MiB, half of it each."""
    if unavailable() or not BLOCKS.exists():
        pytest.skip(unavailable() or "build/workloads is not built")
    if tracing_rights().traceable == "none" or os.geteuid() != 0:
        pytest.skip("not root")
    words = [BLOCKS, "--threads", "2", "--block", "8M", "--blocks", "2", "--count", "100G"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            while resident(process.pid) < 16 << 20 and process.poll() is None:
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def resident(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"^VmRSS:\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def test_windows_see_accesses_and_leave_huge_pages_whole(blocks: subprocess.Popen[bytes]) -> None:
    done = subprocess.run([THP, "--pid", str(blocks.pid)], check=False)
    # More than these where other tests have them always on for a while.
    huge = huge_kib(blocks.pid)
    if done.returncode or huge < 16 << 10:
        pytest.skip("no transparent huge pages")
    process, source = LiveProcess(blocks.pid, 2), Copies(blocks.pid, CACHES, 1.0)
    windows = []
    for _ in range(100):
        windows += source.sample(0.5)
        source.note(process.look())
        if len({window.thread for window in windows}) == 2:
            break
    if len(windows) < 2:
        pytest.skip("no CPU was free for a copy")
    page = pages_of(windows)
    memory = [m for m in process.mappings() if m.size_bytes >= 16 << 20 and m.kind == "anonymous"]
    inside = np.zeros(len(page), dtype=bool)
    for each in memory:
        inside |= (page * PAGE >= each.start) & (page * PAGE < each.end)
    # The rest is the stacks'.
    assert inside.mean() > 0.99
    assert huge_kib(blocks.pid) >= huge
    assert huge_regions(process, page[inside], FOLD, PAGE).all()
    assert (nodes_of(process, page[inside], PAGE) == 0).all()
    assert promotable(memory, page[inside] // FOLD, FOLD * PAGE)
    assert 0 <= there(walk_fraction(windows)) < 0.5
    assert source.cost.windows == len(windows)
    assert source.cost.paused_ns > 0


def test_what_would_cost_too_much_is_left_out() -> None:
    if unavailable():
        pytest.skip(str(unavailable()))
    source = Copies(1, CACHES, 0.03)
    source.cost = SamplingCost(windows=1, own_ns=4, process_ns=100)
    assert source.sample(0.0) == []
    assert source.cost.fraction == 0.04


def test_a_process_that_is_gone_is_named() -> None:
    with pytest.raises(TlbcostError, match="there is no process"):
        LiveProcess(2**22 + 1, None)


def test_a_process_that_ends_is_noticed(blocks: subprocess.Popen[bytes]) -> None:
    process = LiveProcess(blocks.pid, 2)
    assert process.gone() is None
    blocks.kill()
    blocks.wait()
    assert process.gone() == "the process has ended"


HELD = {3 << 12, 4 << 12, 9 << 12}
ABSENT = 7 << 12


class Kernel:
    """As Linux 6.12: where a page is held, the pages before it moved, and nothing is said."""

    def __init__(self) -> None:
        self.calls = 0

    def syscall(
        self, _: object, __: object, n: ctypes.c_ulong, pages: Sequence[int],
        nodes: Sequence[int], status: MutableSequence[int], ___: object,
    ) -> int:  # fmt: skip
        self.calls += 1
        for i in range(n.value):
            if pages[i] in HELD:
                return n.value - i
        for i in range(n.value):
            status[i] = -errno.ENOENT if pages[i] == ABSENT else nodes[i]
        return 0


def test_each_page_has_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Kernel()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: fake)
    pages = [number << 12 for number in range(12)]
    found = kernel.move(1, pages, [2] * 12)
    for page, now in zip(pages, found, strict=True):
        expected = -errno.EBUSY if page in HELD else -errno.ENOENT if page == ABSENT else 2
        assert now == expected
    assert fake.calls < 24


def test_what_cannot_be_moved_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses:
        def syscall(self, *_: object) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refuses())
    with pytest.raises(PermissionError):
        kernel.move(1, [4096], [0])


# A huge page that node 1 uses most, another one of node 2, and a base page of node 3.
PAGES = np.array([0, 1, 511, 512, 4096])


@pytest.fixture
def assumed(monkeypatch: pytest.MonkeyPatch) -> AssumedPlaces:
    monkeypatch.setattr(process, "nodes_of", lambda _, page, __: np.zeros_like(page))
    monkeypatch.setattr(process, "huge_regions", lambda _, page, fold, __: page < 2 * fold)
    return AssumedPlaces(SimpleNamespace(nodes=4), FOLD, 4096)  # type: ignore[arg-type]


def nodes(of: AssumedPlaces) -> list[int]:
    seen = [(0, [0], [3]), (1, [1, 511], [2, 2]), (2, [512], [1]), (3, [4096], [1])]
    windows = [
        ThreadWindow(0.0, node, node, np.array(pages), np.array(counts))
        for node, pages, counts in seen
    ]
    node, huge = of.find(windows, PAGES)
    assert [page // FOLD in of.split or page == 4096 for page in PAGES] == [not h for h in huge]
    return [int(each) for each in node]


def action(kind: Kind, pages: list[int], to: list[int], regions: list[int]) -> Action:
    return Action(kind, "", np.array(pages), np.array(to), np.array(regions, dtype=np.int64))


SPLIT, JOINED = action("split", [0], [0], [0]), action("promote", [], [], [0])


@pytest.mark.parametrize(
    ("supposed", "expected"),
    [((), [1, 1, 1, 2, 3]), ((action("migrate", [0, 4096], [2, 0], []),), [2, 2, 2, 2, 0]),
     ((SPLIT,), [0, 1, 1, 2, 3]), ((SPLIT, JOINED), [1, 1, 1, 2, 3])],
    ids=["used most", "moved whole", "pieces move alone and the rest stays", "huge again is whole"],
)  # fmt: skip
def test_where_pages_are_supposed_to_be(
    assumed: AssumedPlaces, supposed: tuple[Action, ...], expected: list[int]
) -> None:
    for each in supposed:
        assumed.suppose(each)
    assert nodes(assumed) == expected


def test_no_windows_have_no_pages(assumed: AssumedPlaces) -> None:
    node, huge = assumed.find([], np.zeros(0, dtype=np.int64))
    assert len(node) == len(huge) == 0
