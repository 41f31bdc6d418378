# SPDX-License-Identifier: GPL-2.0-or-later
"""How much faster is a program on huge pages? Runs it on base and huge pages in turn, and compares.

Pairs are base-huge, huge-base, base-huge, ...: what drifts between runs adds to one half of the
differences and takes from the other. Base runs are refused transparent huge pages by prctl(2), so
that neither the system's mode nor the program's own requests give it any.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common import units
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.memory.peak import PeakMemory
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.model.gain import run_time_ns
from tlbcost.run import program
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run
from tlbcost.trial.method import Method, base_environment
from tlbcost.trial.uncovered import explain

if TYPE_CHECKING:
    from tlbcost.settings.change import Settings

# Less than this part of the memory that a method should reach on huge pages is no trial of them.
PROVEN_FRACTION = 0.5
# With fewer pairs nothing is known of how much differences vary.
MIN_PAIRS = 3


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A run, and its memory at the peak; `why_not` if that was not seen."""

    run: Run
    backing: PeakMemory | None
    why_not: str = ""

    @property
    def peak_bytes(self) -> int:
        """All memory at the peak."""
        return _peak_bytes(self.run, self.backing)

    @property
    def sized_run(self) -> Run:
        """The run, with all memory at its peak instead of the largest process's."""
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
        """All memory at the peak of the run on base pages."""
        return _peak_bytes(self.base, self.base_backing)

    @property
    def huge_peak_bytes(self) -> int:
        """All memory at the peak of the run on huge pages; hugetlb pages only if they were seen."""
        return _peak_bytes(self.huge, self.backing)


@dataclass(frozen=True, slots=True)
class Trial:
    """What huge pages by one method gave.

    `proven`: in MIN_PAIRS pairs at least half of the memory that the method should reach was on
    huge pages; else `why_not` says why it was not, and the shares are None. The shares are those
    of these pairs, of the time on base pages: 1 - t_huge/t_base of wall time, and the differences
    of user and system time over the run time on base pages; medians with their 95 % intervals.
    `difference_proven`: the interval of the first does not hold 0.
    """

    method: Method
    pairs: tuple[Pair, ...]
    proven: bool
    why_not: str | None
    measured_fraction: Interval | None = None
    measured_user_fraction: Interval | None = None
    measured_system_fraction: Interval | None = None
    difference_proven: bool = False
    notes: tuple[str, ...] = ()

    @property
    def proven_pairs(self) -> tuple[Pair, ...]:
        """The pairs that the shares are from, where it is proven."""
        return tuple(pair for pair in self.pairs if is_proven(self.method, pair.backing))


def first_run(launcher: Launcher, argv: Sequence[str], path: Path) -> Witnessed:
    """Run the program on base pages once, to learn how much memory it takes.

    Its output is shown if it is the launcher's first. Raises TlbcostError if it failed.
    """
    return _Runner(launcher, argv, path).base()


def run_trial(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    method: Method,
    pairs: int,
    settings: Settings | None,
    *,
    first: Witnessed | None = None,
) -> Trial:
    """Run the program `pairs` times on base and on huge pages, and compare.

    `first` is a run on base pages from before, else there is one. Without `settings` nothing of
    the system is changed. Raises TlbcostError: 4 if the system cannot be made ready, the
    program's own exit code if it failed.
    """
    runner = _Runner(launcher, argv, path)
    before = first or runner.base()
    method.prepare(settings, before.sized_run)
    done: list[tuple[Witnessed, Witnessed]] = []
    for number in range(pairs):
        if number % 2:
            huge = runner.huge(method)
            done.append((runner.base(), huge))
        else:
            base = runner.base()
            done.append((base, runner.huge(method)))
    found = tuple(Pair(base.run, huge.run, huge.backing, base.backing) for base, huge in done)
    reasons = [huge.why_not for _, huge in done if huge.why_not]
    return judge(method, found, reasons[0] if reasons else "", path)


def covered_fraction(method: Method, backing: PeakMemory | None) -> float | None:
    """The share on huge pages of the memory that the method should reach; None: not known."""
    return None if backing is None else backing.reached_fraction(method.reach)


def is_proven(method: Method, backing: PeakMemory | None) -> bool:
    """Whether enough of what the method should reach was seen on huge pages."""
    return (covered_fraction(method, backing) or 0.0) >= PROVEN_FRACTION


def judge(
    method: Method, pairs: tuple[Pair, ...], unseen: str = "", path: Path | None = None
) -> Trial:
    """What these pairs say. `unseen`: why the memory of a run was not seen."""
    covered = [pair for pair in pairs if is_proven(method, pair.backing)]
    notes = list(method.notes)
    already = [pair.base_backing for pair in pairs if pair.base_backing and _is_huge(pair)]
    if already:
        notes.append(
            f"the program has {units.size(base_huge_bytes(already[0]))} of its "
            f"{units.size(already[0].resident_bytes)} on huge pages by itself, in the runs on "
            "base pages too"
        )
    if len(covered) < MIN_PAIRS:
        why = _why_not(method, [pair for pair in pairs if pair not in covered], unseen, path)
        return Trial(method, pairs, proven=False, why_not=why, notes=tuple(notes))
    if len(covered) < len(pairs):
        left = len(pairs) - len(covered)
        notes.append(
            f"{left} of {len(pairs)} pairs are left out, as less than half of the memory was on "
            "huge pages there"
        )
    whole = _median([1 - pair.huge.wall_ns / pair.base.wall_ns for pair in covered])
    return Trial(
        method,
        pairs,
        proven=True,
        why_not=None,
        measured_fraction=whole,
        measured_user_fraction=_median(
            [(p.base.user_ns - p.huge.user_ns) / run_time_ns(p.base) for p in covered]
        ),
        measured_system_fraction=_median(
            [(p.base.system_ns - p.huge.system_ns) / run_time_ns(p.base) for p in covered]
        ),
        difference_proven=whole is not None and not whole.low <= 0 <= whole.high,
        notes=tuple(notes),
    )


def _peak_bytes(run: Run, backing: PeakMemory | None) -> int:
    """Of the largest process at least, of all of them where they were seen."""
    return max(run.max_rss_bytes, backing.resident_bytes if backing is not None else 0)


def _median(values: Sequence[float]) -> Interval | None:
    # Not at the top: NumPy takes a while to load.
    import numpy as np

    from tlbcost.common import bootstrap

    return bootstrap.median(np.array(values))


def _is_huge(pair: Pair) -> bool:
    backing = pair.base_backing
    return backing is not None and base_huge_bytes(backing) * 20 >= backing.resident_bytes > 0


def base_huge_bytes(backing: PeakMemory) -> int:
    """What a run on base pages has on huge pages.

    Multi-size THP is counted for the whole system: here it is other programs', since this one is
    refused it.
    """
    return backing.huge_bytes - sum((backing.mthp_bytes or {}).values())


def _why_not(method: Method, pairs: Sequence[Pair], unseen: str, path: Path | None) -> str:
    """Which memory stayed on base pages, and why."""
    seen = [pair.backing for pair in pairs if pair.backing is not None]
    if not seen:
        return unseen or "its memory was not seen"
    worst = min(seen, key=lambda backing: backing.reached_fraction(method.reach) or 0.0)
    return explain(worst, method, path)


class _Runner:
    """Runs one program in either way."""

    def __init__(self, launcher: Launcher, argv: Sequence[str], path: Path) -> None:
        self._launcher = launcher
        self._argv = argv
        self._path = path
        self._environment, _ = base_environment()

    def base(self) -> Witnessed:
        return self._run(self._argv, self._environment, None)

    def huge(self, method: Method) -> Witnessed:
        environment = method.environment_of(self._environment)
        return self._run([*method.prefix, *self._argv], environment, method)

    def _run(
        self, argv: Sequence[str], environment: dict[str, str], method: Method | None
    ) -> Witnessed:
        sampler = PeakSampler()
        inherited = self._launcher.transparent
        self._launcher.transparent = method is not None and method.transparent
        try:
            outcome = self._launcher.execute(
                argv,
                discard=self._launcher.runs > 0,
                environment=environment,
                started=sampler.start,
            )
        finally:
            self._launcher.transparent = inherited
            backing = sampler.stop()
        if outcome.exec_errno is not None:
            raise program.start_failure(argv[0], self._path, outcome.exec_errno)
        if outcome.failed or outcome.run is None:
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
            f"no trial: {self._argv[0]} {outcome.describe()} {pages}{said}",
            hint,
            outcome.code or TOOL_FAILED,
        )
