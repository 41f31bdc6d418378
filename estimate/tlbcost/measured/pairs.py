# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of runs of one program, on base and on huge pages.

The two runs of a pair take turns on the same CPU (run/turns.py). Where they cannot, pairs are
base-huge, huge-base, base-huge, ...: a drift between runs adds to one half of the differences and
takes from the other. prctl(2) refuses base runs transparent huge pages, so that neither the
system's mode nor the program's own requests give it any.
"""

from __future__ import annotations

import contextlib
import mmap
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.progress import RunProgress, say
from tlbcost.measured.method import Method, base_environment
from tlbcost.memory.peak import PeakMemory
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.run import launch
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run
from tlbcost.run.turns import NotTogetherError, Way, cpus_for, has_room, objection, run_in_turns
from tlbcost.system.machine import reports_free_pages

# Linux 5.14.
_MADV_POPULATE_WRITE = 23


@dataclass(frozen=True, slots=True)
class Witnessed:
    run: Run
    backing: PeakMemory | None
    why_not: str = ""

    @property
    def peak_bytes(self) -> int:
        return _peak_bytes(self.run, self.backing)

    @property
    def sized_run(self) -> Run:
        return replace(self.run, max_rss_bytes=self.peak_bytes)


@dataclass(frozen=True, slots=True)
class Pair:
    """One run on base pages, one on huge pages, and the memory at the peak of the latter.

    `base_backing`: that of the former. None: not seen.
    """

    base: Run
    huge: Run
    backing: PeakMemory | None
    base_backing: PeakMemory | None = None

    @property
    def base_peak_bytes(self) -> int:
        return _peak_bytes(self.base, self.base_backing)

    @property
    def huge_peak_bytes(self) -> int:
        """All memory at the peak of the run on huge pages; hugetlb pages only if they were seen."""
        return _peak_bytes(self.huge, self.backing)


class PairRunner:
    def __init__(
        self,
        launcher: Launcher,
        argv: Sequence[str],
        path: Path,
        progress: RunProgress,
        code: int = 0,
    ) -> None:
        self._launcher = launcher
        self._progress = progress
        self._argv = argv
        self._path = path
        self._code = code
        self._environment, _ = base_environment()
        self.memory_bytes = 0  # of one run, where there is room for several; else 0
        self.cpus: frozenset[int] | None = None  # where pairs run in turns; None: they do not

    def take_turns(self, run: Run) -> None:
        """From now on, pairs run at the same time if a program that takes this may."""
        self.memory_bytes = run.max_rss_bytes if has_room(run) else 0
        why = objection(self._launcher, run)
        if why is not None:
            say(f"pairs of runs one after the other: {why}")
            return
        self.cpus = cpus_for(run)

    def base(self) -> Witnessed:
        return self._run(self._argv, self._environment, None)

    def huge(self, method: Method) -> Witnessed:
        environment = method.environment_of(self._environment)
        return self._run([*method.prefix, *self._argv], environment, method)

    def pair(self, method: Method, *, huge_first: bool) -> tuple[Witnessed, Witnessed]:
        """A run on base pages and one on huge pages, at the same time or in either order."""
        if self.memory_bytes and reports_free_pages():
            _have_at_hand(self.memory_bytes)
        if self.cpus is not None:
            found = self._together(method, self.cpus, huge_first=huge_first)
            if found is not None:
                return found
        if huge_first:
            huge = self.huge(method)
            return self.base(), huge
        return self.base(), self.huge(method)

    def _together(
        self, method: Method, cpus: frozenset[int], *, huge_first: bool
    ) -> tuple[Witnessed, Witnessed] | None:
        """Both in turns, or None if impossible; each runs alone for a moment at one end."""
        samplers = PeakSampler(), PeakSampler()
        ways = (
            Way(tuple(self._argv), self._environment, False, samplers[0].start),
            Way(
                (*method.prefix, *self._argv), method.environment_of(self._environment),
                method.transparent, samplers[1].start,
            ),
        )  # fmt: skip
        why, outcomes = "one of them failed", tuple[Outcome, ...]()
        try:
            with self._progress.run() as tick:
                order = -1 if huge_first else 1
                outcomes = run_in_turns(self._launcher, ways[::order], cpus, tick)[::order]
        except NotTogetherError as error:
            why = str(error)
        finally:
            seen = [sampler.stop() for sampler in samplers]
        runs = [each.run for each in outcomes if each.code == self._code and each.run]
        if len(runs) < len(ways):
            say(f"pairs of runs one after the other: two at the same time would not do: {why}")
            self.cpus = None
            return None
        base, huge = (
            Witnessed(run, backing, "" if backing else sampler.why_not)
            for run, backing, sampler in zip(runs, seen, samplers, strict=True)
        )
        return base, huge

    def _run(
        self, argv: Sequence[str], environment: dict[str, str], method: Method | None
    ) -> Witnessed:
        sampler = PeakSampler()
        inherited = self._launcher.transparent
        self._launcher.transparent = method is not None and method.transparent
        again = self._launcher.runs > 0
        try:
            with self._progress.run(own_output=not again) as tick:
                outcome = self._launcher.execute(
                    argv, discard=again, environment=environment, tick=tick, started=sampler.start
                )
        finally:
            self._launcher.transparent = inherited
            backing = sampler.stop()
        if outcome.exec_errno is not None:
            raise launch.start_failure(argv[0], self._path, outcome.exec_errno)
        if outcome.code != self._code or outcome.run is None:
            raise self._failure(outcome, method)
        return Witnessed(outcome.run, backing, "" if backing else sampler.why_not)

    def _failure(self, outcome: Outcome, method: Method | None) -> TlbcostError:
        pages = "on base pages" if method is None else f"on huge pages by {method.name}"
        words = outcome.last_words.strip().splitlines()
        said = f": {words[-1]}" if words and self._launcher.runs > 1 else ""
        hint: str | None = "--prepare CMD restores before each run what the program changes"
        if method is not None:
            hint = "it may not run so: try another --with METHOD"
            if outcome.signal == signal.SIGBUS and method.pool_bytes is not None:
                hint = "the pool ran out while it ran: tlbcost pool reserve with more pages"
        elif self._launcher.runs == 1:
            hint = "fix the program first"
        return TlbcostError(
            f"{self._argv[0]} {outcome.describe()} {pages}{said}", hint, outcome.code or TOOL_FAILED
        )


def _have_at_hand(n_bytes: int) -> None:
    """Have the host of this VM back so much free memory of either page size, for some seconds.

    A first touch of memory that is not backed costs up to 50 times as much: as much on base as on
    huge pages, byte for byte, but it varies by more than either costs.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with (
        contextlib.suppress(OSError, ValueError),
        mmap.mmap(-1, n_bytes, flags) as huge,
        mmap.mmap(-1, n_bytes, flags) as base,
    ):
        huge.madvise(mmap.MADV_HUGEPAGE)
        base.madvise(mmap.MADV_NOHUGEPAGE)
        # The huge pages that are taken first, and then as much of what is left.
        for memory in (huge, base):
            memory.madvise(_MADV_POPULATE_WRITE)


def _peak_bytes(run: Run, backing: PeakMemory | None) -> int:
    """Of the largest process at least, of all of them where they were seen."""
    return max(run.max_rss_bytes, backing.resident_bytes if backing is not None else 0)
