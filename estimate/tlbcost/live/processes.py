# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes of this host, their faults and pages, read at a bounded cost.

stat is read often. smaps_rollup, and smaps, which alone says what is eligible, are read as the
budget allows: the kernel goes through a process's page tables for them. memory.smaps has every
mapping by its name, which would take longer than the kernel needs to write the file.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from tlbcost.common import names
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import sys_path
from tlbcost.system import process as process_files

# Together below 1 %: for stat, so that one long look at pages does not stop the rest; and for pages
# and all else.
STAT_SHARE, PAGES_SHARE = 0.003, 0.005
# To read every process of a usual host once, before the first screen.
_FIRST_S = 0.25


class Budget:
    """CPU time of this process, in user mode and in the kernel, which writes smaps for it.

    `saved_s`: what was not used is kept for so long.
    """

    def __init__(
        self,
        saved_s: float,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._share, self._clock, self._cpu = share, clock, cpu
        self._saved, self._most = share * saved_s, _FIRST_S
        self._then, self._used, self._left = clock(), cpu(), _FIRST_S

    def left_s(self) -> float:
        """CPU seconds that may be used now; negative after one long look, which takes that back."""
        now, used = self._clock(), self._cpu()
        left = self._left - (used - self._used)
        self._left = min(left + self._share * (now - self._then), self._most)
        self._then, self._used = now, used
        return self._left

    def first_reading_done(self) -> None:
        self._most = self._saved
        self._left = min(self._left, self._most)


class OwnUse:
    """CPU time of this process, and that which reading stat takes, apart."""

    def __init__(self) -> None:
        self._stat_s, self._since = 0.0, 0.0
        self._reads_stat = False
        self._begun: tuple[float, float] | None = None

    @contextlib.contextmanager
    def of_stat(self) -> Iterator[None]:
        """What is used in here is used for stat."""
        self._since, self._reads_stat = time.process_time(), True
        try:
            yield
        finally:
            self._stat_s, self._reads_stat = self.stat_s(), False

    def stat_s(self) -> float:
        return self._stat_s + (time.process_time() - self._since if self._reads_stat else 0.0)

    def others_s(self) -> float:
        return time.process_time() - self.stat_s()

    def fraction(self) -> float | None:
        """Of one CPU since the first reading, which has its own allowance; None before."""
        if self._begun is None:
            return None
        begun, used = self._begun
        seconds = time.monotonic() - begun
        return (time.process_time() - used) / seconds if seconds > 0 else None

    def first_reading_done(self) -> None:
        if self._begun is None:
            self._begun = time.monotonic(), time.process_time()


class Unlimited(Budget):
    """For one reading of everything."""

    def __init__(self) -> None:
        super().__init__(0.0, 0.0)

    def left_s(self) -> float:
        return 1e9


# Mappings without anything in memory are passed over. Linux has ShmemPmdMapped since 4.8,
# THPeligible since 5.0, FilePmdMapped since 5.4.
_MAPPING = re.compile(
    rb"\nRss: +([1-9]\d*) kB\nPss: +(\d+) kB\n(?:\w+: +\d+ kB\n)*?AnonHugePages: +(\d+) kB\n"
    rb"(?:ShmemPmdMapped: +(\d+) kB\n)?(?:FilePmdMapped: +(\d+) kB\n)?(?:\w+: +\d+ kB\n)*"
    rb"(?:THPeligible: +([01])\n)?"
)
# Rss does not cover these.
_SOME_HUGETLB = re.compile(rb"_Hugetlb: +[1-9]")
_HUGETLB = re.compile(
    rb"(?:^|\n)[0-9a-f]+-[0-9a-f]+ \S{4} \S+ (\S+ \d+)[^\n]*\n(?:\w+: +\d+ kB\n)*?"
    rb"Shared_Hugetlb: +(\d+) kB\nPrivate_Hugetlb: +(\d+) kB\n"
)
_FIELD = re.compile(rb"(\w+): +(\d+) kB")
# In smaps_rollup since Linux 5.4.
PARTS = (b"Pss_Anon", b"Pss_File", b"Pss_Shmem")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Pages:
    """Bytes in memory; those on huge pages of any kind; and on base pages, those that the kernel
    may put on transparent huge pages as things are (None: not read, or not reported, as before
    Linux 5.0).

    `shared_hugetlb`: bytes on pages of a pool that other processes map too, by file. They are in
    none of the other figures, so that processes of a group can count them once.
    """

    memory_bytes: int
    huge_bytes: int
    eligible_bytes: int | None
    shared_hugetlb: dict[bytes, int]


def pages_of(text: bytes, *, proportional: bool = False) -> Pages:
    """The pages in smaps. `proportional`: a page of n processes counts as 1/n, as in Pss."""
    memory = huge = eligible = 0.0
    known = True
    for rss, pss, anonymous, shared, file, flag in _MAPPING.findall(text):
        whole = int(rss)
        on_huge = min(int(anonymous) + int(shared or 0) + int(file or 0), whole)
        weight = int(pss) / whole if proportional else 1
        memory += weight * whole
        huge += weight * on_huge
        known = known and flag != b""
        if flag == b"1":
            eligible += weight * (whole - on_huge)
    pool, files = _hugetlb(text)
    may = round(eligible) * _KIB if known else None
    return Pages(round(memory + pool) * _KIB, round(huge + pool) * _KIB, may, files)


def rolled_up(text: bytes, *, proportional: bool = False) -> Pages:
    """The pages in smaps_rollup, without what is eligible. `proportional`: as above."""
    found = {name: int(kib) for name, kib in _FIELD.findall(text)}
    memory, anonymous = found.get(b"Rss", 0), found.get(b"Anonymous", 0)
    huge: float = found.get(b"AnonHugePages", 0)
    others: float = found.get(b"ShmemPmdMapped", 0) + found.get(b"FilePmdMapped", 0)
    if proportional:
        pss_anonymous, *pss_others = (found.get(name, 0) for name in PARTS)
        huge *= pss_anonymous / max(anonymous, 1)
        others *= sum(pss_others) / max(memory - anonymous, 1)
        memory = found.get(b"Pss", 0)
    pool, files = _hugetlb(text)
    on_huge = round(min(huge + others, memory) + pool)
    return Pages((memory + pool) * _KIB, on_huge * _KIB, None, files)


def _hugetlb(text: bytes) -> tuple[int, dict[bytes, int]]:
    """KiB that are this process's alone, and bytes that are not, by device and inode."""
    private, files = 0, dict[bytes, int]()
    if _SOME_HUGETLB.search(text):
        for key, shared, own in _HUGETLB.findall(text):
            private += int(own)
            if shared != b"0":
                files[key] = files.get(key, 0) + int(shared) * _KIB
    return private, files


# What smaps takes, in times of smaps_rollup, before it was read: the kernel writes every mapping.
_FULL_COST = 6.0
# What is eligible was read this long before a process was first seen, in comparison.
_HEAD_START_S = 300.0
# What had no memory or could not be read is tried again after this long: a thread of the kernel may
# execute a program.
_AGAIN_S = 60.0
_LEAST_COST_S = 1e-5
# memory: of cgroups version 1; nothing: version 2.
_CGROUP = re.compile(rb"^\d+:(?:(?:\S*,)?memory(?:,\S*)?|):(.*)$", re.MULTILINE)


@dataclass(slots=True)
class SeenProcess:
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
        self._known: dict[str, SeenProcess] = {}
        self._without: set[str] = set()
        self._denied: set[str] = set()
        self._forgot_at = time.monotonic()
        # For groups, with the parts of Pss.
        self._rollup = False
        with contextlib.suppress(OSError):
            text = process_files.read(f"{self._proc}/self", "smaps_rollup")
            self._rollup = not grouped or all(part in text for part in PARTS)
        if not os.path.exists(f"{self._proc}/self/smaps"):  # noqa: PTH110
            why = "it has no /proc/self/smaps (CONFIG_PROC_PAGE_MONITOR)"
            what = f"this kernel does not report the pages of processes: {why}"
            raise TlbcostError(what, None, CANNOT_MEASURE)

    def seen(self) -> Collection[SeenProcess]:
        return [each for each in self._known.values() if each.started >= 0]

    @property
    def unreadable(self) -> int:
        """Processes of which this user may not read everything."""
        return len(self._denied) + sum(each.unreadable for each in self._known.values())

    def refresh_faults(self, budget: Budget) -> None:
        """The processes, with as many stat files read as the budget allows, the oldest first."""
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
            known[new] = SeenProcess(int(new))
        for name, process in sorted(known.items(), key=lambda item: item[1].seen_at):
            if budget.left_s() <= 0:
                break
            self._read_stat(name, process)

    def refresh_pages(self, budget: Budget) -> None:
        if budget.left_s() <= 0:
            return
        now = time.monotonic()
        waiting = [each for process in self.seen() for each in self._urgencies(process, now)]
        for urgency, full, process in sorted(waiting, key=lambda each: each[0], reverse=True):
            if budget.left_s() <= 0 or urgency <= 0:
                break
            self._look(process, full=full)

    def _urgencies(self, process: SeenProcess, now: float) -> list[tuple[float, bool, SeenProcess]]:
        """How much a look at its pages, and one at smaps, would give for its CPU time."""
        if process.unreadable:
            age = now - process.looked_at
            return [(age if age > _AGAIN_S else 0.0, False, process)]
        full_cost = process.full_cost_s or _FULL_COST * process.cost_s
        since = max(process.eligible_at, process.first_at - _HEAD_START_S)
        worth = _worth(process, now - since, process.full_faults_then) / full_cost
        found = [(worth, True, process)]
        if process.pages is None:
            # The largest first, before all others.
            found.append((1e12 + process.resident_bytes, not self._rollup, process))
        elif self._rollup:
            worth = _worth(process, now - process.looked_at, process.faults_then) / process.cost_s
            found.append((worth, False, process))
        return found

    def _read_stat(self, name: str, process: SeenProcess) -> None:
        try:
            stat = process_files.read_stat(f"{self._proc}/{name}")
        except PermissionError:
            self._denied.add(name)
            del self._known[name]
            return
        except OSError:
            del self._known[name]
            return
        now = time.monotonic()
        if not stat.space_bytes:
            # A thread of the kernel, or a process that has ended.
            self._without.add(name)
            del self._known[name]
            return
        faults = stat.minor_faults + stat.major_faults
        if process.started != stat.started:
            if process.started >= 0:
                process = self._known[name] = SeenProcess(int(name))
            process.started, process.first_at = stat.started, now
            process.faults_then = process.full_faults_then = faults
        else:
            process.fault_rate = (faults - process.faults) / (now - process.seen_at)
        process.name = names.shown(stat.name.decode(errors="surrogateescape"))
        process.faults, process.seen_at = faults, now
        process.resident_bytes = stat.resident_pages * self._page_bytes

    def _look(self, process: SeenProcess, *, full: bool) -> None:
        begin = time.process_time()
        try:
            folder = f"{self._proc}/{process.pid}"
            if full or process.pages is None:
                # The memory controller's group; with version 2, the only one.
                groups = _CGROUP.findall(process_files.read(folder, "cgroup"))
                shown = (names.shown(each.decode(errors="surrogateescape")) for each in groups)
                process.cgroup = next(shown, None)
            text = process_files.read(folder, "smaps" if full else "smaps_rollup")
        except PermissionError:
            process.unreadable, process.looked_at = True, time.monotonic()
            process.pages = process.eligible_bytes = process.ineligible_bytes = None
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


def _worth(process: SeenProcess, age: float, faults_then: int) -> float:
    size = math.log2(2 + process.resident_bytes / (1 << 20))
    return age * size * (1 + math.log2(1 + max(process.faults - faults_then, 0)))
