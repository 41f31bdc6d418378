# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of a live process's accesses: where they come from, and their cost.

Windows of copies: accesses beyond the modelled caches, of one thread each. Those of a PMU, of all
threads at once, are in pmu_samples.

AMD's instruction-based sampling says of each load and store where its data was, and has its
address; so does Intel's load latency event of older cores. The precise event of loads that missed
the last level, of Haswell and later, has the address. Sampled from user mode, by perf.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from tlbcost.common import formats, paths
from tlbcost.common.document import amount
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.formats import count, counts_in, read_table
from tlbcost.copies.run import refused, unavailable
from tlbcost.counters.count_tool import Target, watch
from tlbcost.counters.pmu import EventRequest, find_pmu
from tlbcost.counters.profile import is_from_memory, read_samples
from tlbcost.counters.recording import Pace, SamplingPlan, take_samples
from tlbcost.numa.placement import Ints
from tlbcost.numa.placement_table import LINE_BYTES, cache_within
from tlbcost.numa.watch.evidence import ThreadWindow
from tlbcost.numa.watch.process import Activity, node_of_cpus
from tlbcost.processors.events import Pmu, pmu_of
from tlbcost.system import hints
from tlbcost.system.machine import current_machine, read_line

_TOOL = "tlbcost-copies"
# CPU time of a page that is copied on write, as tlbcost-copies assumes it.
_FAULT_NS = 1200
_MOST_COPIES = 8
# So often the lines of the caches are filled before anything is counted.
_FILLS = 3
_MEASURED = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingCost:
    """What sampling cost the process so far."""

    windows: Annotated[
        int, amount("windows of copies; with a PMU, intervals of each thread and node")
    ] = 0
    paused_ns: Annotated[
        int, amount("time for which threads waited, each as much of it as it ran")
    ] = 0
    copied_pages: Annotated[int, amount("pages that were copied on write")] = 0
    samples: Annotated[int, amount("samples of a PMU")] = 0
    samples_ns: Annotated[
        int, amount("time that they took at most: the kernel's limit for each")
    ] = 0
    own_ns: Annotated[int, amount("CPU time of what takes and follows them")] = 0
    process_ns: Annotated[int, amount("CPU time of the process in all of that time")] = 0

    @property
    def spent_ns(self) -> int:
        return self.paused_ns + self.copied_pages * _FAULT_NS + self.samples_ns + self.own_ns

    @property
    def fraction(self) -> float | None:
        return self.spent_ns / self.process_ns if self.process_ns else None


def children_ns() -> int:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((spent.ru_utime + spent.ru_stime) * 1e9)


class Copies:
    """Windows of copies of its threads, as many as the overhead allows."""

    kind: Literal["copies", "ibs", "pebs"] = "copies"
    # Windows have no rate.
    dram_per_us: float | None = None

    def __init__(self, pid: int, caches: tuple[int, int], overhead: float) -> None:
        why = unavailable()
        if why is not None:
            hint = "tlbcost numa -- COMMAND simulates a program"
            why = f"no memory accesses can be sampled here: {why}"
            raise TlbcostError(why, hint, CANNOT_MEASURE)
        self._pid, self._overhead = pid, overhead
        levels = [cache_within(size) for size in caches]
        self._caches = ",".join(f"{size}:{ways}" for size, ways in levels)
        self._warm = _FILLS * sum(size for size, _ in levels) // LINE_BYTES
        self.cost = SamplingCost()
        self._rate = 0.0

    def sample(self, seconds: float, thread: int | None = None) -> list[ThreadWindow]:
        """Sample for so long, this thread or any: windows, whose node is not known yet.

        Raises TlbcostError, 4, if that is not possible here.
        """
        cost = self.cost
        # What may be spent in this interval, if the process continues as it did.
        coming = self._rate * seconds * 1e9
        left_ns = self._overhead * (cost.process_ns + coming) - cost.spent_ns
        if cost.windows:
            copies = int(min(max(left_ns / (cost.spent_ns / cost.windows), 0), _MOST_COPIES))
        else:
            copies = int(not cost.spent_ns or left_ns > 0)
        if not copies:
            time.sleep(seconds)
            return []
        before_ns = children_ns()
        with temporary_folder() as folder:
            self._run(folder, seconds, copies, thread)
            found, paused_ns, pages = _read(folder)
        self.cost = replace(
            self.cost,
            windows=self.cost.windows + len(found),
            paused_ns=self.cost.paused_ns + int(paused_ns * (self._rate or 1.0)),
            copied_pages=self.cost.copied_pages + pages,
            own_ns=self.cost.own_ns + children_ns() - before_ns,
        )
        return found

    def note(self, activity: Activity) -> None:
        self._rate = activity.spent_ns / 1e9 / activity.seconds if activity.seconds else 0.0
        self.cost = replace(self.cost, process_ns=self.cost.process_ns + activity.spent_ns)

    def _run(self, folder: Path, seconds: float, copies: int, thread: int | None) -> None:
        whole = max(round(seconds), 1)
        expected = max(int(self._rate * whole * 0.8e9), 50_000_000)
        words = [
            str(paths.libexec(_TOOL)), "--out", str(folder), "--pid", str(self._pid),
            "--seconds", str(whole), "--copies", str(copies), "--expected-cpu-ns", str(expected),
            "--workers", "1", "--hold", "--dram", self._caches, "--warm", str(self._warm),
            "--most-warm", str(self._warm), "--least-warm", "0", "--core-warm", "0",
            "--measure", str(_MEASURED), "--window-seconds", "2", "--record", "0",
        ]  # fmt: skip
        if thread is not None:
            words += ["--thread", str(thread)]
        try:
            done = subprocess.run(
                words, stderr=subprocess.PIPE, text=True, errors="replace", check=False
            )
        except OSError as error:
            raise hints.cannot_run(words[0], error) from error
        alive = Path(f"/proc/{self._pid}").exists()
        if done.returncode == CANNOT_MEASURE and not self.cost.windows and alive:
            raise refused(self._pid, folder)
        if done.returncode not in (0, CANNOT_MEASURE):
            why = done.stderr.strip() or f"exit code {done.returncode}"
            raise TlbcostError(f"{_TOOL}: {why}", None, TOOL_FAILED)


def _read(folder: Path) -> tuple[list[ThreadWindow], int, int]:
    """The windows, how long threads were paused, and pages copied; nothing of a process that ended
    before the tables were written.
    """
    if not (folder / "copies.tsv").exists():
        return [], 0, 0
    threads: dict[int, int] = {}
    paused = pages = 0
    for row in read_table(folder / "copies.tsv", formats.COPIES).records():
        if row["pause_ns"] is None:
            continue
        window, thread, pause = counts_in(row, "window", "tid", "pause_ns")
        threads[window] = thread
        paused += pause
        pages += count(row["added_faults"]) or 0
    misses: dict[int, tuple[int, int]] = {}
    for path in folder.glob("copy_caches.*.tsv"):
        for row in read_table(path, formats.COPY_CACHES).records():
            window, l2, walks = counts_in(row, "window", "l2_misses", "walk_l2_misses")
            misses[window] = l2, walks
    now = time.monotonic()
    found = []
    # A window is in one table.
    for path in folder.glob("copy_dram.*.tsv"):
        rows = read_table(path, formats.COPY_DRAM).rows
        # Tens of thousands each second.
        windows, page, accesses = np.array(rows, dtype=np.str_).reshape(-1, 3).astype(np.int64).T
        for window in np.unique(windows).tolist():
            l2, walks = misses.get(window, (0, 0))
            if window in threads and l2:
                own = windows == window
                found.append(
                    ThreadWindow(now, threads[window], -1, page[own], accesses[own], l2, walks)
                )
    return found, paused, pages


Kind = Literal["ibs", "pebs"]
# Each of its samples is of a load from memory.
_MISSES = "|".join(
    f"{event}:L3_MISS:precise=2" for event in ("MEM_LOAD_RETIRED", "MEM_LOAD_UOPS_RETIRED")
)
_LATENCY, _OPERATIONS = "sample_load_latency", "sample_load_misses"
# IBS counts operations, and not cycles, with this bit of its config.
_COUNTS_OPERATIONS = 1 << 19
# The kernel lowers the rate of samples so that no more of a CPU's time goes to them, in percent.
_KERNEL = "/proc/sys/kernel"
_SETTINGS = "perf_cpu_time_max_percent", "perf_event_max_sample_rate"
_PERCENT, _RATE = 25, 100_000
# Where sampling costs less than this part of what it may, the period becomes shorter.
_CHEAP = 0.25
# Long enough to be refused.
_FIRST_S = 0.01
# Columns of what was sampled.
_THREAD, _CPU, _PAGE, _WEIGHT = range(4)


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """What is sampled: `spec` for tlbcost-count --encode, and the period to begin with.

    `memory_only`: each sample is of an access to memory. `counts`: periods are of accesses, so that
    their rate is known.
    """

    kind: Kind
    spec: str
    period: int
    least_period: int
    memory_only: bool
    counts: bool


def memory_event(pmu: Pmu | None) -> MemoryEvent | None:
    """The event of a CPU whose samples say which memory was accessed; None: it has none."""
    if pmu is None:
        return None
    of_role = {event.role: event for event in pmu.events}
    operations, latency = of_role.get(_OPERATIONS), of_role.get(_LATENCY)
    if operations is not None and operations.type == "ibs_op":
        counts = bool((operations.code or 0) & _COUNTS_OPERATIONS)
        return MemoryEvent("ibs", operations.spec(), 1 << 20, 1 << 16, False, counts)
    if latency is not None and pmu.architecture == "x86_64":
        return MemoryEvent("pebs", latency.spec(), 20_011, 2_003, False, False)
    if operations is not None and ":precise" in (operations.string or ""):
        return MemoryEvent("pebs", _MISSES, 2_003, 101, True, True)
    return None


class PmuSamples:
    """Accesses of all threads that reached memory.

    `node_of_cpu`: empty if the nodes are assumed. `dram_per_us`: of the last interval; None: not
    known.
    """

    def __init__(
        self,
        pid: int,
        event: MemoryEvent,
        node_of_cpu: Mapping[int, int],
        overhead: float,
        page_bytes: int,
    ) -> None:
        self._pid, self._event, self._overhead = pid, event, overhead
        self._node_of_cpu, self._page_bytes = node_of_cpu, page_bytes
        self._period = event.period
        self._sample_ns = _most_ns()
        self.kind: Literal["copies", "ibs", "pebs"] = event.kind
        self.cost = SamplingCost()
        self.dram_per_us: float | None = None

    def sample(self, seconds: float, thread: int | None = None) -> list[ThreadWindow]:  # noqa: ARG002
        """Sample for so long: a window of each thread and node. Raises TlbcostError, 4, if this
        machine or the kernel refuses.
        """
        request = EventRequest("memory", None, "memory", self._event.spec)
        plan = SamplingPlan(
            (request,), "user", Pace(self._period), Target("process", self._pid), addresses=True
        )
        began_ns = children_ns()
        with temporary_folder() as folder:
            try:
                _, file, _ = take_samples(
                    plan, folder, lambda words: watch([*words, "--", "sleep", f"{seconds:.3f}"])
                )
            except TlbcostError:
                if not Path(f"/proc/{self._pid}").exists():
                    return []
                raise
            samples, _ = read_samples(file)
        # Thread, CPU, base page and weight of each.
        accesses = [
            (each.tid, -1 if each.cpu is None else each.cpu, each.address, each.weight)
            for each in samples
            if each.address is not None
            and (self._event.memory_only or (each.source and is_from_memory(each.source)))
        ]
        rows = np.array(accesses, dtype=np.int64).reshape(-1, 4)
        rows[:, _PAGE] //= self._page_bytes
        if self._event.counts:
            self.dram_per_us = float(rows[:, _WEIGHT].sum()) / 1e6 / seconds
        found = self._windows(rows)
        self.cost = replace(
            self.cost,
            windows=self.cost.windows + len(found),
            # Those without an address took their time, too.
            samples=self.cost.samples + len(samples),
            samples_ns=self.cost.samples_ns + int(len(samples) * self._sample_ns),
            own_ns=self.cost.own_ns + children_ns() - began_ns,
        )
        return found

    def note(self, activity: Activity) -> None:
        """What the process did in this interval; and how often it is sampled in the next one."""
        self.cost = replace(self.cost, process_ns=self.cost.process_ns + activity.spent_ns)
        fraction = self.cost.fraction
        if fraction is None:
            return
        if fraction > self._overhead:
            self._period *= 2
        elif fraction < _CHEAP * self._overhead:
            self._period = max(self._period // 2, self._event.least_period)

    def _windows(self, rows: Ints) -> list[ThreadWindow]:
        now = time.monotonic()
        nodes = [self._node_of_cpu.get(cpu, -1) for cpu in rows[:, _CPU].tolist()]
        node = np.array(nodes, np.int64)
        found = []
        for thread, of in np.unique(np.column_stack((rows[:, _THREAD], node)), axis=0).tolist():
            chosen = (rows[:, _THREAD] == thread) & (node == of)
            page, accesses = np.unique(rows[chosen, _PAGE], return_counts=True)
            found.append(ThreadWindow(now, thread, of, page, accesses.astype(np.int64)))
        return found


Source = Copies | PmuSamples


def pmu_samples(pid: int, overhead: float, page_bytes: int, *, assumed: bool) -> PmuSamples:
    """Raises TlbcostError, 4, if this PMU takes none. `assumed`: nodes are not of its CPUs."""
    event = memory_event(pmu_of(current_machine()))
    if event is None or find_pmu().answer == "absent":
        why = "the PMU of this machine does not sample memory accesses, or there is none"
        hint = "--samples copies samples windows of copies"
        raise TlbcostError(why, hint, CANNOT_MEASURE)
    nodes = {} if assumed else node_of_cpus()
    found = PmuSamples(pid, event, nodes, overhead, page_bytes)
    found.sample(_FIRST_S)
    return found


def _most_ns() -> float:
    """What a sample takes at most, on average: beyond that the kernel takes fewer."""
    percent, rate = _PERCENT, _RATE
    settings = [read_line(f"{_KERNEL}/{name}") or "" for name in _SETTINGS]
    if all(text.isdigit() for text in settings):
        percent, rate = map(int, settings)
    # 0 and 100 are no limit.
    return (percent if 0 < percent < 100 else _PERCENT) / 100 * 1e9 / max(rate, 1)
