# SPDX-License-Identifier: GPL-2.0-or-later
"""The gain of whole runs: pairs on base and on huge pages, by the remedy that is advised.

The two runs of a pair take turns on the same CPU (run/turns.py). Where they cannot, pairs are
base-huge, huge-base, base-huge, ...: a drift between runs adds to one half of the differences and
takes from the other. prctl(2) refuses base runs transparent huge pages, so that neither the
system's mode nor the program's own requests give it any.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median

from tlbcost.attribution.backing import Seen
from tlbcost.common import units
from tlbcost.common.cleanup import Stopped, TimeLimitPassed
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.progress import RunProgress, say
from tlbcost.common.units import Interval
from tlbcost.copies.run import Also
from tlbcost.measured import catalog, record
from tlbcost.measured.method import Method, base_environment, explain
from tlbcost.memory.peak import PeakMemory
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.run import launch
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run
from tlbcost.run.turns import (
    NotTogetherError,
    Way,
    cpus_for,
    has_room,
    objection,
    on_cpus,
    run_in_turns,
)
from tlbcost.settings.change import Settings, system_settings
from tlbcost.settings.journal import undisturbed
from tlbcost.system.machine import (
    cpu_ticks,
    huge_page_bytes,
    read_text,
    reports_free_pages,
    thp_mode,
)

# Linux 5.14.
_MADV_POPULATE_WRITE = 23
# Linux 6.1.
_MADV_COLLAPSE = 25
_LEAST_ON_CPU_BYTES = 16 << 20


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


class KilledAtLimitError(TlbcostError):
    """On huge pages the program takes more memory than its cgroup may."""


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
        self._ordinary: Run | None = None
        self.cpus: frozenset[int] | None = None  # where pairs run in turns; None: they do not

    def take_turns(self, run: Run) -> None:
        """From now on, pairs run at the same time if a program that takes this may."""
        self._ordinary = run
        why = objection(self._launcher, run)
        if why is not None:
            say(f"pairs of runs one after the other: {why}")
            return
        self.cpus = cpus_for(run)
        with on_cpus(self.cpus):
            leave_scattered_pages()

    def base(self, profiler: Sequence[str] = ()) -> Witnessed:
        return self._run(self._argv, self._environment, None, profiler)

    def huge(self, method: Method, profiler: Sequence[str] = ()) -> Witnessed:
        environment = method.environment_of(self._environment)
        return self._run([*method.prefix, *self._argv], environment, method, profiler)

    def pair(self, method: Method, *, huge_first: bool) -> tuple[Witnessed, Witnessed]:
        """A run on base pages and one on huge pages, at the same time or in either order."""
        if self._ordinary is not None:
            have_at_hand(self._ordinary, self.cpus)
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
        self,
        argv: Sequence[str],
        environment: dict[str, str],
        method: Method | None,
        profiler: Sequence[str],
    ) -> Witnessed:
        sampler = PeakSampler()
        inherited = self._launcher.transparent
        self._launcher.transparent = method is not None and method.transparent
        again = self._launcher.runs > 0
        try:
            with self._progress.run(own_output=not again) as tick:
                outcome = self._launcher.execute(
                    argv, discard=again, environment=environment, tick=tick,
                    started=None if profiler else sampler.start, profiler=profiler,
                )  # fmt: skip
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
            if outcome.signal == signal.SIGKILL and outcome.memory_limit_bytes is not None:
                raise KilledAtLimitError(
                    f"{pages} {self._argv[0]} {outcome.describe()}",
                    "a higher memory.max of its cgroup, or huge pages for a part of its memory",
                    outcome.code,
                )
            if outcome.signal == signal.SIGBUS and method.pool_bytes is not None:
                hint = "the pool ran out while it ran: tlbcost pool reserve with more pages"
        elif self._launcher.runs == 1:
            hint = "fix the program first"
        return TlbcostError(
            f"{self._argv[0]} {outcome.describe()} {pages}{said}", hint, outcome.code or TOOL_FAILED
        )


def have_at_hand(run: Run, cpus: Collection[int] | None = None) -> None:
    """Have the host of this VM back as much free memory of either page size, for some seconds.

    A first touch of memory that is not backed costs up to 50 times as much: as much on base as on
    huge pages, byte for byte, but it varies by more than either costs. `cpus`: where the program
    will run. A CPU keeps the scattered pages that were freed on it (mm/page_alloc.c, pcp lists): if
    that is another one, the program gets pages in a row, whose translations are cheaper.
    """
    if not has_room(run) or not reports_free_pages():
        return
    most = max(1, run.max_rss_bytes // _LEAST_ON_CPU_BYTES)
    where = sorted(cpus or os.sched_getaffinity(0))[:most]
    n_bytes, flags = run.max_rss_bytes // len(where), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with contextlib.suppress(OSError, ValueError), contextlib.ExitStack() as stack:
        for cpu in where:
            stack.enter_context(on_cpus([cpu]))
            huge, base = (stack.enter_context(mmap.mmap(-1, n_bytes, flags)) for _ in range(2))
            huge.madvise(mmap.MADV_HUGEPAGE)
            base.madvise(mmap.MADV_NOHUGEPAGE)
            # The huge pages that are taken first, and then as much of what is left.
            for memory in (huge, base):
                memory.madvise(_MADV_POPULATE_WRITE)


def leave_scattered_pages() -> None:
    """Put our own memory on huge pages, where the kernel can (MADV_COLLAPSE, Linux 6.1).

    It gives out scattered pages first: without us they would be the program's, and what that gets
    instead is cheaper to translate. An estimate has 70 MiB.
    """
    size, madvise = huge_page_bytes(), ctypes.CDLL(None).madvise
    if size is None:
        return
    for line in (read_text("/proc/self/maps") or "").splitlines():
        place, permissions, _, _, inode, *_ = line.split()
        first, last = (int(end, 16) for end in place.split("-"))
        start, end = -(-first // size) * size, last // size * size
        if permissions == "rw-p" and inode == "0" and start < end:
            # What it refuses stays as it is.
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_COLLAPSE)


def _peak_bytes(run: Run, backing: PeakMemory | None) -> int:
    """Of the largest process at least, of all of them where they were seen."""
    return max(run.max_rss_bytes, backing.resident_bytes if backing is not None else 0)


MIN_PAIRS = 2
_MOST_PAIRS = 30
_USUAL_BUDGET_S = 60.0
# Half an interval: narrow enough once the verdict is known, and narrower than anyone needs.
_DECIDED_FRACTION, _ENOUGH_FRACTION = 0.02, 0.0075
# With less of the memory on huge pages another method may do better; with still less, none does.
_LEAST_HUGE_PART, _SOME_HUGE_PART = 0.5, 0.1
# From what other programs have of all CPUs while a pair runs, pairs differ more than usual.
_OTHERS_FRACTION = 0.2
# After these pairs it is said what is known.
_TOLD = (2, 4, 8, 16)
# For another tlbcost to put the settings back.
_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class PairsRequest:
    """What to measure: `first` is an ordinary run, and `seen` the program's memory in it.

    `budget_s`: time for all pairs (None: as usual). `system`: root may set THP to "always"
    while they run. `also`: what is to be on huge pages besides anonymous memory: the code.
    """

    launcher: Launcher
    argv: tuple[str, ...]
    path: Path
    first: Outcome
    seen: Seen
    budget_s: float | None = None
    system: bool = True
    also: tuple[Also, ...] = ()

    @property
    def run(self) -> Run:
        assert self.first.run is not None
        return self.first.run

    @property
    def run_s(self) -> float:
        return max(self.run.cpu_ns, self.run.wall_ns) / 1e9

    @property
    def seconds(self) -> float:
        usual = max(_USUAL_BUDGET_S, 2 * MIN_PAIRS * self.run_s)
        return usual if self.budget_s is None else self.budget_s

    @property
    def busy_s(self) -> float:
        """More time where other load makes pairs differ more."""
        return self.seconds if self.budget_s is None else 0.0

    def fits(self) -> bool:
        return 2 * MIN_PAIRS * self.run_s <= self.seconds


def measure_runs(asked: PairsRequest) -> tuple[record.MeasuredGain | str, list[Run]]:
    """Run pairs until the verdict is known or the budget is over, and the runs on base pages.

    A method that reaches too little memory, or loses, gives way to the next one. A string says
    why nothing was measured.
    """
    traced = asked.launcher.region is None
    code = "text" in asked.also
    methods = catalog.candidates(asked.seen, system=asked.system, traced=traced, code=code)
    if not methods:
        return _no_method(asked.seen, code=code), []
    until = time.monotonic() + asked.seconds
    tried: list[_Pairs] = []
    with RunProgress("pairs of runs", MIN_PAIRS) as progress:
        runner = PairRunner(asked.launcher, asked.argv, asked.path, progress, asked.first.code)
        runner.take_turns(asked.run)
        for method in methods:
            if tried and time.monotonic() + 2 * MIN_PAIRS * asked.run_s > until:
                break
            say(f"measuring: pairs of runs on base and on huge pages ({method.words})")
            tried.append(_Pairs(method, until, asked.busy_s))
            tried[-1].run(runner, asked.path)
            if tried[-1].stopped or tried[-1].serves():
                break
        if all(each.why_not is not None for each in tried):
            # What huge pages do to a part of it is better than no answer.
            most = max(tried, key=lambda each: each.reached or 0.0)
            if (most.reached or 0.0) >= _SOME_HUGE_PART and not most.stopped:
                most.run(runner, asked.path, _SOME_HUGE_PART)
    best = max(tried, key=lambda each: each.rank)
    base = [pair.base for pair in best.done]
    if best.why_not is not None or len(best.done) < MIN_PAIRS:
        return best.why_not or "the time was up before two pairs had run", base
    others = [each.tried() for each in tried if each is not best]
    found = best.found(tuple(others), in_turns=runner.cpus is not None)
    return replace(found, also=asked.also), base


def _no_method(seen: Seen, *, code: bool) -> str:
    mode = thp_mode()
    if code and mode not in (None, "never"):
        return "tlbcost run --thp --text, which copies code to huge pages, works on x86-64 only"
    if catalog.is_disabled(seen):
        return "the program, or what it is started by, has huge pages off (PR_SET_THP_DISABLE)"
    if catalog.is_shared(seen):
        return "most of its memory is shared or of files, which no switch puts on huge pages"
    if mode is None:
        return "this kernel has no transparent huge pages"
    if mode == "never":
        return "transparent huge pages are off (/sys/kernel/mm/transparent_hugepage/enabled)"
    return "no switch gives this program huge pages here (as root, tlbcost sets THP to always)"


@contextlib.contextmanager
def settled(announce: Callable[[str], None], *, changing: bool) -> Iterator[Settings | None]:
    """The settings of the system, put back afterwards; None: they are not to change."""
    if changing:
        with system_settings(announce) as settings:
            yield settings
    else:
        # What another tlbcost changes during the runs, such as THP's mode, would be measured.
        with undisturbed(announce, _WAIT_S):
            yield None


@contextlib.contextmanager
def ready(method: Method) -> Iterator[None]:
    with settled(say, changing=method.needs_root) as settings:
        if settings is not None:
            for file, value in method.settings:
                settings.write(file, value)
        yield


@dataclass(slots=True)
class _Pairs:
    """The pairs of one method so far. `why_not`: the reason why they say nothing."""

    method: Method
    until: float
    busy_s: float
    done: list[Pair] = field(default_factory=list)
    why_not: str | None = None
    reached: float | None = None  # where it is too small a part of the memory
    stopped: bool = False
    longest_s: float = 0.0
    busy: bool = False

    @property
    def usable(self) -> bool:
        return self.why_not is None and len(self.done) >= MIN_PAIRS

    @property
    def rank(self) -> float:
        """The larger, the better."""
        return self.total().value if self.usable else -float("inf")

    def serves(self) -> bool:
        """It put the memory on huge pages, and did not lose."""
        return self.usable and self.total().high > 0

    def run(self, runner: PairRunner, path: Path, least_part: float = _LEAST_HUGE_PART) -> None:
        """Run pairs; stop at once if less than `least_part` of the memory is on huge pages."""
        self.why_not = None
        try:
            with ready(self.method):
                self._run(runner, path, least_part)
        except TimeLimitPassed:
            self.stopped = True
        except Stopped as stop:
            # Ctrl-C ends with what is known.
            if stop.number != signal.SIGINT or len(self.done) < MIN_PAIRS:
                raise
            self.stopped = True
        except TlbcostError as error:
            killed = isinstance(error, KilledAtLimitError)
            self.why_not = record.OverLimit(error) if killed else str(error)
            say(f"{self.method.name}: {error}")

    def _run(self, runner: PairRunner, path: Path, least_part: float) -> None:
        while self._wants_more():
            begun, ticks, spent_ns = time.monotonic(), cpu_ticks(), time.process_time_ns()
            base, huge = runner.pair(self.method, huge_first=len(self.done) % 2 == 1)
            self.longest_s = max(self.longest_s, time.monotonic() - begun)
            pair = Pair(base.run, huge.run, huge.backing, base.backing)
            # Ours is mostly that of having memory at hand.
            own_ns = pair.base.cpu_ns + pair.huge.cpu_ns + time.process_time_ns() - spent_ns
            busy = _others(ticks, own_ns) > _OTHERS_FRACTION
            if busy and not self.busy:
                say("other programs use the CPUs: pairs differ more, so more of them are run")
                self.until += self.busy_s
            self.busy |= busy
            base_memory = pair.base_backing
            # It undoes the refusal (prctl).
            if base_memory and 2 * base_memory.anonymous_huge_bytes > base_memory.resident_bytes:
                self.why_not = "its runs on base pages have huge pages, too, which it asks for"
                say(f"{self.method.name}: {self.why_not}")
                return
            part = _huge_part(pair)
            self.done.append(pair)
            if part is not None and part < least_part and pair.backing is not None:
                self.reached, self.why_not = part, explain(pair.backing, self.method, path)
                say(f"{self.method.name}: {self.why_not}")
                return
            if len(self.done) in _TOLD:
                user = self.user()
                say(
                    f"after {len(self.done)} pairs: {units.percent(user.value)} of the time saved "
                    f"in user mode ({units.range_of(user)}), {units.percent(self.total().value)} "
                    f"in all ({units.range_of(self.total())})"
                )

    def _wants_more(self) -> bool:
        n = len(self.done)
        if n < MIN_PAIRS:
            return True
        if n >= _MOST_PAIRS or time.monotonic() + self.longest_s > self.until:
            return False
        if n % 2:
            # As many in either order.
            return True
        total = self.total()
        if total.high < 0:
            # How much is lost hardly matters.
            return False
        half = (total.high - total.low) / 2
        return half > (_DECIDED_FRACTION if record.decides(total) else _ENOUGH_FRACTION)

    def total(self) -> Interval:
        return self._mean(lambda run: run.cpu_ns)

    def user(self) -> Interval:
        return self._mean(lambda run: run.user_ns)

    def _mean(self, part: Callable[[Run], int]) -> Interval:
        """What was saved of a part of the CPU time, as a share of all of it."""
        return record.mean_of_pairs(
            [(part(pair.base) - part(pair.huge)) / (pair.base.cpu_ns or 1) for pair in self.done],
            busy=self.busy,
        )

    def tried(self) -> record.TriedMethod:
        known = self.why_not is None and self.done
        return record.TriedMethod(
            name=self.method.name,
            total_fraction=self.total() if known else None,
            why_not=self.why_not,
        )

    def found(
        self, others: tuple[record.TriedMethod, ...], *, in_turns: bool
    ) -> record.MeasuredGain:
        parts = [part for pair in self.done if (part := _huge_part(pair)) is not None]
        cpu_s = fmean(pair.base.cpu_ns for pair in self.done) / 1e9
        system = self._mean(lambda run: run.system_ns)
        return record.MeasuredGain(
            source="runs in turns" if in_turns else "runs one by one",
            total_fraction=self.total(),
            user_fraction=self.user(),
            system_fraction=system,
            null_fraction=None,
            rounds=len(self.done),
            dropped={},
            huge_part=fmean(parts) if parts else None,
            seen_fraction=1.0,
            method=self.method.name,
            start_cost_s=Interval(-system.value * cpu_s, -system.high * cpu_s, -system.low * cpu_s),
            growth_bytes=growth(self.done),
            more_pairs=record.more_pairs(self.total(), len(self.done)),
            others=others,
        )


def _others(before: list[int] | None, own_ns: int) -> float:
    """The share of all CPUs' time since `before` that was neither idle nor `own_ns`."""
    after = cpu_ticks()
    if before is None or after is None:
        return 0.0
    since = [now - then for now, then in zip(after, before, strict=True)]
    own = own_ns / 1e9 * os.sysconf("SC_CLK_TCK")
    return (sum(since) - since[3] - since[4] - own) / (sum(since) or 1)


def growth(pairs: Sequence[Pair]) -> Interval:
    """Bytes that memory at the peak grew by: the median and the range of some pairs."""
    grown = [float(pair.huge_peak_bytes - pair.base_peak_bytes) for pair in pairs]
    return Interval(median(grown), min(grown), max(grown))


def _huge_part(pair: Pair) -> float | None:
    """Of the anonymous memory, what was on huge pages; None: not seen, or there was none."""
    return None if pair.backing is None else pair.backing.reached_fraction("anonymous")
