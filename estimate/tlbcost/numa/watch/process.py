# SPDX-License-Identifier: GPL-2.0-or-later
"""A live process: threads, faults, pages and their nodes by /proc; and how its pages are acted on.

No setting of the system is written. What a page cannot do is counted, and said.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tlbcost.common.cleanup import signals_deferred
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import sys_path
from tlbcost.common.progress import say
from tlbcost.memory import smaps
from tlbcost.memory.frames import ENTRY, FRAME, PRESENT, read_pagemap
from tlbcost.numa.node_memory import page_nodes
from tlbcost.numa.placement import Ints, machine_nodes
from tlbcost.numa.watch import kernel
from tlbcost.numa.watch.decide import Action
from tlbcost.numa.watch.evidence import ThreadWindow
from tlbcost.settings.change import system_settings
from tlbcost.system import hints, process
from tlbcost.system.huge_pages import huge_settings
from tlbcost.system.machine import read_line
from tlbcost.thp.program import ask_process, make_huge_page

_KPF_THP = 1 << 22

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Activity:
    """What the threads did in an interval. Nodes are those of the CPUs that they ran on last.

    `ran`: those that used a CPU. `cpu_ns`: CPU time on each node. `faults`: of the thread with
    most.
    """

    seconds: float
    node_of: Mapping[int, int]
    ran: tuple[int, ...]
    cpu_ns: tuple[int, ...]
    faults: int

    @property
    def spent_ns(self) -> int:
        return sum(self.cpu_ns)


def cpu_share(activities: Iterable[Activity], nodes: int) -> tuple[float, ...]:
    """The share of the CPU time on each node, over several intervals; equal ones without any."""
    by_node = np.zeros(nodes)
    for each in activities:
        by_node += np.array(each.cpu_ns)
    total = by_node.sum()
    return tuple(float(ns / total) if total else 1 / nodes for ns in by_node)


def node_of_cpus() -> dict[int, int]:
    found: dict[int, int] = {}
    for node in machine_nodes():
        # "0-2,5".
        text = read_line(f"/sys/devices/system/node/node{node}/cpulist") or ""
        for part in text.split(","):
            low, _, high = part.partition("-")
            if low.isdigit():
                found |= dict.fromkeys(range(int(low), int(high or low) + 1), node)
    return found


class LiveProcess:
    """A live process, and what it did between two looks.

    `spread`: nodes that do not exist, over which threads are spread in turn; None: the machine's.
    """

    def __init__(self, pid: int, spread: int | None) -> None:
        self.pid, self.spread = pid, spread
        started = process.start_ticks(pid)
        if started is None:
            raise process.gone(pid)
        self.started = started
        self._node_of_cpu = node_of_cpus()
        self.nodes = spread or max(self._node_of_cpu.values(), default=0) + 1
        self._numbers: dict[int, int] = {}
        self._threads = self._read()
        self._at = time.monotonic()
        self._image = self._exe()

    def _exe(self) -> str | None:
        with contextlib.suppress(OSError):
            return process.executable(self.pid)
        return None

    def gone(self) -> str | None:
        """Why there is nothing left to watch; None: it is the program that it was."""
        running = process.is_running(process.below_root(self.pid))
        if not running or process.start_ticks(self.pid) != self.started:
            return "the process has ended"
        if self._exe() not in (self._image, None):
            return "the process executes another program"
        return None

    def _read(self) -> dict[int, process.Stat]:
        found: dict[int, process.Stat] = {}
        with contextlib.suppress(OSError):
            for entry in os.scandir(f"/proc/{self.pid}/task"):
                if stat := process.stat(str(sys_path(entry.path))):
                    found[int(entry.name)] = stat
        return found

    def look(self) -> Activity:
        before, self._threads = self._threads, self._read()
        then, self._at = self._at, time.monotonic()
        by_node = [0] * self.nodes
        node_of: dict[int, int] = {}
        faults, ran = 0, []
        for number, thread in sorted(self._threads.items()):
            node = self._node_of_cpu.get(thread.cpu, 0)
            if self.spread:
                node = self._numbers.setdefault(number, len(self._numbers)) % self.spread
            node_of[number] = node
            ns, new_faults = thread.user_ns + thread.system_ns, thread.minor_faults
            if (old := before.get(number)) is not None:
                ns -= old.user_ns + old.system_ns
                new_faults -= old.minor_faults
            by_node[node] += ns
            if ns > 0:
                ran.append(number)
            faults = max(faults, new_faults)
        return Activity(self._at - then, node_of, tuple(ran), tuple(by_node), faults)

    def huge_allowed(self) -> bool | None:
        enabled = process.thp_enabled(self.pid)
        return None if enabled is None else enabled == "1"

    def mappings(self) -> list[smaps.Mapping]:
        """Its memory. Raises TlbcostError, 4, if it may not be read."""
        try:
            text = smaps.read(self.pid)
        except PermissionError as error:
            why = f"the memory of process {self.pid} may not be read: {error.strerror}"
            raise TlbcostError(why, hints.again_as_root(), CANNOT_MEASURE) from error
        except OSError:
            return []
        return smaps.parse(text, None)


def nodes_of(watched: LiveProcess, page: Ints, page_bytes: int) -> Ints:
    """The node of each base page; -1: it is not in memory. Raises TlbcostError, 4."""
    addresses = [int(number) * page_bytes for number in page]
    try:
        found = page_nodes(watched.pid, addresses)
    except ProcessLookupError:
        found = [None] * len(addresses)
    except OSError as error:
        why = f"the kernel hides where pages of process {watched.pid} are: {error.strerror}"
        hint = hints.again_as_root() if isinstance(error, PermissionError) else None
        raise TlbcostError(why, hint, CANNOT_MEASURE) from error
    return np.array([-1 if node is None else node for node in found], dtype=np.int64)


def huge_regions(watched: LiveProcess, page: Ints, fold: int, page_bytes: int) -> Bools:
    """Whether each base page is part of a huge page: by its frame's flags, as root; else by smaps.

    smaps has a share for each mapping: there all of a mapping counts that is mostly on huge pages.
    """
    regions, first, inverse = np.unique(page // fold, return_index=True, return_inverse=True)
    try:
        flags = _flags(watched.pid, page[first])
    except OSError:
        flags = None
    huge = np.array(flags or np.zeros(len(regions)), dtype=bool)
    for mapping in watched.mappings() if flags is None else ():
        if 2 * mapping.huge_bytes > mapping.resident_bytes:
            huge |= _inside(mapping, regions, fold * page_bytes)
    return np.asarray(huge[inverse.reshape(-1)]) if len(page) else np.zeros(0, dtype=bool)


def _flags(pid: int, page: Ints) -> list[bool] | None:
    """None: this user sees no frames."""
    found: list[bool] = []
    entries = read_pagemap(pid, ((int(number), 1) for number in page))
    with Path("/proc/kpageflags").open("rb", buffering=0) as kpageflags:
        for entry in (int.from_bytes(raw, sys.byteorder) for raw in entries):
            if entry & PRESENT and not entry & FRAME:
                return None
            flags = b""
            if entry & PRESENT:
                flags = os.pread(kpageflags.fileno(), ENTRY.size, (entry & FRAME) * ENTRY.size)
            found.append(bool(int.from_bytes(flags, sys.byteorder) & _KPF_THP))
    return found


def promotable(
    mappings: Sequence[smaps.Mapping], regions: Ints, huge_bytes: int
) -> tuple[int, ...]:
    """Huge page numbers, among these, of anonymous memory that covers a huge page."""
    regions = np.unique(regions)
    found = np.zeros(len(regions), dtype=bool)
    for mapping in mappings:
        if mapping.kind in ("heap", "anonymous"):
            found |= _inside(mapping, regions, huge_bytes)
    return tuple(int(region) for region in regions[found])


def _inside(mapping: smaps.Mapping, regions: Ints, huge_bytes: int) -> Bools:
    start = regions * huge_bytes
    return np.asarray((start >= mapping.start) & (start + huge_bytes <= mapping.end))


@dataclass(slots=True)
class PagePlaces:
    """As the kernel says."""

    process: LiveProcess
    fold: int
    page_bytes: int

    def find(self, windows: Sequence[ThreadWindow], page: Ints) -> tuple[Ints, Bools]:  # noqa: ARG002
        """Of these pages, which were seen in these windows, the node (-1: none) and whether they
        are part of a huge page. Raises TlbcostError, 4, if the kernel does not say it.
        """
        node = nodes_of(self.process, page, self.page_bytes)
        return node, huge_regions(self.process, page, self.fold, self.page_bytes)


@dataclass(slots=True)
class AssumedPlaces(PagePlaces):
    """Nodes that do not exist: each page is on the node that was seen to use it most, in place of
    the one that touched it first, until it would have been moved. What would have been split
    counts as split. `moved`: base pages, and -1 - the number of huge ones.
    """

    moved: dict[int, int] = field(default_factory=dict)
    split: set[int] = field(default_factory=set)

    def find(self, windows: Sequence[ThreadWindow], page: Ints) -> tuple[Ints, Bools]:
        real, huge = PagePlaces.find(self, windows, page)
        split = np.isin(page // self.fold, np.array(sorted(self.split), dtype=np.int64))
        # A piece of what would have been split is where that was, unless it moved.
        _, unit = np.unique(np.where(huge, -1 - page // self.fold, page), return_inverse=True)
        unit = unit.reshape(-1)
        used = np.zeros((unit.max(initial=-1) + 1, self.process.nodes), dtype=np.int64)
        for window in windows:
            at = np.searchsorted(page, window.pages)
            np.add.at(used[:, window.node], unit[at], window.counts)
        node = used.argmax(axis=1)[unit] if len(page) else page
        for index, number in enumerate(page.tolist()):
            whole = self.moved.get(-1 - number // self.fold, node[index])
            if huge[index] and not split[index]:
                node[index] = whole
            else:
                node[index] = self.moved.get(number, whole if split[index] else node[index])
        return np.where(real >= 0, node, -1), huge & ~split

    def suppose(self, action: Action) -> None:
        if action.kind in ("split", "split_hot"):
            self.split.update(int(region) for region in action.regions)
        if action.kind == "promote":
            self.split.difference_update(int(region) for region in action.regions)
        for page, to in zip(action.pages.tolist(), action.to.tolist(), strict=True):
            self.moved[page] = to
            if page % self.fold == 0 and page // self.fold not in self.split:
                self.moved[-1 - page // self.fold] = to


# Another tlbcost that changes settings is not waited for longer: the next interval comes.
_WAIT_S = 1.0
# What a page that is gone is: neither moved nor refused.
_ABSENT = (-errno.ENOENT, -errno.ESRCH)


@dataclass(slots=True)
class ActionResult:
    """`refused`: why pages were not moved, and how many."""

    moved: list[int] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)
    stuck_regions: list[int] = field(default_factory=list)
    done_regions: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    ns: int = 0
    failed: str | None = None


def check_rights() -> None:
    """Raises TlbcostError, 4, if this user cannot act on another process's pages, or record it."""
    if os.geteuid() != 0:
        why = "cannot split pages of a process, and put its allocation back: that needs root"
        raise TlbcostError(why, hints.again_as_root(), CANNOT_MEASURE)


def collapse(pid: int, start: int, bytes_: int) -> None:
    """Make a huge page of base pages. Raises OSError.

    Before Linux 6.18 the kernel makes none of those that the process has only read since a copy was
    taken of it, which are read-only in its page tables: then one of its threads has to help.
    """
    try:
        kernel.advise(pid, start, bytes_, kernel.MADV_COLLAPSE)
    except OSError as error:
        if error.errno != errno.EINVAL or not make_huge_page(pid, start):
            raise


class Actor:
    """Acts on one process; put_back() is for its end."""

    def __init__(self, process: LiveProcess, fold: int, page_bytes: int) -> None:
        self._process, self._page_bytes = process, page_bytes
        self._huge_bytes = fold * page_bytes
        self._switched = False
        self.asked = False

    def do(self, action: Action) -> ActionResult:
        """Do it; what cannot be done is in the outcome. A signal to end waits for a part of it."""
        outcome = ActionResult()
        begin = time.monotonic_ns()
        if action.kind in ("stop_huge", "allocate_huge"):
            self._switch(outcome, on=action.kind == "allocate_huge")
        else:
            self._regions(action, outcome)
            self._move(action, outcome)
        outcome.ns = time.monotonic_ns() - begin
        return outcome

    def _switch(self, outcome: ActionResult, *, on: bool) -> None:
        process = self._process
        try:
            with system_settings(wait_s=_WAIT_S) as settings:
                settings.outlive()
                self._switched = True
                settings.switch_thp(process.pid, process.started, on=on)
            if on and huge_settings(process.pid).thp == "madvise" and not self.asked:
                # madvise() cannot be taken back: only the memory mapped now is asked for.
                ask_process(process.pid, collapse=False)
                self.asked = True
        except TlbcostError as error:
            outcome.failed = str(error)

    def _regions(self, action: Action, outcome: ActionResult) -> None:
        change = collapse if action.kind == "promote" else kernel.split
        for region in map(int, action.regions):
            with signals_deferred():
                try:
                    change(self._process.pid, region * self._huge_bytes, self._huge_bytes)
                except OSError as error:
                    if error.errno == errno.ESRCH:
                        outcome.failed = "the process has ended"
                        return
                    outcome.stuck_regions.append(region)
                    outcome.refused[error.strerror or "failed"] += 1
                else:
                    outcome.done_regions += 1

    def _move(self, action: Action, outcome: ActionResult) -> None:
        pages = [int(page) for page in action.pages]
        if not pages or outcome.failed:
            return
        to = [int(node) for node in action.to]
        try:
            with signals_deferred():
                addresses = [page * self._page_bytes for page in pages]
                status = kernel.move(self._process.pid, addresses, to)
        except OSError as error:
            outcome.failed = f"pages cannot be moved: {error.strerror}"
            return
        for page, node, now in zip(pages, to, status, strict=True):
            if now == node:
                outcome.moved.append(page)
            elif now not in _ABSENT:
                outcome.stuck.append(page)
                outcome.refused[os.strerror(-now) if now < 0 else "it stayed"] += 1

    def put_back(self) -> None:
        if not self._switched:
            return
        with signals_deferred():
            try:
                with system_settings():
                    self._switched = False
            except TlbcostError as error:
                say(f"{error}: 'tlbcost pool restore' puts back what process had")


def undo(pid: int) -> int:
    """Put back what a killed watch changed; returns how many are left. Raises TlbcostError."""
    with system_settings() as settings:
        if not settings.found:
            say(f"nothing to put back: no change of tlbcost's of process {pid} is left")
        return settings.restore_left()
