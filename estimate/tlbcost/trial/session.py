# SPDX-License-Identifier: GPL-2.0-or-later
"""One program predicted, then run on base and on huge pages by several methods, in pairs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.accuracy import record
from tlbcost.common import units
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.paths import version
from tlbcost.common.progress import RunProgress, say
from tlbcost.common.units import Interval
from tlbcost.measured import catalog
from tlbcost.measured.method import (
    Method,
    drop_huge_page_requests,
    explain,
    heeds_tunables,
    is_proven,
)
from tlbcost.measured.whole_runs import Pair, PairRunner, Witnessed, settled
from tlbcost.memory.peak import PeakMemory
from tlbcost.model.gain import PredictedGain, fraction
from tlbcost.run.launch import Launcher, launcher_of, resolve
from tlbcost.run.outcome import Run
from tlbcost.symbols.region import region_of
from tlbcost.system.machine import Machine, current_machine, huge_page_bytes

if TYPE_CHECKING:
    from tlbcost.answer.request import AskedEngine
    from tlbcost.settings.change import Settings


# With fewer pairs nothing is known of how much differences vary.
MIN_PAIRS = 3
# More are not run to know a gain better.
MOST_PAIRS = 30


@dataclass(frozen=True, slots=True)
class Trial:
    """What huge pages by one method gave.

    `proven`: in MIN_PAIRS pairs at least half of the memory that the method should reach was on
    huge pages; else `why_not` says why it was not, and the shares are None. The shares are those
    of these pairs, of the time on base pages: 1 - t_huge/t_base of wall time, and the differences
    of user and system time over the CPU time on base pages; medians with their 95 % intervals.
    `difference_proven`: the interval of the first does not hold 0. `in_turns`: the runs of a pair
    took turns, and their wall time is that of their turns.
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
    in_turns: bool = False

    @property
    def proven_pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.pairs if is_proven(self.method, pair.backing))


@dataclass(frozen=True, slots=True)
class ProgramTrials:
    """The trials of one program, and what was predicted of it.

    `estimate`, of pages of `huge_page_bytes`, is None where there is none, for which `no_estimate`
    has the reason. `region`: the phase of it that times are of.
    """

    version: str
    date: str
    machine: Machine
    argv: tuple[str, ...]
    trials: tuple[Trial, ...]
    estimate: PredictedGain | None
    huge_page_bytes: int | None
    no_estimate: str | None
    notes: tuple[str, ...]
    region: str | None = None


def judge(
    method: Method, pairs: tuple[Pair, ...], unseen: str = "", path: Path | None = None
) -> Trial:
    covered = [pair for pair in pairs if is_proven(method, pair.backing)]
    notes = list(method.notes)
    seen = [pair.base_backing for pair in pairs if pair.base_backing is not None]
    already = [each for each in seen if base_huge_bytes(each) * 20 >= each.resident_bytes > 0]
    if already:
        notes.append(
            f"the program has {units.size(base_huge_bytes(already[0]))} of its "
            f"{units.size(already[0].resident_bytes)} on huge pages by itself, in the runs on "
            "base pages too"
        )
    if len(covered) < MIN_PAIRS:
        left = [pair.backing for pair in pairs if pair not in covered and pair.backing is not None]
        why = unseen or "its memory was not seen"
        if left:
            worst = min(left, key=lambda backing: backing.reached_fraction(method.reach) or 0.0)
            why = explain(worst, method, path)
        return Trial(method, pairs, proven=False, why_not=why, notes=tuple(notes))
    if len(covered) < len(pairs):
        notes.append(
            f"{len(pairs) - len(covered)} of {len(pairs)} pairs are left out, as less than half of "
            "the memory was on huge pages there"
        )
    whole = _median([1 - pair.huge.wall_ns / pair.base.wall_ns for pair in covered])
    return Trial(
        method,
        pairs,
        proven=True,
        why_not=None,
        measured_fraction=whole,
        measured_user_fraction=_median(
            [fraction(p.base.user_ns - p.huge.user_ns, p.base) for p in covered]
        ),
        measured_system_fraction=_median(
            [fraction(p.base.system_ns - p.huge.system_ns, p.base) for p in covered]
        ),
        difference_proven=whole is not None and not whole.low <= 0 <= whole.high,
        notes=tuple(notes),
    )


def _median(values: Sequence[float]) -> Interval | None:
    # Not at the top: NumPy takes a while to load.
    import numpy as np

    from tlbcost.common import bootstrap

    return bootstrap.median(np.array(values))


def base_huge_bytes(backing: PeakMemory) -> int:
    """Bytes on huge pages in a run on base pages; multi-size THP is counted system-wide."""
    return backing.huge_bytes - sum((backing.mthp_bytes or {}).values())


Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A program to run `pairs` times on base and on huge pages, by each of these methods.

    `within`: more pairs until the gain is known to this share of the run time. `methods`: names for
    --with; none: "auto". `prepare`: a shell command before each run.
    `engine`: what simulates for the estimate, if anything does. `turns`: the two runs of a pair at
    the same time, in turns, if the program allows that. `region`: times are of this phase of it.
    """

    argv: tuple[str, ...]
    methods: tuple[str, ...] = ()
    pairs: int = 5
    within: float | None = None
    prepare: str | None = None
    estimated: bool = True
    engine: AskedEngine = "auto"
    turns: bool = True
    region: str | None = None


def run_trials(request: TrialRequest, announce: Announce) -> ProgramTrials:
    """Predict, and run in pairs; `announce` is called with what happens.

    Our own environment is left without what asks for huge pages. Raises TlbcostError: 4 if a
    method cannot be prepared here, the program's own exit code if it failed.
    """
    # Whatever can be refused is refused before anything takes time.
    names = [
        each
        for name in request.methods
        for each in (catalog.every_size() if name == "mthp" else [name])
    ]
    asked = [None if name == "auto" else catalog.named(name) for name in names]
    for method in asked:
        if method is not None:
            _check_watchers(request, method)
            method.check()
    path = resolve(request.argv[0])
    region = None if request.region is None else region_of(request.region, path)
    # The estimate, too, is of the program on base pages.
    notes = drop_huge_page_requests(announce)
    with launcher_of(request.prepare) as launcher:
        launcher.region = region
        estimate, no_estimate = _estimate(request, launcher, announce)
        first = first_run(launcher, request.argv, path)
        trials: list[Trial] = []
        try:
            for method in asked or [None]:
                chosen = method
                if chosen is None:
                    heeds = first.backing is None or heeds_tunables(first.backing)
                    chosen, why = catalog.auto(first.sized_run, heeds_tunables=heeds)
                    announce(f"trying {chosen.name}: {why}")
                _check_watchers(request, chosen)
                trials.append(_trial(launcher, request, path, chosen, first, announce))
        except TimeLimitPassed:
            if not trials:
                raise
            announce(f"the time limit passed: {len(trials)} of {len(asked)} methods were run")
    return ProgramTrials(
        version=version(),
        date=now(),
        machine=current_machine(),
        argv=request.argv,
        trials=tuple(trials),
        estimate=estimate,
        huge_page_bytes=huge_page_bytes(),
        no_estimate=no_estimate,
        notes=notes,
        region=request.region,
    )


def _check_watchers(request: TrialRequest, method: Method) -> None:
    """No process can be traced twice."""
    if request.region is not None and method.name.startswith("run-thp"):
        raise TlbcostError(
            f"a region cannot be timed with {method.name}, which traces the program itself",
            "--with glibc-thp, or, as root, --with thp",
            CANNOT_MEASURE,
        )


def _estimate(
    request: TrialRequest, launcher: Launcher, announce: Announce
) -> tuple[PredictedGain | None, str | None]:
    if not request.estimated:
        return None, "not asked for"
    # Not at the top: it needs every model.
    from tlbcost.answer.estimate import estimate
    from tlbcost.answer.request import EstimateRequest

    launcher.transparent = False
    try:
        asked = EstimateRequest(
            argv=request.argv, prepare=request.prepare, engine=request.engine, region=request.region
        )
        return estimate(asked, launcher).gain, None
    except TlbcostError as error:
        if error.exit_code not in (CANNOT_MEASURE, TOOL_FAILED):
            raise
        announce(f"there will be no estimate to compare the trial with: {error}")
        return None, str(error)


def _trial(
    launcher: Launcher,
    request: TrialRequest,
    path: Path,
    method: Method,
    first: Witnessed,
    announce: Announce,
) -> Trial:
    """One method's trial; the system's settings are put back after it."""
    changing = method.changes_settings and os.geteuid() == 0
    with settled(announce, changing=changing) as settings:
        return run_trial(
            launcher, request.argv, path, method, request.pairs, settings,
            within=request.within, first=first, turns=request.turns,
        )  # fmt: skip


def first_run(launcher: Launcher, argv: Sequence[str], path: Path) -> Witnessed:
    """Run once on base pages, to learn the memory it takes. Raises TlbcostError if it failed."""
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


def to_table(found: ProgramTrials) -> str:
    prediction = None if found.estimate is None else record.prediction_of(found.estimate)
    programs = tuple(program_of(trial, found.argv, prediction) for trial in found.trials)
    return record.format_record(record.Record(found.machine, found.date, found.version, programs))


def program_of(
    trial: Trial, argv: tuple[str, ...], prediction: record.Prediction | None
) -> record.TriedProgram:
    return record.TriedProgram(
        Path(argv[0]).name,
        shlex.join(argv),
        trial.method.name,
        prediction,
        tuple(
            record.PairOfRuns(
                _half(pair.base),
                _half(pair.huge),
                None if pair.backing is None else pair.backing.resident_bytes,
                None if pair.backing is None else pair.backing.huge_bytes,
            )
            for pair in trial.proven_pairs
        ),
        None if trial.proven else trial.why_not,
        trial.in_turns,
    )


def _half(run: Run) -> record.PairedRun:
    return record.PairedRun(
        run.wall_ns, run.user_ns, run.system_ns, run.minor_faults, run.max_rss_bytes
    )
