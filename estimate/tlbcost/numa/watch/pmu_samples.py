# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of a PMU: which pages do all threads of a live process access beyond the caches?

AMD's instruction-based sampling says of each load and store where its data was, and has its
address; so does Intel's load latency event of older cores. The precise event of loads that missed
the last level, of Haswell and later, has the address. Sampled from user mode, by tlbcost-record.
"""

from __future__ import annotations

import errno
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tlbcost.common import formats, paths
from tlbcost.common.causes import tool_error
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.table import Table, counts_in, read_table, required_count
from tlbcost.common.temporary import temporary_folder
from tlbcost.counters.diagnosis import diagnose
from tlbcost.counters.hits import sampled_events
from tlbcost.counters.pmu import find_pmu
from tlbcost.numa.accesses import Ints
from tlbcost.numa.watch.evidence import Window
from tlbcost.numa.watch.process import Activity, node_of_cpus
from tlbcost.numa.watch.sources import Cost, children_ns
from tlbcost.processors.event_tables import pmu_of
from tlbcost.processors.events import Pmu
from tlbcost.system import hints
from tlbcost.system.machine import current_machine, read_line

Kind = Literal["ibs", "pebs"]
# Each of its samples is of a load from memory.
_MISSES = "|".join(
    f"{event}:L3_MISS:precise=2" for event in ("MEM_LOAD_RETIRED", "MEM_LOAD_UOPS_RETIRED")
)
_LATENCY, _OPERATIONS = "sample_load_latency", "sample_load_misses"
# IBS counts operations, and not cycles, with this bit of its config.
_COUNTS_OPERATIONS = 1 << 19
_TOOL = "tlbcost-record"
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
    """What is sampled: `spec` for tlbcost-record, and the period to begin with.

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
        self.cost = Cost()
        self.dram_per_us: float | None = None

    def sample(self, seconds: float, thread: int | None = None) -> list[Window]:  # noqa: ARG002
        """Sample for so long: a window of each thread and node. Raises TlbcostError, 4, if this
        machine or the kernel refuses.
        """
        with temporary_folder() as folder:
            table, own_ns = self._run(folder, seconds)
        if table is None:
            return []
        (event,) = sampled_events(table)
        if event.error == errno.ESRCH:
            return []
        if event.state != "counted":
            raise diagnose([event.refusal()], "process", "user", self._pid)
        rows = self._memory_accesses(table)
        if self._event.counts:
            self.dram_per_us = float(rows[:, _WEIGHT].sum()) / 1e6 / seconds
        found = self._windows(rows)
        # Those without an address have no row, and took their time.
        taken = required_count(table.key("samples"))
        self.cost = replace(
            self.cost,
            windows=self.cost.windows + len(found),
            samples=self.cost.samples + taken,
            samples_ns=self.cost.samples_ns + int(taken * self._sample_ns),
            own_ns=self.cost.own_ns + own_ns,
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

    def _run(self, folder: Path, seconds: float) -> tuple[Table | None, int]:
        """None: the process ended."""
        path = folder / "accesses.tsv"
        words = [
            str(paths.libexec(_TOOL)), "--quiet", "--accesses", "--user-only",
            "--pid", str(self._pid), "--event", f"memory={self._event.spec}",
            "--period", str(self._period), "--output", str(path), "--", "sleep", f"{seconds:.3f}",
        ]  # fmt: skip
        began_ns = children_ns()
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
            )
        except OSError as error:
            raise hints.cannot_run(words[0], error) from error
        own_ns = children_ns() - began_ns
        if path.exists():
            return read_table(path, formats.ACCESSES), own_ns
        if not Path(f"/proc/{self._pid}").exists():
            return None, own_ns
        raise tool_error("cannot sample memory accesses", _TOOL, done.returncode, folder)

    def _memory_accesses(self, table: Table) -> Ints:
        """Thread, CPU, base page and weight of each."""
        found = [
            counts_in(row, "tid", "cpu", "address", "weight")
            for row in table.records()
            if self._event.memory_only or row["level"] == "memory"
        ]
        rows = np.array(found, dtype=np.int64).reshape(-1, 4)
        rows[:, _PAGE] //= self._page_bytes
        return rows

    def _windows(self, rows: Ints) -> list[Window]:
        now = time.monotonic()
        node = np.array(
            [self._node_of_cpu.get(cpu, -1) for cpu in rows[:, _CPU].tolist()], np.int64
        )
        found = []
        for thread, of in np.unique(np.column_stack((rows[:, _THREAD], node)), axis=0).tolist():
            chosen = (rows[:, _THREAD] == thread) & (node == of)
            page, accesses = np.unique(rows[chosen, _PAGE], return_counts=True)
            found.append(Window(now, thread, of, page, accesses.astype(np.int64)))
        return found


def pmu_samples(pid: int, overhead: float, page_bytes: int, *, assumed: bool) -> PmuSamples:
    """Those of this machine's PMU, after a first try. Raises TlbcostError, 4, if it has none.

    `assumed`: nodes are not those of its CPUs.
    """
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
