# SPDX-License-Identifier: GPL-2.0-or-later
"""What does /proc say of a live process: threads and their nodes, faults, pages and their sizes?"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.memory import smaps
from tlbcost.numa.accesses import Ints
from tlbcost.numa.watch import kernel
from tlbcost.run.process_tree import start_ticks
from tlbcost.system import hints
from tlbcost.system.machine import read_text, sys_path

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_ENTRY = struct.Struct("=Q")
_PRESENT = 1 << 63
_FRAME = (1 << 55) - 1
_KPF_THP = 1 << 22

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Thread:
    """CPU time and minor faults so far, and the CPU it ran on last."""

    cpu_ns: int
    faults: int
    cpu: int


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
        """CPU time of all threads."""
        return sum(self.cpu_ns)


def cpu_share(activities: Iterable[Activity], nodes: int) -> tuple[float, ...]:
    """The share of the CPU time on each node, over several intervals; equal ones without any."""
    by_node = np.zeros(nodes)
    for each in activities:
        by_node += np.array(each.cpu_ns)
    total = by_node.sum()
    return tuple(float(ns / total) if total else 1 / nodes for ns in by_node)


def node_of_cpus() -> dict[int, int]:
    """The node of each CPU."""
    found: dict[int, int] = {}
    for path in sys_path("/sys/devices/system/node").glob("node*"):
        number = path.name.removeprefix("node")
        text = read_text(f"/sys/devices/system/node/{path.name}/cpulist") or ""
        if number.isdigit():
            found |= dict.fromkeys(_list(text), int(number))
    return found


def _list(text: str) -> list[int]:
    """The numbers of "0-2,5"."""
    found: list[int] = []
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            found += range(int(low), int(high or low) + 1)
    return found


class Process:
    """A live process, and what it did between two looks.

    `spread`: nodes that do not exist, over which threads are spread in turn; None: the machine's.
    """

    def __init__(self, pid: int, spread: int | None) -> None:
        self.pid, self.spread = pid, spread
        started = start_ticks(pid)
        if started is None:
            raise TlbcostError(f"there is no process {pid}", "ps -e lists them")
        self.started = started
        self._node_of_cpu = node_of_cpus()
        self.nodes = spread or max(self._node_of_cpu.values(), default=0) + 1
        self._numbers: dict[int, int] = {}
        self._threads = self._read()
        self._at = time.monotonic()
        self._image = self._exe()

    def _exe(self) -> str | None:
        with contextlib.suppress(OSError):
            return str(Path(f"/proc/{self.pid}/exe").readlink())
        return None

    def gone(self) -> str | None:
        """Why there is nothing left to watch; None: it is the program that it was."""
        state = (read_text(f"/proc/{self.pid}/stat") or "").rpartition(")")[2].split()[:1]
        if start_ticks(self.pid) != self.started or state in ([], ["Z"], ["X"]):
            return "the process has ended"
        if self._exe() not in (self._image, None):
            return "the process executes another program"
        return None

    def _read(self) -> dict[int, Thread]:
        found: dict[int, Thread] = {}
        with contextlib.suppress(OSError):
            for entry in os.scandir(f"/proc/{self.pid}/task"):
                text = read_text(f"{entry.path}/stat") or ""
                words = text.rpartition(")")[2].split()
                if len(words) > 36:
                    # Fields 10, 14, 15 and 39 of proc(5); the state is field 3.
                    ns = (int(words[11]) + int(words[12])) * _TICK_NS
                    found[int(entry.name)] = Thread(ns, int(words[7]), int(words[36]))
        return found

    def _node(self, number: int, thread: Thread) -> int:
        if self.spread:
            return self._numbers.setdefault(number, len(self._numbers)) % self.spread
        return self._node_of_cpu.get(thread.cpu, 0)

    def look(self) -> Activity:
        """What it did since the last look."""
        before, self._threads = self._threads, self._read()
        then, self._at = self._at, time.monotonic()
        by_node = [0] * self.nodes
        node_of: dict[int, int] = {}
        faults, ran = 0, []
        for number, thread in sorted(self._threads.items()):
            node_of[number] = node = self._node(number, thread)
            old = before.get(number, Thread(0, 0, 0))
            by_node[node] += thread.cpu_ns - old.cpu_ns
            if thread.cpu_ns > old.cpu_ns:
                ran.append(number)
            faults = max(faults, thread.faults - old.faults)
        return Activity(self._at - then, node_of, tuple(ran), tuple(by_node), faults)

    def huge_allowed(self) -> bool | None:
        """Whether its page faults may get transparent huge pages; None: not known."""
        found = re.search(
            r"^THP_enabled:\s+(\d)", read_text(f"/proc/{self.pid}/status") or "", re.M
        )
        return None if found is None else found[1] == "1"

    def mappings(self) -> list[smaps.Mapping]:
        """Its memory. Raises TlbcostError, 4, if it may not be read."""
        try:
            text = smaps.read(self.pid)
        except PermissionError as error:
            raise TlbcostError(
                f"the memory of process {self.pid} may not be read: {error.strerror}",
                hints.again_as_root(),
                CANNOT_MEASURE,
            ) from error
        except OSError:
            return []
        return smaps.parse(text, None)


def nodes_of(process: Process, page: Ints, page_bytes: int) -> Ints:
    """The node of each base page; -1: it is not in memory. Raises TlbcostError, 4."""
    addresses = [int(number) * page_bytes for number in page]
    try:
        found = kernel.nodes_of(process.pid, addresses)
    except ProcessLookupError:
        found = [None] * len(addresses)
    except OSError as error:
        raise TlbcostError(
            f"the kernel hides where pages of process {process.pid} are: {error.strerror}",
            hints.again_as_root() if isinstance(error, PermissionError) else None,
            CANNOT_MEASURE,
        ) from error
    return np.array([-1 if node is None else node for node in found], dtype=np.int64)


def huge_regions(process: Process, page: Ints, fold: int, page_bytes: int) -> Bools:
    """Whether each base page is part of a huge page: by its frame's flags, as root; else by smaps.

    smaps has a share for each mapping: there all of a mapping counts that is mostly on huge pages.
    """
    regions, first, inverse = np.unique(page // fold, return_index=True, return_inverse=True)
    try:
        flags = _flags(process.pid, page[first])
    except OSError:
        flags = None
    if flags is None:
        huge = _by_smaps(process, regions, fold * page_bytes)
    else:
        huge = np.array(flags, dtype=bool)
    return np.asarray(huge[inverse.reshape(-1)]) if len(page) else np.zeros(0, dtype=bool)


def _flags(pid: int, page: Ints) -> list[bool] | None:
    """None: this user sees no frames."""
    found: list[bool] = []
    with (
        Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap,
        Path("/proc/kpageflags").open("rb", buffering=0) as kpageflags,
    ):
        for number in page:
            raw = os.pread(pagemap.fileno(), _ENTRY.size, int(number) * _ENTRY.size)
            entry = _ENTRY.unpack(raw)[0] if len(raw) == _ENTRY.size else 0
            if not entry & _PRESENT:
                found.append(False)
                continue
            if not entry & _FRAME:
                return None
            raw = os.pread(kpageflags.fileno(), _ENTRY.size, (entry & _FRAME) * _ENTRY.size)
            found.append(len(raw) == _ENTRY.size and bool(_ENTRY.unpack(raw)[0] & _KPF_THP))
    return found


def _by_smaps(process: Process, regions: Ints, huge_bytes: int) -> Bools:
    found = np.zeros(len(regions), dtype=bool)
    for mapping in process.mappings():
        if 2 * mapping.huge_bytes > mapping.resident_bytes:
            start = regions * huge_bytes
            found |= (start >= mapping.start) & (start + huge_bytes <= mapping.end)
    return found


def promotable(
    mappings: Sequence[smaps.Mapping], regions: Ints, huge_bytes: int
) -> tuple[int, ...]:
    """Huge page numbers, among these, of anonymous memory that covers a huge page."""
    regions = np.unique(regions)
    found = np.zeros(len(regions), dtype=bool)
    start = regions * huge_bytes
    for mapping in mappings:
        if mapping.kind in ("heap", "anonymous"):
            found |= (start >= mapping.start) & (start + huge_bytes <= mapping.end)
    return tuple(int(region) for region in regions[found])
