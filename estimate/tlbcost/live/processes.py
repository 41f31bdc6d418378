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

from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.live.budget import Budget
from tlbcost.live.pages import Pages, pages_of
from tlbcost.system.machine import sys_path

# Every so many looks is at smaps, the others at smaps_rollup.
_FULL_EVERY = 8
# Or when memory changed by more than this part.
_CHANGED_FRACTION = 0.125
# What stays of the budget for pages when stat is read.
_FOR_PAGES_FRACTION = 0.5
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
    `unreadable`: this user may not read its pages. `faults_then`, `resident_then`: at the last
    look at its pages, and at the last one at smaps. `looks`: at its pages, so far.
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
    faults_then: int = 0
    resident_then: int = 0
    cost_s: float = _LEAST_COST_S
    looks: int = 0


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
        self._rollup = os.path.exists(f"{self._proc}/self/smaps_rollup")  # noqa: PTH110
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

    def refresh(self, budget: Budget) -> None:
        """Read what the budget allows: of faults the oldest first, of pages what changed most."""
        self._list()
        whole = budget.left_s()
        for name, process in sorted(self._known.items(), key=lambda item: item[1].seen_at):
            if budget.left_s() <= whole * _FOR_PAGES_FRACTION:
                break
            self._read_stat(name, process)
        now = time.monotonic()
        waiting = [(_urgency(each, now), each) for each in self.seen()]
        for urgency, process in sorted(waiting, key=lambda pair: pair[0], reverse=True):
            if budget.left_s() <= 0 or urgency <= 0:
                break
            self._look(process)

    def _list(self) -> None:
        """Who is there now."""
        now = time.monotonic()
        if now - self._forgot_at > _AGAIN_S:
            self._forgot_at = now
            self._without.clear()
            self._denied.clear()
        names = {name for name in os.listdir(self._proc) if name.isdecimal()}  # noqa: PTH208
        self._without &= names
        self._denied &= names
        known = self._known
        for gone in known.keys() - names:
            del known[gone]
        for new in names - known.keys() - self._without - self._denied:
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
            process.started, process.faults_then = started, faults
        else:
            process.fault_rate = (faults - process.faults) / (now - process.seen_at)
        process.name = head.partition(b"(")[2].decode(errors="surrogateescape")
        process.faults, process.seen_at = faults, now
        process.resident_bytes = int(fields[21]) * self._page_bytes

    def _look(self, process: Process) -> None:
        """Look at its pages."""
        folder = f"{self._proc}/{process.pid}"
        full = not self._rollup or self._grouped or _is_full_due(process)
        begin = time.process_time()
        try:
            if full:
                process.cgroup = _cgroup(_read_all(f"{folder}/cgroup"))
            text = _read_all(f"{folder}/{'smaps' if full else 'smaps_rollup'}")
        except (PermissionError, FileNotFoundError, ProcessLookupError) as error:
            if isinstance(error, PermissionError):
                process.unreadable, process.pages = True, None
                process.eligible_bytes = process.ineligible_bytes = None
                process.looked_at = process.eligible_at = time.monotonic()
            else:
                self._known.pop(str(process.pid), None)
            return
        if not text:
            self._known.pop(str(process.pid), None)
            return
        pages = pages_of(text, proportional=self._grouped)
        now = time.monotonic()
        process.pages, process.unreadable, process.looked_at = pages, False, now
        process.faults_then = process.faults
        process.looks += 1
        if full:
            left = None
            if pages.eligible_bytes is not None:
                left = max(pages.memory_bytes - pages.huge_bytes - pages.eligible_bytes, 0)
            process.eligible_bytes, process.ineligible_bytes = pages.eligible_bytes, left
            process.eligible_at, process.resident_then = now, process.resident_bytes
        process.cost_s = max(time.process_time() - begin, _LEAST_COST_S)


def _is_full_due(process: Process) -> bool:
    changed = abs(process.resident_bytes - process.resident_then)
    return process.looks % _FULL_EVERY == 0 or changed > _CHANGED_FRACTION * process.resident_then


def _urgency(process: Process, now: float) -> float:
    """The one with the highest number is looked at first; 0: not yet."""
    age = now - process.looked_at
    if process.unreadable:
        return age if age > _AGAIN_S else 0
    if process.pages is None:
        # The largest first, before all others.
        return 1e12 + process.resident_bytes
    faults = process.faults - process.faults_then
    return age * (1 + math.log2(1 + faults)) / process.cost_s


def _cgroup(text: bytes) -> str | None:
    """The path of the memory controller's group; with version 2, of the only one."""
    found = _CGROUP.findall(text)
    return found[0].decode(errors="surrogateescape") if found else None


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
