# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a program cost on base and on huge pages, run in turn?

The two runs of a pair take turns on the same CPU (run/turns.py). Where they cannot, pairs are
base-huge, huge-base, base-huge, ...: what drifts between runs adds to one half of the differences
and takes from the other. Base runs are refused transparent huge pages by prctl(2), so
that neither the system's mode nor the program's own requests give it any.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.progress import RunProgress, say
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.run import program
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run
from tlbcost.run.turns import NotTogetherError, Way, cpus_for, objection, run_in_turns
from tlbcost.trial.comparison import MIN_PAIRS, MOST_PAIRS, Pair, Trial, Witnessed, judge
from tlbcost.trial.method import Method, base_environment

if TYPE_CHECKING:
    from tlbcost.settings.change import Settings


def first_run(launcher: Launcher, argv: Sequence[str], path: Path) -> Witnessed:
    """Run the program on base pages once, to learn how much memory it takes.

    Its output is shown if it is the launcher's first. Raises TlbcostError if it failed.
    """
    with RunProgress("first run on base pages", 1) as progress:
        return _Runner(launcher, argv, path, progress).base()


def run_trial(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    method: Method,
    pairs: int,
    settings: Settings | None,
    *,
    within: float | None = None,
    first: Witnessed | None = None,
    turns: bool = False,
) -> Trial:
    """Run the program `pairs` times on base and on huge pages, and compare.

    `within`: more pairs, up to MOST_PAIRS, until the user time saved is known to this share of the
    run time. `turns`: both runs of a pair at the same time, if the program allows that.

    `first` is a run on base pages from before, else there is one. Without `settings` nothing of
    the system is changed. Raises TlbcostError: 4 if the system cannot be made ready, the
    program's own exit code if it failed.
    """
    before = first or first_run(launcher, argv, path)
    method.prepare(settings, before.sized_run)
    done: list[tuple[Witnessed, Witnessed]] = []
    note = ""
    try:
        with RunProgress(f"trial of {method.name}", 2 * pairs) as progress:
            runner = _Runner(launcher, argv, path, progress)
            if turns:
                runner.take_turns(before.run)
            while len(done) < pairs or _wants_more(method, done, within):
                progress.expect(max(len(done) + 1, pairs) * (1 if runner.cpus is not None else 2))
                done.append(runner.pair(method, huge_first=len(done) % 2 == 1))
    except TimeLimitPassed:
        if len(done) < MIN_PAIRS:
            raise
        note = f"stopped by the time limit after {len(done)} of {pairs} pairs"
        say(f"{method.name}: {note}")
    found = _pairs(done)
    reasons = [huge.why_not for _, huge in done if huge.why_not]
    trial = judge(method, found, reasons[0] if reasons else "", path)
    notes = (*trial.notes, note) if note else trial.notes
    return replace(trial, notes=notes, in_turns=runner.cpus is not None)


def _pairs(done: Sequence[tuple[Witnessed, Witnessed]]) -> tuple[Pair, ...]:
    return tuple(Pair(base.run, huge.run, huge.backing, base.backing) for base, huge in done)


def _wants_more(
    method: Method, done: Sequence[tuple[Witnessed, Witnessed]], within: float | None
) -> bool:
    """The gain is not known well enough, and another pair would help."""
    if within is None or len(done) >= MOST_PAIRS:
        return False
    user = judge(method, _pairs(done)).measured_user_fraction
    return user is not None and (user.high - user.low) / 2 > within


class _Runner:
    """Runs one program in either way."""

    def __init__(
        self, launcher: Launcher, argv: Sequence[str], path: Path, progress: RunProgress
    ) -> None:
        self._launcher = launcher
        self._progress = progress
        self._argv = argv
        self._path = path
        self._environment, _ = base_environment()
        self.cpus: frozenset[int] | None = None  # where pairs run in turns; None: they do not

    def take_turns(self, run: Run) -> None:
        """From now on, pairs run at the same time if a program that takes this may."""
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
        """Both in turns; None: that is not possible, and is not tried again.

        The first one runs alone for a moment, and the other one at its end: they change places.
        """
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
        runs = [outcome.run for outcome in outcomes if not outcome.failed and outcome.run]
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
                    argv,
                    discard=again,
                    environment=environment,
                    tick=tick,
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
