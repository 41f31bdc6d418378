# SPDX-License-Identifier: GPL-2.0-or-later
"""How is the program run: natively, under counters, with samples, in the simulator?"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tlbcost.answer.backend import Choice
from tlbcost.answer.copied_runs import (
    Copying,
    repeat,
    run_folders,
    said_by_copies,
    without_copies_of,
)
from tlbcost.answer.measurement import measure_process, measure_program
from tlbcost.answer.request import EstimateRequest
from tlbcost.answer.run_plan import RunPlan, not_copied
from tlbcost.attribution.backing import Seen
from tlbcost.attribution.samples import Sampled, sample_misses
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.progress import say
from tlbcost.copies.process import FollowedProcess, follow_process
from tlbcost.copies.record import CopiedRun
from tlbcost.counters.count_runs import count_program
from tlbcost.counters.event_counts import EventCounts, join_runs
from tlbcost.measured.method import AS_IT_RUNS
from tlbcost.measured.record import MeasuredGain
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.processors.events import Pmu
from tlbcost.run.launch import Launcher, native_runs
from tlbcost.run.outcome import Outcome, check_outcome
from tlbcost.simulator.conditions import Conditions
from tlbcost.simulator.core import Core
from tlbcost.simulator.run import Simulation, find_valgrind, simulate
from tlbcost.simulator.windows import plan_for

# Looking at its memory takes so small a part of the last run while it grows.
_REST = 10
_USUAL_RUNS = 3
_USUAL_SECONDS = 30.0
# A run of this length has enough copies, and an estimate by copies takes little longer. Two more of
# a program that takes 10 s would be half of the time that its estimate may take.
_LONG_S = 6.0


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
        simulation, copied, why = said_by_copies(plan.copies, folders, native, path, sampler.peak())
        if why is not None:
            simulation, copied = None, None
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
    if plan.copies is not None and simulation is None:
        not_copied(request, why or "")
        plan = replace(plan, valgrind=find_valgrind())
    if simulation is None and plan.geometry is not None and plan.valgrind is not None:
        core = conditions.core_then(sampler.isolated_pages())
        with _cut_short("the simulation", unfinished, partly=counted is not None):
            simulation = _simulate(request, plan, launcher, native, core)
    return ProgramRuns(
        tuple(native), counted, simulation, sampler.peak(), sampled, conditions.notes,
        tuple(unfinished), copied, measured,
    )  # fmt: skip


def follow_running(
    request: EstimateRequest, plan: RunPlan, pid: int, folder: Path
) -> tuple[FollowedProcess, ProgramRuns]:
    """Follow copies of a process that already runs. Raises TlbcostError."""
    assert plan.copies is not None
    seconds = _USUAL_SECONDS if request.seconds is None else request.seconds
    followed = follow_process(pid, plan.copies, folder, seconds, children=request.children)
    [outcome] = without_copies_of([folder], [Outcome(followed.run, "", None, 0, None, None)])
    simulation, copied, why = said_by_copies(
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
    return runs, None


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
