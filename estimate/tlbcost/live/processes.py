# SPDX-License-Identifier: GPL-2.0-or-later
"""Which processes are there, how often do they fault, and which pages are they on?

stat is read often. smaps_rollup, and smaps, which alone says what is eligible, are read as the
budget allows: the kernel goes through a process's page tables for them.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Collection
from dataclasses import dataclass

from tlbcost.common import names
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.live.budget import Budget
from tlbcost.live.pages import PARTS, Pages, pages_of, rolled_up
from tlbcost.system.machine import sys_path

# What smaps takes, in times of smaps_rollup, before it was read: the kernel writes every mapping.
_FULL_COST = 6.0
# What is eligible was read this long before a process was first seen, in comparison.
_HEAD_START_S = 300.0
# What had no memory or could not be read is tried again after this long: a thread of the kernel may
# execute a program.
_AGAIN_S = 60.0
_CHUNK = 1 << 20
_LEAST_COST_S = 1e-5
# memory: of cgroups version 1; nothing: version 2.
_CGROUP = re.compile(rb"^\d+:(?:(?:\S*,)?memory(?:,\S*)?|):(.*)$", re.MULTILINE)


@dataclass(slots=True)
class Process:
    """One process as it was last seen. None: not (yet) known.

    `*_at`: when stat, any pages and those that are eligible were read, by the monotonic clock.
    `unreadable`: this user may not read its pages. `faults_then`, `full_faults_then`: when its
    pages, and when smaps was read. `cost_s`, `full_cost_s`: CPU time that took.
    """

    pid: int
    started: int = -1
    name: str = ""
    cgroup: str | None = None
    resident_bytes: int = 0
    faults: int = 0
    fault_rate: float | None = None
    seen_at: float = -math.inf
    pages: Pages | None = None
    looked_at: float = -math.inf
    unreadable: bool = False
    eligible_bytes: int | None = None
    ineligible_bytes: int | None = None
    eligible_at: float = -math.inf
    first_at: float = 0.0
    faults_then: int = 0
    full_faults_then: int = 0
    cost_s: float = _LEAST_COST_S
    full_cost_s: float | None = None


class Processes:
    """The processes of this host that have memory.

    `grouped`: their figures are to be added up, so that pages of several count once.
    """

    def __init__(self, *, grouped: bool) -> None:
        self._proc = str(sys_path("/proc"))
        self._grouped = grouped
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._known: dict[str, Process] = {}
        self._without: set[str] = set()
        self._denied: set[str] = set()
        self._forgot_at = time.monotonic()
        self._rollup = _has_rollup(self._proc, grouped=grouped)
        if not os.path.exists(f"{self._proc}/self/smaps"):  # noqa: PTH110
            raise TlbcostError(
                "this kernel does not report the pages of processes: it has no /proc/self/smaps "
                "(CONFIG_PROC_PAGE_MONITOR)",
                None,
                CANNOT_MEASURE,
            )

    def seen(self) -> Collection[Process]:
        """Those whose memory is known."""
        return [each for each in self._known.values() if each.started >= 0]

    @property
    def unreadable(self) -> int:
        """Processes of which this user may not read everything."""
        return len(self._denied) + sum(each.unreadable for each in self._known.values())

    def refresh_faults(self, budget: Budget) -> None:
        """The processes, with as many stat files read as the budget allows, the oldest first."""
        self._list()
        for name, process in sorted(self._known.items(), key=lambda item: item[1].seen_at):
            if budget.left_s() <= 0:
                break
            self._read_stat(name, process)

    def refresh_pages(self, budget: Budget) -> None:
        """Read what the budget allows of pages, first what is likely to have changed most."""
        if budget.left_s() <= 0:
            return
        now = time.monotonic()
        waiting = [each for process in self.seen() for each in self._urgencies(process, now)]
        for urgency, full, process in sorted(waiting, key=lambda each: each[0], reverse=True):
            if budget.left_s() <= 0 or urgency <= 0:
                break
            self._look(process, full=full)

    def _urgencies(self, process: Process, now: float) -> list[tuple[float, bool, Process]]:
        """How much a look at its pages, and one at smaps, would give for its CPU time."""
        if process.unreadable:
            age = now - process.looked_at
            return [(age if age > _AGAIN_S else 0.0, False, process)]
        full_cost = process.full_cost_s or _FULL_COST * process.cost_s
        since = max(process.eligible_at, process.first_at - _HEAD_START_S)
        found = [
            (_worth(process, now - since, process.full_faults_then) / full_cost, True, process)
        ]
        if process.pages is None:
            # The largest first, before all others.
            found.append((1e12 + process.resident_bytes, not self._rollup, process))
        elif self._rollup:
            age = now - process.looked_at
            found.append(
                (_worth(process, age, process.faults_then) / process.cost_s, False, process)
            )
        return found

    def _list(self) -> None:
        """The processes that exist now."""
        now = time.monotonic()
        if now - self._forgot_at > _AGAIN_S:
            self._forgot_at = now
            self._without.clear()
            self._denied.clear()
        there = {name for name in os.listdir(self._proc) if name.isdecimal()}  # noqa: PTH208
        self._without &= there
        self._denied &= there
        known = self._known
        for gone in known.keys() - there:
            del known[gone]
        for new in there - known.keys() - self._without - self._denied:
            known[new] = Process(int(new))

    def _read_stat(self, name: str, process: Process) -> None:
        try:
            text = _read(f"{self._proc}/{name}/stat", 4096)
        except PermissionError:
            self._denied.add(name)
            del self._known[name]
            return
        except OSError:
            del self._known[name]
            return
        now = time.monotonic()
        # The name, in parentheses, may hold anything.
        head, _, tail = text.rpartition(b")")
        fields = tail.split(None, 22)
        if len(fields) < 22 or fields[20] == b"0":
            # A thread of the kernel, or a process that has ended.
            self._without.add(name)
            del self._known[name]
            return
        started, faults = int(fields[19]), int(fields[7]) + int(fields[9])
        if process.started != started:
            if process.started >= 0:
                process = self._known[name] = Process(int(name))
            process.started, process.first_at = started, now
            process.faults_then = process.full_faults_then = faults
        else:
            process.fault_rate = (faults - process.faults) / (now - process.seen_at)
        process.name = names.shown(head.partition(b"(")[2].decode(errors="surrogateescape"))
        process.faults, process.seen_at = faults, now
        process.resident_bytes = int(fields[21]) * self._page_bytes

    def _look(self, process: Process, *, full: bool) -> None:
        """Read its pages: `full`: from smaps."""
        begin = time.process_time()
        try:
            text = self._text(process, full=full)
        except PermissionError:
            process.unreadable, process.pages = True, None
            process.eligible_bytes = process.ineligible_bytes = None
            process.looked_at = time.monotonic()
            return
        except OSError:
            text = b""
        if not text:
            # It has ended.
            self._known.pop(str(process.pid), None)
            return
        read = pages_of if full else rolled_up
        pages = read(text, proportional=self._grouped)
        process.pages, process.unreadable = pages, False
        process.looked_at, process.faults_then = time.monotonic(), process.faults
        used = max(time.process_time() - begin, _LEAST_COST_S)
        if not full:
            process.cost_s = used
            if self._grouped and pages.shared_hugetlb:
                # Which file these are of, only smaps says.
                self._look(process, full=True)
            return
        process.full_cost_s, process.full_faults_then = used, process.faults
        process.eligible_bytes, process.eligible_at = pages.eligible_bytes, process.looked_at
        process.ineligible_bytes = None
        if pages.eligible_bytes is not None:
            left = pages.memory_bytes - pages.huge_bytes - pages.eligible_bytes
            process.ineligible_bytes = max(left, 0)

    def _text(self, process: Process, *, full: bool) -> bytes:
        folder = f"{self._proc}/{process.pid}"
        if full or process.pages is None:
            process.cgroup = _cgroup(_read_all(f"{folder}/cgroup"))
        return _read_all(f"{folder}/{'smaps' if full else 'smaps_rollup'}")


def _has_rollup(proc: str, *, grouped: bool) -> bool:
    """Whether smaps_rollup is there; for groups, with the parts of Pss."""
    try:
        text = _read_all(f"{proc}/self/smaps_rollup")
    except OSError:
        return False
    return not grouped or all(part in text for part in PARTS)


def _worth(process: Process, age: float, faults_then: int) -> float:
    """What it is worth to look: large processes, and those that faulted since, change most."""
    size = math.log2(2 + process.resident_bytes / (1 << 20))
    return age * size * (1 + math.log2(1 + max(process.faults - faults_then, 0)))


def _cgroup(text: bytes) -> str | None:
    """The path of the memory controller's group; with version 2, of the only one."""
    found = _CGROUP.findall(text)
    return names.shown(found[0].decode(errors="surrogateescape")) if found else None


def _read(path: str, most: int) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, most)
    finally:
        os.close(file)


def _read_all(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)
