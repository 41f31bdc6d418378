# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of a PMU: which pages do all threads of a live process access beyond the caches?

AMD's instruction-based sampling says of each load and store where its data was, and has its
address; so does Intel's load latency event of older cores. The precise event of loads that missed
the last level, of Haswell and later, has the address. Sampled from user mode, by perf.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.counters.count_tool import Target, watch
from tlbcost.counters.pmu import EventRequest, find_pmu
from tlbcost.counters.profile import Sample, is_from_memory, read_samples
from tlbcost.counters.recording import Pace, SamplingPlan, take_samples
from tlbcost.numa.accesses import Ints
from tlbcost.numa.watch.evidence import ThreadWindow
from tlbcost.numa.watch.process import Activity, node_of_cpus
from tlbcost.numa.watch.sources import SamplingCost, children_ns
from tlbcost.processors.events import Pmu, pmu_of
from tlbcost.system.machine import current_machine, read_line

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
        rows = self._memory_accesses(samples)
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

    def _memory_accesses(self, samples: list[Sample]) -> Ints:
        """Thread, CPU, base page and weight of each."""
        found = [
            (each.tid, -1 if each.cpu is None else each.cpu, each.address, each.weight)
            for each in samples
            if each.address is not None
            and (self._event.memory_only or (each.source and is_from_memory(each.source)))
        ]
        rows = np.array(found, dtype=np.int64).reshape(-1, 4)
        rows[:, _PAGE] //= self._page_bytes
        return rows

    def _windows(self, rows: Ints) -> list[ThreadWindow]:
        now = time.monotonic()
        node = np.array(
            [self._node_of_cpu.get(cpu, -1) for cpu in rows[:, _CPU].tolist()], np.int64
        )
        found = []
        for thread, of in np.unique(np.column_stack((rows[:, _THREAD], node)), axis=0).tolist():
            chosen = (rows[:, _THREAD] == thread) & (node == of)
            page, accesses = np.unique(rows[chosen, _PAGE], return_counts=True)
            found.append(ThreadWindow(now, thread, of, page, accesses.astype(np.int64)))
        return found


def pmu_samples(pid: int, overhead: float, page_bytes: int, *, assumed: bool) -> PmuSamples:
    """Raises TlbcostError, 4, if this PMU takes none. `assumed`: nodes are not of its CPUs."""
    event = memory_event(pmu_of(current_machine()))
    if event is None or find_pmu().answer == "absent":
        raise TlbcostError(
            "the PMU of this machine does not sample memory accesses, or there is none",
            "--samples copies samples windows of copies",
            CANNOT_MEASURE,
        )
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
