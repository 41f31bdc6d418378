# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of a program: native, with counters, followed by copies, sampled, simulated, measured."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tlbcost.answer.record import Choice, RunPlan, not_copied
from tlbcost.answer.request import EstimateRequest
from tlbcost.attribution.backing import Seen
from tlbcost.attribution.samples import Sampled, sample_misses
from tlbcost.attribution.sites import recording
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError, tool_error
from tlbcost.common.progress import duration, say
from tlbcost.copies import run as copies
from tlbcost.copies.estimator import CopiedRun
from tlbcost.counters.count_runs import count_program
from tlbcost.counters.event_counts import EventCounts, join_runs
from tlbcost.measured.fault_times import with_fault_times
from tlbcost.measured.method import AS_IT_RUNS
from tlbcost.measured.record import MeasuredGain
from tlbcost.measured.whole_runs import PairsRequest, measure_runs
from tlbcost.memory.first_touch import SLOW_NS, Stalls, first_touches
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.processors.events import Pmu
from tlbcost.run.launch import Launcher, native_runs
from tlbcost.run.outcome import Outcome, Run, check_outcome
from tlbcost.simulator.core import Conditions, Core
from tlbcost.simulator.memory_tables import plan_for
from tlbcost.simulator.run import Simulation, find_valgrind, simulate

# Looking at its memory takes so small a part of the last run while it grows.
_REST = 10
_USUAL_RUNS = 3
_USUAL_SECONDS = 30.0
# A run of this length has enough copies, and an estimate by copies takes little longer. Two more of
# a program that takes 10 s would be half of the time that its estimate may take.
_LONG_S = 6.0
# Short programs are run again for more copies of them: so often, and for so long in all.
_MOST_RUNS = 20
_REPEATED_S = 7.0
_MOST_LONG_RUNS = 4
# A process on busy CPUs is followed again for more copies of it: so often in all.
_MOST_FOLLOWS = 4
# Of more than one run copies are made for so long.
_RUNS_S = 24.0
_COPIES = 8
# Copies of a large program wait for one another: for so long after its end.
_AFTER_S = 12.0
_SECONDS = 30.0
# Of a program that makes them all the time: while they are recorded, it takes ten times as long.
_RECORDED_CALLS = 10_000


@dataclass(frozen=True, slots=True)
class ProgramRuns:
    """The results of running the program; `seen`: its memory in the last native run, at its peak.

    `unfinished`: what the time limit cut short.
    """

    native: tuple[Outcome, ...]
    counted: EventCounts | None
    simulation: Simulation | None
    seen: Seen
    sampled: Sampled | None = None
    notes: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    copied: CopiedRun | None = None
    measured: MeasuredGain | str | None = None
    not_simulated: str | None = None
    stalls: Stalls | None = None


def run_program(
    request: EstimateRequest,
    plan: RunPlan,
    launcher: Launcher,
    path: Path,
    *,
    attributed: bool = False,
) -> ProgramRuns:
    """Time the program, with counters where these are read, and `attributed`: samples; simulate.

    Once the time limit has passed, what was counted is the result. Raises TimeLimitPassed if
    nothing was, and TlbcostError.
    """
    conditions = Conditions(plan.core, plan.calibrated.calibration, own=request.calibration is None)
    copied_too = plan.copies is not None
    sampler = PeakSampler(_REST, frames=conditions.frames_matter, copied=copied_too)
    sampled = None
    unfinished: list[str] = []
    try:
        native, counted = _native(request, plan, launcher, path, sampler, conditions)
        if attributed and plan.choice.pmu is not None:
            with _cut_short("sampling", unfinished):
                sampled = sample_misses(
                    launcher, request.argv, path, plan.choice.pmu, native[0], sampler.start
                )
    finally:
        sampler.stop()
    simulation, copied, why = None, None, None
    if plan.copies is not None:
        folders = run_folders(launcher, native)
        native = without_copies_of(folders, native)
        simulation, copied, why = said_by_copies(
            plan.copies, folders, native, path, sampler.peak(),
            recorded=sites_folder(launcher) if request.sites else None,
        )  # fmt: skip
        if why is not None:
            simulation, copied = None, None
    if request.sites and not (simulation and any(each.sites for each in simulation.attributions)):
        say("no allocation was recorded: that needs copies of the program, and malloc in a library")
    measured: MeasuredGain | str | None = None
    with _cut_short("the measurement on huge pages", unfinished):
        measured, base = measure_program(request, launcher, path, native, sampler.peak(), copied)
        # Their times are the program's, too.
        if (
            isinstance(measured, MeasuredGain)
            and measured.source == "runs in turns"
            and measured.method != AS_IT_RUNS
        ):
            native = [*native, *(replace(native[0], run=run) for run in base)]
    stalls = None
    with _cut_short("the timing of page faults", unfinished):
        stalls = _stalls(request, sampler.peak(), ended=True)
        slow = stalls is not None and stalls.huge is not None and stalls.huge.worst_ns >= SLOW_NS
        if slow and isinstance(measured, MeasuredGain) and measured.method and not request.region:
            assert stalls is not None
            asked = _pairs(request, launcher, path, native[0], sampler.peak())
            stalls = with_fault_times(stalls, asked, measured.method)
    alone = isinstance(measured, MeasuredGain) and request.may_stand_alone
    not_simulated = None
    try:
        if plan.unsimulated is not None:
            raise plan.unsimulated
        if plan.copies is not None and simulation is None:
            not_copied(request, why or "")
            plan = replace(plan, valgrind=find_valgrind())
        if simulation is None and plan.geometry is not None and plan.valgrind is not None:
            core = conditions.core_then(sampler.isolated_pages())
            with _cut_short("the simulation", unfinished, partly=alone or counted is not None):
                simulation = _simulate(request, plan, launcher, native, core)
        if simulation is None and counted is None:
            not_simulated = unfinished[-1]
    except TlbcostError as error:
        if not alone:
            raise
        not_simulated = str(error)
        say(f"what was measured stands alone: {error}")
    return ProgramRuns(
        tuple(native), counted, simulation, sampler.peak(), sampled, conditions.notes,
        tuple(unfinished), copied, measured, not_simulated, stalls,
    )  # fmt: skip


def follow_running(
    request: EstimateRequest, plan: RunPlan, pid: int, folder: Path
) -> tuple[copies.FollowedProcess, ProgramRuns]:
    assert plan.copies is not None
    seconds = _USUAL_SECONDS if request.seconds is None else request.seconds
    # Not at the top: pandas takes memory.
    from tlbcost.copies.estimator import read_tables

    if request.canary:
        copies.check_canary(pid, plan.copies, _new_folder(folder), children=request.children)
    folders: list[Path] = []
    outcomes: list[Outcome] = []
    while True:
        folders.append(_new_folder(folder))
        followed = copies.follow_process(
            pid, plan.copies, folders[-1], seconds, children=request.children
        )
        outcomes.append(Outcome(followed.run, "", None, 0, None, None))
        tables = read_tables(folders)
        # Ended by Ctrl-C, or with the process.
        early = followed.run.wall_ns < 0.9e9 * seconds
        few = copies.too_few(tables) is not None and copies.more_may_do(tables, measured=True)
        if early or not few or len(folders) == _MOST_FOLLOWS:
            break
        say("the CPUs are busy, and too few copies could be followed yet: once more")
    outcomes = without_copies_of(folders, outcomes)
    simulation, copied, why = said_by_copies(
        plan.copies, folders, outcomes, followed.path, followed.seen, str(followed.path)
    )
    if why is not None:
        raise TlbcostError(
            f"no estimate of process {pid}: {why}",
            "follow it longer (--seconds 120), or under more load",
            CANNOT_MEASURE,
        )
    [run, *_] = (outcome.run for outcome in outcomes)
    assert run is not None
    measured = None
    if request.measured:
        measured = _told(measure_process(request, pid, folder, run, copied))
    return followed, ProgramRuns(
        tuple(outcomes), None, simulation, followed.seen, copied=copied, measured=measured,
        stalls=_stalls(request, followed.seen, ended=False),
    )  # fmt: skip


@contextlib.contextmanager
def _cut_short(what: str, unfinished: list[str], *, partly: bool = True) -> Iterator[None]:
    """Go on without it if the time limit passes, where there is an answer without it (`partly`)."""
    try:
        yield
    except TimeLimitPassed:
        if not partly:
            raise
        unfinished.append(f"the time limit passed: {what} was stopped and is left out")
        say(unfinished[-1])


def _native(
    request: EstimateRequest,
    plan: RunPlan,
    launcher: Launcher,
    path: Path,
    sampler: PeakSampler,
    conditions: Conditions,
) -> tuple[list[Outcome], EventCounts | None]:
    if plan.choice.pmu is not None:
        return _counted(request, plan.choice, plan.choice.pmu, launcher, path, conditions)
    copying = None if plan.copies is None else Copying(plan.copies, launcher, conditions)
    if request.sites and copying is not None:
        folder = sites_folder(launcher)
        folder.mkdir()
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)
        launcher.environment = recording(folder, os.environ)
    # Pairs are to follow, whose runs on base pages are timed, too.
    usual = 1 if request.measured and not request.also else _USUAL_RUNS
    runs = native_runs(
        launcher, request.argv, path, request.runs or usual,
        ignore_failure=request.ignore_failure,
        last_started=sampler.start, between=conditions.measure,
        tool=None if copying is None else copying.tool,
        long_s=_LONG_S if copying is not None and request.runs is None else math.inf,
    )  # fmt: skip
    if copying is not None:
        repeat(request, copying, runs)
    launcher.environment = None
    return runs, None


def sites_folder(launcher: Launcher) -> Path:
    return launcher.folder / "sites"


def _counted(
    request: EstimateRequest,
    choice: Choice,
    pmu: Pmu,
    launcher: Launcher,
    path: Path,
    conditions: Conditions,
) -> tuple[list[Outcome], EventCounts]:
    """Events that do not fit into one run take several: these are the runs that are timed, too."""
    outcomes: list[Outcome] = []

    def note(outcome: Outcome) -> bool:
        check_outcome(request.argv[0], outcome, outcomes, ignore_failure=request.ignore_failure)
        outcomes.append(outcome)
        conditions.measure()
        return True

    parts: list[EventCounts] = []
    complete, wanted = 0, request.runs or _USUAL_RUNS
    try:
        while len(outcomes) < wanted:
            parts.append(
                count_program(launcher, request.argv, pmu, choice.events, path=path, go_on=note)
            )
            complete = len(outcomes)
    except TimeLimitPassed:
        if not parts:
            raise
        say(f"the time limit passed: {complete} of {wanted} runs were counted")
    return outcomes[:complete], join_runs(parts)


def _simulate(
    request: EstimateRequest,
    plan: RunPlan,
    launcher: Launcher,
    native: list[Outcome],
    modelled: Core | None,
) -> Simulation:
    assert plan.valgrind is not None
    assert plan.geometry is not None
    runs = [outcome.run for outcome in native if outcome.run is not None]
    core = None if modelled is None else modelled.option
    windows = None if core is None else plan_for(runs)
    return simulate(launcher, plan.valgrind, plan.geometry, request.argv, native[0], windows, core)


@dataclass(frozen=True, slots=True)
class Copying:
    plan: copies.CopyPlan
    launcher: Launcher
    conditions: Conditions

    def tool(self, run: int) -> Sequence[str]:
        """The program is timed on the core as the machine was found up to now."""
        core = self.conditions.core_then(None)
        folder = self.launcher.folder / f"copies{run}"
        folder.mkdir()
        option = None if core is None else core.option
        return copies.copies_tool(replace(self.plan, core=option), folder)


def repeat(request: EstimateRequest, copying: Copying, runs: list[Outcome]) -> None:
    """A short program has room for few copies: run it again while that may be enough."""
    # Not at the top: pandas takes memory, which a program with a limit needs.
    from tlbcost.copies.estimator import read_tables

    until = time.monotonic() + _REPEATED_S
    while len(runs) < _MOST_RUNS:
        tables = read_tables(run_folders(copying.launcher, runs))
        if not copies.more_may_do(tables, measured=request.measured):
            return
        last = runs[-1].run
        late = time.monotonic() + (0 if last is None else last.wall_ns / 1e9) > until
        # Without enough copies Valgrind comes next, which takes ten times as long.
        if late and (copies.too_few(tables) is None or len(runs) >= _MOST_LONG_RUNS):
            return
        copying.conditions.measure()
        tool = copying.tool(len(runs))
        outcome = copying.launcher.execute(request.argv, discard=True, tool=tool)
        check_outcome(request.argv[0], outcome, runs, ignore_failure=request.ignore_failure)
        runs.append(outcome)


def run_folders(launcher: Launcher, runs: Sequence[Outcome]) -> list[Path]:
    return [launcher.folder / f"copies{i}" for i in range(len(runs))]


def without_copies_of(folders: Sequence[Path], native: Sequence[Outcome]) -> list[Outcome]:
    """Runs, each with the tables of its folder, less what their copies cost."""
    # Not at the top, as in repeat().
    from tlbcost.copies.estimator import read_tables, without_copies

    found = []
    for folder, outcome in zip(folders, native, strict=True):
        run = outcome.run
        if run is not None and (folder / "copies.tsv").exists():
            run = without_copies(read_tables([folder]), run)
        found.append(replace(outcome, run=run))
    return found


def said_by_copies(
    plan: copies.CopyPlan,
    folders: list[Path],
    native: list[Outcome],
    path: Path,
    seen: Seen,
    executable: str | None = None,
    recorded: Path | None = None,
) -> tuple[Simulation | None, CopiedRun | None, str | None]:
    """What copies say, or why they say nothing.

    `executable`: `path` as the kernel names it; `recorded`: the folder with allocations, if any.
    """
    # Not at the top, as in repeat().
    from tlbcost.attribution.copies import copied_attributions
    from tlbcost.copies.estimator import copied_run, read_tables, simulation_of, touched_of, weigh

    tables = read_tables([folder for folder in folders if (folder / "copies.tsv").exists()])
    runs = [outcome.run for outcome in native if outcome.run is not None]
    if not runs or (why := copies.too_few(tables)) is not None:
        return None, None, why if runs else "the program did not run"
    weighed = weigh(tables, runs, plan.cycles_per_ns)
    base, huge = plan.geometry.base, plan.geometry.huge
    touched = touched_of(seen, base.page_size_bytes, huge.page_size_bytes)
    simulation = simulation_of(tables, weighed, str(path), native[0], touched)
    executable = executable or os.path.realpath(path)
    attributions = copied_attributions(tables, weighed, str(path), executable, seen, recorded)
    return (
        replace(simulation, attributions=attributions),
        copied_run(tables, weighed, runs),
        None,
    )


def measure_program(
    request: EstimateRequest,
    launcher: Launcher,
    path: Path,
    native: Sequence[Outcome],
    seen: Seen,
    copied: CopiedRun | None,
) -> tuple[MeasuredGain | str | None, list[Run]]:
    """Measure a program that can be run again, or say why not; with its runs on base pages.

    None: it was not asked for. `seen`: its memory; `copied`: what copies that were followed showed
    of it. Raises TimeLimitPassed.
    """
    first = native[0]
    run = first.run
    if not request.measured or run is None:
        return None, []
    asked = _pairs(request, launcher, path, first, seen)
    if (asked.fits() and "shared memory" not in request.also) or request.region is not None:
        most = duration(asked.seconds)
        if asked.run_s > 1:
            say(
                f"one run takes {duration(asked.run_s)}: pairs of runs for up to {most}; Ctrl-C "
                "ends that with what is known"
            )
        found, base = measure_runs(asked)
        return _told(found), base
    if (why := copies.unavailable()) is not None:
        return _told(why), []
    found = _copies_of_runs(request, launcher, first, run, _recorded_calls(copied))
    return _told(found), []


def _pairs(
    request: EstimateRequest, launcher: Launcher, path: Path, first: Outcome, seen: Seen
) -> PairsRequest:
    return PairsRequest(
        launcher, request.argv, path, first, seen, request.time_budget, request.system, request.also
    )


def _stalls(request: EstimateRequest, seen: Seen, *, ended: bool) -> Stalls | None:
    if not request.measured:
        return None
    return first_touches(sum(each.anonymous_bytes for _, each in seen), ended=ended)


def measure_process(
    request: EstimateRequest, pid: int, folder: Path, run: Run, copied: CopiedRun | None
) -> MeasuredGain | str:
    # Not at the top: pandas takes memory, which a program with a limit needs.
    from tlbcost.measured.arms import copies_in, measured_in_arms

    seconds = _SECONDS if request.seconds is None else request.seconds
    calls = _recorded_calls(copied)
    say(
        f"measuring process {pid}: its copies do the same work on base and on huge pages"
        + ("; its system calls are recorded, for at most 0.3 s at a time" if calls else "")
    )
    folders: list[Path] = []
    while True:
        folders.append(_new_folder(folder))
        tool = copies.arms_tool(
            folders[-1], _COPIES, run.cpu_ns, calls, also=request.also,
            most_pause_s=request.most_pause,
        )  # fmt: skip
        words = [*tool, "--pid", str(pid), "--seconds", str(max(1, round(seconds)))]
        if request.children:
            words.append("--children")
        began = time.monotonic()
        code, said = copies.run_tool(words)
        copies.note_end(pid)
        if code == CANNOT_MEASURE:
            return "the process may not be copied"
        if code != 0:
            say(said)
            raise tool_error(f"cannot measure process {pid}", words[0], code, folder)
        found = measured_in_arms(folders, run.user_ns / (run.cpu_ns or 1), request.also)
        early = time.monotonic() - began < 0.9 * seconds
        if isinstance(found, MeasuredGain) or early or not copies_in(folders):
            return found
        if len(folders) == _MOST_FOLLOWS:
            return found
        say(f"{found}: once more")


def _copies_of_runs(
    request: EstimateRequest, launcher: Launcher, first: Outcome, run: Run, calls: int
) -> MeasuredGain | str:
    """Copies of one more run; of several, while there are few copies and that takes little time."""
    # Not at the top, as above.
    from tlbcost.measured.arms import copies_in, measured_in_arms

    say("measuring: copies of one more run do the same work on base and on huge pages")
    until = time.monotonic() + _RUNS_S
    folders: list[Path] = []
    while True:
        folders.append(_new_folder(launcher.folder))
        begun = time.monotonic()
        limit = max(until - begun, run.wall_ns / 1e9 + _AFTER_S)
        tool = copies.arms_tool(folders[-1], _COPIES, run.cpu_ns, calls, limit, request.also)
        outcome = launcher.execute(request.argv, discard=True, tool=tool)
        if outcome.code != first.code or not (folders[-1] / "copies.tsv").exists():
            return f"the run that copies were made of {outcome.describe()}"
        now = time.monotonic()
        if copies_in(folders) >= _COPIES - 2 or 2 * now - begun > until:
            return measured_in_arms(folders, run.user_ns / (run.cpu_ns or 1), request.also)


def _recorded_calls(copied: CopiedRun | None) -> int:
    """0: copies can do a slice of the program's work between two calls that they must not make."""
    often = copied is not None and 2 * copied.record.calling > copied.record.windows
    return _RECORDED_CALLS if often else 0


def _new_folder(parent: Path) -> Path:
    folder = parent / f"arms{len(list(parent.glob('arms*')))}"
    folder.mkdir()
    return folder


def _told(found: MeasuredGain | str) -> MeasuredGain | str:
    if isinstance(found, str):
        say(f"not measured: {found}")
    return found
