# SPDX-License-Identifier: GPL-2.0-or-later
"""How is the program run: natively, under counters, with samples, in the simulator?"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.answer.backend import Choice, choose
from tlbcost.answer.measurement import measure_process, measure_program
from tlbcost.answer.request import EstimateRequest
from tlbcost.attribution.backing import Seen
from tlbcost.attribution.samples import Sampled, sample_misses
from tlbcost.calibration.costs import check_costs, cost_at
from tlbcost.calibration.records import Calibration, Obtained
from tlbcost.calibration.request import calibration_for
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.progress import say
from tlbcost.copies.process import FollowedProcess, follow_process
from tlbcost.copies.record import CopiedRun
from tlbcost.copies.run import (
    CopyPlan,
    copies_tool,
    more_may_do,
    too_few,
    unavailable,
    untraceable,
    was_followed_to_its_end,
)
from tlbcost.counters.count_runs import count_program
from tlbcost.counters.event_counts import EventCounts, join_runs
from tlbcost.measured.record import MeasuredGain
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.processors.geometry import Geometry
from tlbcost.run.launch import Launcher, native_runs
from tlbcost.run.outcome import Outcome, check_outcome
from tlbcost.run.program import check_simulatable
from tlbcost.simulator.conditions import Conditions
from tlbcost.simulator.core import Core, core_for
from tlbcost.simulator.geometry import geometry_for
from tlbcost.simulator.run import Simulation, find_valgrind, simulate
from tlbcost.simulator.windows import plan_for
from tlbcost.system.machine import Machine, huge_page_or_assumed

# Looking at its memory takes so small a part of the last run while it grows.
_REST = 10
_USUAL_RUNS = 3
_USUAL_OVERHEAD = 0.05
_USUAL_SECONDS = 30.0
# A run of this length has enough copies, and an estimate by copies takes little longer. Two more of
# a program that takes 10 s would be half of the time that its estimate may take.
_LONG_S = 6.0
# Short programs are run again for more copies of them: so often, and for so long in all.
_MOST_RUNS = 20
_REPEATED_S = 8.0
# A page that is copied on write takes longer than one that is new and zeroed; at least so long.
_COPIED, _COPIED_PAGE_NS = 1.5, 1200
# One that is shorter is followed itself, from its first instruction on.
_WHOLE_NS = 200_000_000


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is decided before the program runs."""

    choice: Choice
    valgrind: Path | None
    calibrated: Obtained
    geometry: Geometry | None
    core: Core | None
    no_core: str | None
    huge_page_bytes: int
    notes: tuple[str, ...]
    copies: CopyPlan | None = None


@dataclass(frozen=True, slots=True)
class ProgramRuns:
    """What came of running the program; `seen`: its memory in the last native run, at its peak.

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


def plan_runs(request: EstimateRequest, machine: Machine, path: Path | None) -> RunPlan:
    """Choose how to count, and calibrate. What can be refused is refused here: TlbcostError.

    `path` None: a process that already runs.
    """
    simulated = request.pid is not None or request.region is not None
    choice = choose("sim" if simulated else request.backend, machine)
    if request.model != "auto" and not choice.simulate:
        raise TlbcostError(
            f"--model {request.model} is of a simulation, and counters are read here",
            "--backend sim, or leave --model out",
            USAGE,
        )
    for note in choice.notes:
        say(note)
    copied = choice.simulate and _may_copy(request)
    valgrind = None
    if choice.simulate:
        if path is not None:
            check_simulatable(path)
        if not copied:
            valgrind = find_valgrind()
    calibrated = calibration_for(request.calibration, recalibrate=request.recalibrate)
    huge, notes = huge_page_or_assumed(machine)
    geometry, core, no_core = None, None, None
    if choice.simulate:
        geometry = geometry_for(calibrated.calibration, machine, huge)
        if request.model != "simple":
            core = core_for(calibrated.calibration, machine, geometry)
            no_core = _without_core(request) if core is None else None
    if choice.simulate or choice.needs_costs:
        check_costs(calibrated.calibration, machine)
    notes += core.notes if core is not None else ()
    copies = None
    if geometry is not None and copied:
        if core is not None:
            copies = _copy_plan(request, calibrated.calibration, geometry, core)
        else:
            _not_copied(request, no_core or "no core is modelled")
            valgrind = find_valgrind()
    return RunPlan(choice, valgrind, calibrated, geometry, core, no_core, huge, notes, copies)


def _may_copy(request: EstimateRequest) -> bool:
    """Copies are what simulates, by what is known yet. Refuses if they have to be."""
    if request.engine == "valgrind":
        return False
    why = unavailable() or (untraceable() if request.pid is None else None)
    if request.model == "simple":
        why = "the simple model needs the counts of a whole run"
    if request.region is not None:
        why = "all references of a region are counted"
    if why is not None:
        _not_copied(request, why)
    return why is None


def _not_copied(request: EstimateRequest, why: str) -> None:
    """Say that Valgrind simulates instead; refuse if it must not."""
    if request.pid is not None:
        raise TlbcostError(
            f"process {request.pid} cannot be followed: {why}",
            "tlbcost estimate -- COMMAND starts it in Valgrind",
            CANNOT_MEASURE,
        )
    if request.engine == "copies":
        raise TlbcostError(
            f"no estimate by copies: {why}", "--engine valgrind, or leave it out", CANNOT_MEASURE
        )
    say(f"simulated by Valgrind, not in copies: {why}")


def _copy_plan(
    request: EstimateRequest, calibration: Calibration, geometry: Geometry, core: Core
) -> CopyPlan:
    rate = cost_at(calibration, "cycles_per_ns", None)
    return CopyPlan(
        geometry,
        core.option,
        rate.value if rate is not None and rate.value > 0 else 1.0,
        _USUAL_OVERHEAD if request.overhead is None else request.overhead,
        request.copies,
        copied_page_ns(calibration, geometry),
    )


def copied_page_ns(calibration: Calibration, geometry: Geometry) -> int:
    """CPU time of a write to a page that a copy shares."""
    fault = cost_at(calibration, "fault_ns", geometry.base.page_size_bytes)
    return _COPIED_PAGE_NS if fault is None else max(_COPIED_PAGE_NS, round(_COPIED * fault.value))


def _without_core(request: EstimateRequest) -> str:
    """Why the overlap model cannot be used; refuses if it has to be."""
    why = "the calibration does not tell what loads cost"
    if request.model == "overlap":
        raise TlbcostError(
            f"no estimate by the overlap model: {why}",
            "tlbcost calibrate --recalibrate, or --model simple",
            CANNOT_MEASURE,
        )
    return why


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
    sampler, sampled = PeakSampler(_REST, frames=conditions.frames_matter), None
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
    simulation, copied = None, None
    if plan.copies is not None:
        folders = [_folder(launcher, i) for i in range(len(native))]
        native = _without_copies(folders, native)
        if _whole_folder(launcher).exists():
            folders = [_whole_folder(launcher)]
        simulation, copied, why = _of_copies(plan.copies, folders, native, path, sampler.peak())
        if why is not None:
            _not_copied(request, why)
            plan = dataclasses.replace(plan, valgrind=find_valgrind())
            simulation, copied = None, None
    if simulation is None and plan.geometry is not None and plan.valgrind is not None:
        core = conditions.core_then(sampler.isolated_pages())
        with _cut_short("the simulation", unfinished, partly=counted is not None):
            simulation = _simulate(request, plan, launcher, native, core)
    measured: MeasuredGain | str | None = None
    with _cut_short("the measurement on huge pages", unfinished):
        measured = measure_program(request, launcher, native, copied)
    return ProgramRuns(
        tuple(native), counted, simulation, sampler.peak(), sampled, conditions.notes,
        tuple(unfinished), copied, measured,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Copying:
    """What each run is launched with."""

    plan: CopyPlan
    launcher: Launcher
    conditions: Conditions

    def tool(self, run: int, *, whole: bool = False) -> Sequence[str]:
        """The program is timed on the core as the machine was found up to now."""
        core = self.conditions.core_then(None)
        folder = _whole_folder(self.launcher) if whole else _folder(self.launcher, run)
        folder.mkdir()
        option = None if core is None else core.option
        return copies_tool(dataclasses.replace(self.plan, core=option), folder, whole=whole)


def _follow_whole(request: EstimateRequest, copying: _Copying, runs: Sequence[Outcome]) -> bool:
    """A very short program is followed itself. Returns whether all of its run was seen."""
    # Not at the top: pandas takes memory, which a program with a limit needs.
    from tlbcost.copies.tables import read_tables

    run = runs[0].run
    if run is None or run.cpu_ns >= _WHOLE_NS or request.copies is not None:
        return False
    tool = copying.tool(len(runs), whole=True)
    outcome = copying.launcher.execute(request.argv, discard=True, tool=tool)
    check_outcome(request.argv[0], outcome, list(runs), ignore_failure=request.ignore_failure)
    folder = _whole_folder(copying.launcher)
    if was_followed_to_its_end(read_tables([folder])):
        return True
    shutil.rmtree(folder)
    return False


def _repeat(
    request: EstimateRequest, copying: _Copying, launcher: Launcher, runs: list[Outcome]
) -> None:
    """A short program has room for few copies: run it again while that may be enough."""
    # Not at the top: pandas takes memory, which a program with a limit needs.
    from tlbcost.copies.tables import read_tables

    until = time.monotonic() + _REPEATED_S
    while len(runs) < _MOST_RUNS and time.monotonic() < until:
        tables = read_tables([_folder(launcher, i) for i in range(len(runs))])
        if not more_may_do(tables, measured=request.measured):
            return
        copying.conditions.measure()
        tool = copying.tool(len(runs))
        outcome = launcher.execute(request.argv, discard=True, tool=tool)
        check_outcome(request.argv[0], outcome, runs, ignore_failure=request.ignore_failure)
        runs.append(outcome)


def follow_running(
    request: EstimateRequest, plan: RunPlan, pid: int, folder: Path
) -> tuple[FollowedProcess, ProgramRuns]:
    """Follow copies of a process that already runs. Raises TlbcostError."""
    assert plan.copies is not None
    seconds = _USUAL_SECONDS if request.seconds is None else request.seconds
    followed = follow_process(pid, plan.copies, folder, seconds, children=request.children)
    [outcome] = _without_copies([folder], [Outcome(followed.run, "", None, 0, None, None)])
    simulation, copied, why = _of_copies(
        plan.copies, [folder], [outcome], followed.path, followed.seen, str(followed.path)
    )
    if why is not None:
        raise TlbcostError(
            f"no estimate of process {pid}: {why}",
            "follow it longer (--seconds 120), or under more load",
            CANNOT_MEASURE,
        )
    assert outcome.run is not None
    measured = measure_process(request, pid, folder, outcome.run, copied)
    return followed, ProgramRuns(
        (outcome,), None, simulation, followed.seen, copied=copied, measured=measured
    )


def _folder(launcher: Launcher, run: int) -> Path:
    return launcher.folder / f"copies{run}"


def _whole_folder(launcher: Launcher) -> Path:
    return launcher.folder / "whole"


def _without_copies(folders: Sequence[Path], native: Sequence[Outcome]) -> list[Outcome]:
    """Runs, each with the tables of its folder, less what their copies cost."""
    # Not at the top, as in _repeat().
    from tlbcost.copies.estimator import without_copies
    from tlbcost.copies.tables import read_tables

    found = []
    for folder, outcome in zip(folders, native, strict=True):
        run = outcome.run
        if run is not None and (folder / "copies.tsv").exists():
            run = without_copies(read_tables([folder]), run)
        found.append(dataclasses.replace(outcome, run=run))
    return found


def _of_copies(
    plan: CopyPlan,
    folders: list[Path],
    native: list[Outcome],
    path: Path,
    seen: Seen,
    executable: str | None = None,
) -> tuple[Simulation | None, CopiedRun | None, str | None]:
    """What copies say, or why they say nothing. `executable`: `path` as the kernel names it."""
    # Not at the top, as in _repeat().
    from tlbcost.attribution.copies import copied_attributions
    from tlbcost.copies.estimator import copied_run, simulation_of, touched_of, weigh
    from tlbcost.copies.tables import read_tables

    tables = read_tables([folder for folder in folders if (folder / "copies.tsv").exists()])
    runs = [outcome.run for outcome in native if outcome.run is not None]
    if not runs or (why := too_few(tables)) is not None:
        return None, None, why if runs else "the program did not run"
    weighed = weigh(tables, runs, plan.cycles_per_ns)
    base, huge = plan.geometry.base, plan.geometry.huge
    touched = touched_of(seen, base.page_size_bytes, huge.page_size_bytes)
    simulation = simulation_of(tables, weighed, str(path), native[0], touched)
    executable = executable or os.path.realpath(path)
    attributions = copied_attributions(tables, weighed, str(path), executable, seen)
    return (
        dataclasses.replace(simulation, attributions=attributions),
        copied_run(tables, weighed, runs),
        None,
    )


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
    argv, tolerant = request.argv, request.ignore_failure
    if plan.choice.pmu is None:
        copying = None if plan.copies is None else _Copying(plan.copies, launcher, conditions)
        runs = native_runs(
            launcher, argv, path, request.runs or _USUAL_RUNS, ignore_failure=tolerant,
            last_started=sampler.start, between=conditions.measure,
            tool=None if copying is None else copying.tool,
            long_s=_LONG_S if copying is not None and request.runs is None else math.inf,
        )  # fmt: skip
        if copying is not None and not _follow_whole(request, copying, runs):
            _repeat(request, copying, launcher, runs)
        return runs, None

    outcomes: list[Outcome] = []

    def note(outcome: Outcome) -> bool:
        check_outcome(argv[0], outcome, outcomes, ignore_failure=tolerant)
        outcomes.append(outcome)
        conditions.measure()
        return True

    parts: list[EventCounts] = []
    # Events that do not fit into one run take several: these are the runs that are timed, too.
    complete = 0
    try:
        wanted = request.runs or _USUAL_RUNS
        while len(outcomes) < wanted:
            parts.append(
                count_program(
                    launcher, argv, plan.choice.pmu, plan.choice.events, path=path, go_on=note
                )
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
