# SPDX-License-Identifier: GPL-2.0-or-later
"""What do huge pages save whole runs? The program runs on both at the same time, in turns."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.common.progress import RunProgress, Tick, say
from tlbcost.measured.record import MeasuredGain, too_busy
from tlbcost.measured.statistics import decides, mean_of_rounds, repeated
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run
from tlbcost.run.turns import (
    NotTogetherError,
    Way,
    cpus_for,
    objection,
    run_in_turns,
    run_one_by_one,
)
from tlbcost.system.balloon import reports_free_pages
from tlbcost.thp import program as thp

MIN_ROUNDS = 2
_MOST_ROUNDS = 30
_WAYS = 3
# Narrower is not needed: the worthwhile gain is twice that.
_ENOUGH_FRACTION = 0.0075
# From this many rounds on, an interval in which the verdict does not change is narrow enough.
_DECIDED_ROUNDS = 3
# On fewer of the pages that could be huge, it is not measured what these do.
_LEAST_HUGE_PART = 0.5


def predicted_s(outcome: Outcome) -> float:
    """How long the fewest rounds take, at least."""
    run = outcome.run
    runs = MIN_ROUNDS * _WAYS + reports_free_pages()
    return 0.0 if run is None else runs * max(run.cpu_ns, run.wall_ns) / 1e9


def measure_runs(
    launcher: Launcher,
    argv: Sequence[str],
    environment: Mapping[str, str],
    first: Outcome,
    limit_s: float,
) -> MeasuredGain | str:
    """Run it in rounds of two runs on base pages and one on huge ones; or why that says nothing.

    `first`: a run on its own; `limit_s`: begin no round that would end later.
    """
    if not thp.is_here():
        return "whole runs are put on huge pages on x86-64 only; tlbcost trial measures here"
    try:
        thp.check_possible()
    except TlbcostError as error:
        return str(error)
    assert first.run is not None
    if (why := objection(launcher, first.run)) is not None:
        return why
    rounds = _Rounds(launcher, tuple(argv), environment, first, cpus_for(first.run))
    until = time.monotonic() + limit_s
    try:
        with RunProgress("rounds on base and on huge pages", MIN_ROUNDS) as progress:
            if reports_free_pages():
                with progress.run(own_output=False) as tick:
                    rounds.touch(tick)
            while (why := rounds.failed) is None and rounds.wants_more(until):
                with progress.run(own_output=False) as tick:
                    rounds.run(tick)
    except TimeLimitPassed:
        why = None if rounds.done >= MIN_ROUNDS else "the time limit passed"
    return rounds.found() if why is None else why


@dataclass(slots=True)
class _Rounds:
    """The rounds so far: base, base again and huge."""

    launcher: Launcher
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    first: Outcome
    cpus: frozenset[int]
    together: bool = True
    runs: list[tuple[Run, Run, Run]] = field(default_factory=list)
    parts: list[float] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    failed: str | None = None
    first_system_ns: int | None = None
    longest_s: float = 0.0

    @property
    def done(self) -> int:
        return len(self.runs)

    def wants_more(self, until: float) -> bool:
        """Another round is needed, and there is time."""
        tried = self.done + self.dropped.total()
        if tried < MIN_ROUNDS:
            return True
        late = time.monotonic() + self.longest_s > until
        if late or tried >= _MOST_ROUNDS or self.done < MIN_ROUNDS:
            return not late and tried < 2 * MIN_ROUNDS
        if too_busy(self._null()) is not None:
            # A moment's noise in few rounds is not a busy machine.
            return True
        total = self._mean(_cpu_time)
        if self.done >= _DECIDED_ROUNDS and decides(repeated(total)):
            return False
        return (total.high - total.low) / 2 > _ENOUGH_FRACTION

    def touch(self, tick: Tick | None) -> None:
        """One run on huge pages alone: the host backs those that it took back when they were free.

        Later ones get the same again. Else what the host does would be most of the first round.
        """
        [outcome] = run_one_by_one(self.launcher, [self._huge()], tick)
        if outcome.code == self.first.code and outcome.run is not None:
            self.first_system_ns = outcome.run.system_ns

    def _huge(self, sampler: PeakSampler | None = None) -> Way:
        started = None if sampler is None else sampler.start
        return Way((*thp.launcher(), *self.argv), self.environment, True, started)

    def run(self, tick: Tick | None) -> None:
        """One more round: in turns; what two runs at the same time would spoil, one by one."""
        begun = time.monotonic()
        try:
            outcomes, part = self._attempt(tick)
        except NotTogetherError as error:
            say(f"runs on base and on huge pages come one after the other: {error}")
            self.together = False
            # Its last run is a whole one: what it writes is there again.
            outcomes, part = self._attempt(tick)
        self.longest_s = max(self.longest_s, time.monotonic() - begun)
        self._take(outcomes, part)

    def _attempt(self, tick: Tick | None) -> tuple[Sequence[Outcome], float | None]:
        """Base, base again and huge, and what part of the last was. Raises NotTogetherError."""
        sampler = PeakSampler()
        base = Way(self.argv, self.environment, transparent=False)
        ways = (base, base, self._huge(sampler))
        # The first one is alone for a moment.
        order = random.sample(range(_WAYS), _WAYS)
        mixed = [ways[i] for i in order]
        try:
            if self.together:
                found = run_in_turns(self.launcher, mixed, self.cpus, tick)
            else:
                found = run_one_by_one(self.launcher, mixed, tick)
        finally:
            backing = sampler.stop()
        part = None if backing is None else backing.reached_fraction("anonymous")
        return [found[order.index(i)] for i in range(_WAYS)], part

    def _take(self, outcomes: Sequence[Outcome], part: float | None) -> None:
        for outcome, pages in zip(outcomes, ("base", "base", "huge"), strict=True):
            if outcome.code != self.first.code or outcome.run is None:
                self.failed = f"a run on {pages} pages, next to two others, {outcome.describe()}"
                return
        if part is not None and part < _LEAST_HUGE_PART:
            self.dropped["not on huge pages"] += 1
            return
        if part is not None:
            self.parts.append(part)
        base, again, huge = (outcome.run for outcome in outcomes)
        assert base is not None
        assert again is not None
        assert huge is not None
        self.runs.append((base, again, huge))

    def _mean(self, part: Callable[[Run], int]) -> Interval:
        """The mean of a part of the CPU time, as a share of all of it."""
        differences, nulls = [], []
        for base, again, huge in self.runs:
            cpu = (base.cpu_ns + again.cpu_ns) / 2 or 1.0
            differences.append(((part(base) + part(again)) / 2 - part(huge)) / cpu)
            nulls.append((part(base) - part(again)) / cpu)
        return mean_of_rounds(differences, nulls)

    def _null(self) -> Interval:
        """Of user time: what a page fault costs may vary without any neighbour."""
        nulls = [
            (base.user_ns - again.user_ns) / (base.cpu_ns or 1) for base, again, _ in self.runs
        ]
        found = self._mean(_user_time)
        # A null has 4/3 of a difference's variance.
        half = (found.high - found.low) / 2 * (4 / 3) ** 0.5
        return Interval(fmean(nulls), fmean(nulls) - half, fmean(nulls) + half)

    def found(self) -> MeasuredGain | str:
        """What all rounds say."""
        if self.done < MIN_ROUNDS:
            why = ", ".join(f"{n} {what}" for what, n in self.dropped.items())
            return f"{self.done} rounds of runs could be used ({why or 'too little time'})"
        null = self._null()
        if (busy := too_busy(null)) is not None:
            return busy
        return MeasuredGain(
            source="runs in turns" if self.together else "runs one by one",
            total_fraction=repeated(self._mean(_cpu_time)),
            user_fraction=repeated(self._mean(_user_time)),
            system_fraction=self._mean(_system_time),
            null_fraction=null,
            rounds=self.done,
            dropped=dict(self.dropped),
            huge_part=fmean(self.parts) if self.parts else None,
            seen_fraction=1.0,
            returned_fraction=self._returned(),
        )

    def _returned(self) -> float | None:
        if self.first_system_ns is None:
            return None
        later = fmean(huge.system_ns for _, _, huge in self.runs)
        cpu = fmean(base.cpu_ns for base, _, _ in self.runs)
        return max(0.0, self.first_system_ns - later) / cpu if cpu else None


def _cpu_time(run: Run) -> int:
    return run.cpu_ns


def _user_time(run: Run) -> int:
    return run.user_ns


def _system_time(run: Run) -> int:
    return run.system_ns
