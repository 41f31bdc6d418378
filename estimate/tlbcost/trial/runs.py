# SPDX-License-Identifier: GPL-2.0-or-later
"""The trial of one method: pairs of runs, compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.progress import RunProgress, say
from tlbcost.measured.method import Method
from tlbcost.measured.pairs import Pair, PairRunner, Witnessed
from tlbcost.run.launch import Launcher
from tlbcost.trial.comparison import MIN_PAIRS, MOST_PAIRS, Trial, judge

if TYPE_CHECKING:
    from tlbcost.settings.change import Settings


def first_run(launcher: Launcher, argv: Sequence[str], path: Path) -> Witnessed:
    """Run the program on base pages once, to learn how much memory it takes.

    Its output is shown if it is the launcher's first. Raises TlbcostError if it failed.
    """
    with RunProgress("first run on base pages", 1) as progress:
        return PairRunner(launcher, argv, path, progress).base()


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
            runner = PairRunner(launcher, argv, path, progress)
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
