# SPDX-License-Identifier: GPL-2.0-or-later
"""Do windows of copies see the accesses of a live process, and do its huge pages stay whole?"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from builders.tree import TREE
from tlbcost.common.errors import TlbcostError
from tlbcost.copies.run import unavailable
from tlbcost.numa.watch.evidence import pages_of, walk_fraction
from tlbcost.numa.watch.process import Process, huge_regions, nodes_of, promotable
from tlbcost.numa.watch.sources import Copies, Cost
from tlbcost.system.tracing import tracing_rights

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


def huge_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return sum(int(each) for each in re.findall(r"^AnonHugePages:\s+(\d+)", text, re.MULTILINE))


def test_windows_see_accesses_and_leave_huge_pages_whole(blocks: subprocess.Popen[bytes]) -> None:
    done = subprocess.run([THP, "--pid", str(blocks.pid)], check=False)
    if done.returncode or huge_kib(blocks.pid) < 16 << 10:
        pytest.skip("no transparent huge pages")
    process, source = Process(blocks.pid, 2), Copies(blocks.pid, CACHES, 1.0)
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
    assert huge_kib(blocks.pid) == 16 << 10
    assert huge_regions(process, page[inside], FOLD, PAGE).all()
    assert (nodes_of(process, page[inside], PAGE) == 0).all()
    assert promotable(memory, page[inside] // FOLD, FOLD * PAGE)
    walks = walk_fraction(windows)
    assert walks is not None
    assert 0 <= walks < 0.5
    assert source.cost.windows == len(windows)
    assert source.cost.paused_ns > 0


def test_what_would_cost_too_much_is_left_out() -> None:
    if unavailable():
        pytest.skip(str(unavailable()))
    source = Copies(1, CACHES, 0.03)
    source.cost = Cost(windows=1, own_ns=4, process_ns=100)
    assert source.sample(0.0) == []
    assert source.cost.fraction == 0.04


def test_a_process_that_is_gone_is_named() -> None:
    with pytest.raises(TlbcostError, match="there is no process"):
        Process(2**22 + 1, None)


def test_a_process_that_ends_is_noticed(blocks: subprocess.Popen[bytes]) -> None:
    process = Process(blocks.pid, 2)
    assert process.gone() is None
    blocks.kill()
    blocks.wait()
    assert process.gone() == "the process has ended"
