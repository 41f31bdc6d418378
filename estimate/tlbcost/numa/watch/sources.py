# SPDX-License-Identifier: GPL-2.0-or-later
"""Where do samples of a live process's accesses come from, and what do they cost it?

Windows of copies: accesses beyond the modelled caches, of one thread each. Those of a PMU, of all
threads at once, are in pmu_samples.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np

from tlbcost.common import formats, paths
from tlbcost.common.document import doc
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.formats import count, counts_in, read_table
from tlbcost.copies.process import refused
from tlbcost.copies.run import unavailable
from tlbcost.numa.accesses import Ints
from tlbcost.numa.placement_table import LINE_BYTES, cache_within
from tlbcost.numa.watch.evidence import ThreadWindow
from tlbcost.numa.watch.process import Activity
from tlbcost.system import hints

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
        int, doc("windows of copies; with a PMU, intervals of each thread and node", minimum=0)
    ] = 0
    paused_ns: Annotated[
        int, doc("time for which threads waited, each as much of it as it ran", minimum=0)
    ] = 0
    copied_pages: Annotated[int, doc("pages that were copied on write", minimum=0)] = 0
    samples: Annotated[int, doc("samples of a PMU", minimum=0)] = 0
    samples_ns: Annotated[
        int, doc("time that they took at most: the kernel's limit for each", minimum=0)
    ] = 0
    own_ns: Annotated[int, doc("CPU time of what takes and follows them", minimum=0)] = 0
    process_ns: Annotated[int, doc("CPU time of the process in all of that time", minimum=0)] = 0

    @property
    def spent_ns(self) -> int:
        return self.paused_ns + self.copied_pages * _FAULT_NS + self.samples_ns + self.own_ns

    @property
    def fraction(self) -> float | None:
        return self.spent_ns / self.process_ns if self.process_ns else None


class Source(Protocol):
    """`dram_per_us`: accesses to DRAM in the last interval; None: not known."""

    @property
    def kind(self) -> Literal["copies", "ibs", "pebs"]:
        """As the document calls it."""

    cost: SamplingCost
    dram_per_us: float | None

    def sample(self, seconds: float, thread: int | None = None) -> list[ThreadWindow]:
        """Sample for so long, this thread or any: windows, whose node is -1 if it is not known yet.

        Raises TlbcostError, 4, if that is not possible here.
        """

    def note(self, activity: Activity) -> None:
        """What the process did in this interval, sampled or not."""


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
            raise TlbcostError(
                f"no memory accesses can be sampled here: {why}",
                "tlbcost numa -- COMMAND simulates a program",
                CANNOT_MEASURE,
            )
        self._pid, self._overhead = pid, overhead
        levels = [cache_within(size) for size in caches]
        self._caches = ",".join(f"{size}:{ways}" for size, ways in levels)
        self._warm = _FILLS * sum(size for size, _ in levels) // LINE_BYTES
        self.cost = SamplingCost()
        self._rate = 0.0

    def sample(self, seconds: float, thread: int | None = None) -> list[ThreadWindow]:
        copies = self._affordable(seconds)
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

    def _affordable(self, seconds: float) -> int:
        cost = self.cost
        if not cost.windows:
            return int(not cost.spent_ns or self._left_ns(seconds) > 0)
        each = cost.spent_ns / cost.windows
        return int(min(max(self._left_ns(seconds) / each, 0), _MOST_COPIES))

    def _left_ns(self, seconds: float) -> float:
        """What may be spent in this interval, if the process continues as it did."""
        coming = self._rate * seconds * 1e9
        return self._overhead * (self.cost.process_ns + coming) - self.cost.spent_ns

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
    for window, (number, counts) in _accesses(folder).items():
        l2, walks = misses.get(window, (0, 0))
        if window in threads and l2:
            found.append(ThreadWindow(now, threads[window], -1, number, counts, l2, walks))
    return found, paused, pages


def _accesses(folder: Path) -> Mapping[int, tuple[Ints, Ints]]:
    """Of each window base pages, and the accesses to each; a window is in one table."""
    found: dict[int, tuple[Ints, Ints]] = {}
    for path in folder.glob("copy_dram.*.tsv"):
        rows = read_table(path, formats.COPY_DRAM).rows
        # Tens of thousands each second.
        window, page, accesses = np.array(rows, dtype=np.str_).reshape(-1, 3).astype(np.int64).T
        for number in np.unique(window):
            chosen = window == number
            found[int(number)] = page[chosen], accesses[chosen]
    return found
