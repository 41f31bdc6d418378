# SPDX-License-Identifier: GPL-2.0-or-later
"""Do samples of the kernel, and made-up ones, become windows of threads and nodes?"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.tree import there
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.profile import Sample
from tlbcost.numa.watch import sources
from tlbcost.numa.watch.process import Activity, LiveProcess, node_of_cpus
from tlbcost.numa.watch.sources import MemoryEvent, PmuSamples, memory_event
from tlbcost.processors.events import all_pmus, generic_pmu, load_pmu

PAGE = 4096
FAULTS = MemoryEvent("pebs", "perf::PAGE-FAULTS", 1, 1, memory_only=True, counts=True)
OPERATIONS = MemoryEvent("ibs", "none", 64, 16, memory_only=False, counts=True)
# Where its memory is; then it touches 64 pages anew, for ever.
SUBJECT = """
import ctypes, mmap
memory = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
while True:
    for at in range(0, 64 * 4096, 4096):
        memory[at] = 1
    memory.madvise(mmap.MADV_DONTNEED)
"""


@pytest.fixture
def subject() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that faults, and its first page."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    words = [sys.executable, "-c", SUBJECT]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, int(there(process.stdout).readline()) // PAGE
        finally:
            process.kill()


def test_samples_of_the_kernel_become_windows(subject: tuple[subprocess.Popen[str], int]) -> None:
    process, first = subject
    watched = LiveProcess(process.pid, None)
    source = PmuSamples(process.pid, FAULTS, node_of_cpus(), 0.03, PAGE)
    try:
        windows = source.sample(0.2)
    except TlbcostError as error:
        pytest.skip(f"this kernel samples no page faults: {error}")
    source.note(watched.look())
    assert {window.thread for window in windows} == {process.pid}
    assert {window.node for window in windows} <= set(node_of_cpus().values())
    pages = {int(page) for window in windows for page in window.pages}
    assert set(range(first, first + 64)) <= pages
    # It had interrupts for each of them, and not for so few.
    seen = sum(int(window.counts.sum()) for window in windows)
    assert source.cost.samples >= seen > 64
    assert source.cost.samples_ns > 0
    assert there(source.dram_per_us) > 0


def test_nodes_that_are_assumed_are_left_open(subject: tuple[subprocess.Popen[str], int]) -> None:
    process, _ = subject
    source = PmuSamples(process.pid, FAULTS, {}, 0.03, PAGE)
    try:
        windows = source.sample(0.1)
    except TlbcostError as error:
        pytest.skip(f"this kernel samples no page faults: {error}")
    assert {window.node for window in windows} == {-1}


def test_a_process_that_has_ended_has_none(subject: tuple[subprocess.Popen[str], int]) -> None:
    process, _ = subject
    process.kill()
    process.wait()
    assert PmuSamples(process.pid, FAULTS, {}, 0.03, PAGE).sample(0.0) == []


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> PmuSamples:
    """Five samples: two of a page in memory, one of a cache, one of another thread, one of none."""
    memory, cache = 0x80 << 5, 8 << 5

    def sample(tid: int, cpu: int, address: int | None, source: int) -> Sample:
        return Sample("memory", 1, tid, cpu, "user", None, None, address, None, source, 64)

    made = [
        sample(7, 0, 5 * PAGE, memory), sample(7, 1, 5 * PAGE + 8, memory),
        sample(7, 0, 6 * PAGE, cache), sample(8, 2, 9 * PAGE, memory), sample(8, 2, None, memory),
    ]  # fmt: skip
    monkeypatch.setattr(sources, "take_samples", lambda *_: (0, Path(), ()))
    monkeypatch.setattr(sources, "read_samples", lambda _: (made, 0))
    return PmuSamples(1, OPERATIONS, {0: 0, 1: 0, 2: 1}, 0.03, PAGE)


def test_what_caches_had_does_not_count(made_up: PmuSamples) -> None:
    found = made_up.sample(2.0)
    assert [(w.thread, w.node, w.pages.tolist(), w.counts.tolist()) for w in found] == [
        (7, 0, [5], [2]),
        (8, 1, [9], [1]),
    ]
    assert made_up.dram_per_us == pytest.approx(3 * 64 / 2e6)
    # Operations without memory were sampled, too.
    assert made_up.cost.samples == 5


def test_sampling_keeps_within_what_it_may_cost(made_up: PmuSamples) -> None:
    def period_after(process_ns: int) -> int:
        made_up.sample(1.0)
        made_up.note(Activity(1.0, {}, (), (process_ns,), 0))
        return made_up._period

    assert period_after(1000) == 128
    assert period_after(10**12) == 64
    assert [period_after(10**12) for _ in range(3)] == [32, 16, 16]


@pytest.mark.parametrize(
    ("pmu", "kind"),
    [("amd64_fam17h_zen2", "ibs"), ("snb", "pebs"), ("skx", "pebs"), ("hsw", "pebs")],
)
def test_cpus_have_an_event(pmu: str, kind: str) -> None:
    event = there(memory_event(load_pmu(pmu)))
    assert event.kind == kind
    assert event.memory_only == (pmu in ("skx", "hsw"))


def test_others_have_none() -> None:
    assert memory_event(None) is None
    assert memory_event(generic_pmu()) is None
    others = [pmu for pmu in all_pmus() if pmu.architecture != "x86_64"]
    assert others
    assert not [pmu.key for pmu in others if memory_event(pmu)]
