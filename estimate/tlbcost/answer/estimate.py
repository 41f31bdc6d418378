# SPDX-License-Identifier: GPL-2.0-or-later
"""The way of an estimate, from the request to the report's facts."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import replace
from pathlib import Path

from tlbcost.accuracy.record import Way, track_records
from tlbcost.answer import gains
from tlbcost.answer.caveats.rules import caveats
from tlbcost.answer.record import (
    Estimate,
    Evidence,
    RunPlan,
    Simulated,
    plan_runs,
    surroundings,
)
from tlbcost.answer.request import EstimateRequest
from tlbcost.answer.runs import ProgramRuns, follow_running, run_program
from tlbcost.answer.words import advice_for
from tlbcost.attribution.document import Attribution
from tlbcost.attribution.samples import recorded, sampled_attribution
from tlbcost.attribution.simulation import simulated_attribution
from tlbcost.calibration.file import calibration_for
from tlbcost.calibration.records import Obtained
from tlbcost.common import progress, units
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.document import now
from tlbcost.common.files import temporary_folder
from tlbcost.common.paths import version
from tlbcost.common.units import Interval
from tlbcost.counters.event_counts import EventCounts
from tlbcost.counters.importing.file import import_files
from tlbcost.measured.record import MeasuredGain, OverLimit
from tlbcost.model.gain import PredictedGain
from tlbcost.numa.locality import NodePlacement
from tlbcost.numa.runs import node_placement
from tlbcost.processors.events import Pmu
from tlbcost.run.launch import Launcher, launcher_of, resolve
from tlbcost.symbols.region import region_of
from tlbcost.system.machine import Machine, current_machine

# Memory that stays on base pages in whole runs, and in copies unless it is asked for.
_UNREACHED = ("file", "tmpfs", "memfd", "sysv", "shared")
_MOST_FRACTION = 0.5
# Where a file does not say: the huge pages of most machines of an architecture.
_USUAL_HUGE_BYTES = {"ppc64le": 16 << 20, "s390x": 1 << 20}


def estimate(request: EstimateRequest, launcher: Launcher | None = None) -> Estimate:
    """The estimate of a program that runs here, or of counts in files. Raises TlbcostError."""
    given = imported(request) if request.imported else measured(request, launcher)
    found = conclude(given)
    if given.measured is not None and found.given.measured is None:
        progress.say(f"the model answers: {found.given.not_measured}")
    return found


def imported(request: EstimateRequest) -> Evidence:
    """The counts and samples in files. Raises TlbcostError naming the file and its defect."""
    calibrated = None if request.calibration is None else calibration_for(request.calibration)
    counted, pmu, hits = import_files(request.imported, request.cpu, request.object_name)
    given = of_counts(counted, pmu, calibrated, request.walk_cycles)
    return given if hits is None else replace(given, sampled=recorded(hits, pmu))


def of_counts(
    counted: EventCounts, pmu: Pmu, calibrated: Obtained | None, walk_cycles: float | None = None
) -> Evidence:
    """Counts taken elsewhere, and what is known of the machine that counted."""
    try:
        argv = tuple(shlex.split(counted.command or "")) or ("(unknown program)",)
    except ValueError:
        argv = (counted.command or "",)
    machine = counted.machine
    if machine is None and calibrated is not None:
        machine = calibrated.calibration.machine
    huge = _USUAL_HUGE_BYTES.get(pmu.architecture, 2 << 20)
    if machine is not None:
        huge = machine.base_page_bytes * (machine.base_page_bytes // 8)
    return Evidence(
        argv=argv,
        path=None,
        machine=machine,
        surroundings=None,
        huge_page_bytes=huge,
        calibrated=calibrated,
        counted=counted,
        pmu=pmu,
        walk_cycles=walk_cycles,
    )


def measured(request: EstimateRequest, launcher: Launcher | None = None) -> Evidence:
    """Calibrate, run the program, count or simulate it. `launcher`: see estimate()."""
    machine = current_machine()
    if request.pid is not None:
        plan = plan_runs(request, machine, None)
        with temporary_folder() as folder:
            followed, ran = follow_running(request, plan, request.pid, folder)
        return _evidence(request, machine, plan, ran, followed.argv, followed.path)
    path = resolve(request.argv[0])
    region = None if request.region is None else region_of(request.region, path)
    plan = plan_runs(request, machine, path)
    if launcher is not None:
        ran, placed = run_program(request, plan, launcher, path), None
    else:
        with launcher_of(request.prepare) as own:
            own.region = region
            ran = run_program(request, plan, own, path, attributed=True)
            placed = None
            with contextlib.suppress(TimeLimitPassed):
                placed = node_placement(
                    own, request.argv, path, ran.native[0], machine, plan.calibrated.calibration,
                    asked=request.nodes, simulated=plan.choice.simulate and region is None,
                )  # fmt: skip
    return _evidence(request, machine, plan, ran, request.argv, path, placed)


def _evidence(
    request: EstimateRequest,
    machine: Machine,
    plan: RunPlan,
    ran: ProgramRuns,
    argv: tuple[str, ...],
    path: Path,
    placed: NodePlacement | None = None,
) -> Evidence:
    followed = request.pid is not None
    return Evidence(
        argv=argv,
        path=path,
        machine=machine,
        surroundings=surroundings(ran.stalls),
        huge_page_bytes=plan.huge_page_bytes,
        calibrated=plan.calibrated,
        notes=plan.choice.notes + ran.unfinished,
        run_notes=plan.notes + ran.notes,
        native=ran.native,
        geometry=plan.geometry,
        simulation=ran.simulation,
        counted=ran.counted,
        pmu=plan.choice.pmu,
        track_records=track_records(machine),
        no_core=plan.no_core,
        placed=placed,
        seen=ran.seen,
        sampled=ran.sampled,
        copied=ran.copied,
        followed=followed,
        measured=ran.measured if isinstance(ran.measured, MeasuredGain) else None,
        not_measured=ran.measured if isinstance(ran.measured, str) else None,
        not_simulated=ran.not_simulated,
        region=request.region,
    )


def conclude(given: Evidence) -> Estimate:
    """Apply the models, and advise. Raises TlbcostError (4) if the counts do not suffice."""
    processes = gains.processes_of(given)
    footprint = gains.footprint_of(given, processes)
    costs = gains.costs_of(given, footprint, processes)
    simulated = gains.by_simulation(given, processes, costs, footprint)
    counted = gains.by_counters(given, costs, footprint, simulated)
    best = counted or simulated  # Counters are the better witness.
    assert best is not None or given.measured is not None, "nothing is known"
    modelled = gains.unexplained(given) if best is None else best.gain
    gain = modelled if given.measured is None else gains.with_measured(modelled, given.measured)
    if isinstance(given.not_measured, OverLimit):
        gain = replace(gain, verdict="not_worth_it")
    if simulated is not None and costs is not None:
        own = simulated.gain
        attribution = _attributed(given, simulated, costs, gain if given.measured else own)
        why = _unreached(gain, given.measured, attribution)
        if why is not None:
            gain, given = modelled, replace(given, measured=None, not_measured=why)
            attribution = _attributed(given, simulated, costs, own)
        simulated = replace(simulated, attribution=attribution)
    expected = attributable(gain.expected_fraction)
    sampled, doubts = sampled_attribution(given.sampled, expected, given.seen, given.settings)
    way: Way | None = gain.model if given.measured is None else "measured"
    return with_words(
        Estimate(
            version=version(),
            date=now(),
            given=given,
            notes=(*given.notes, *doubts),
            base_costs=costs[0] if costs else None,
            huge_costs=costs[1] if costs else None,
            footprint=footprint,
            simulated=simulated,
            counted=counted,
            gain=gain,
            # Simulations are what was validated, and of the same model.
            track_record=(None if way is None else given.track_records.get(way)),
            sampled=sampled,
            spread_part=gains.spread_part(given, costs, footprint, simulated, counted),
        )
    )


def _attributed(
    given: Evidence, simulated: Simulated, costs: gains.Costs, gain: PredictedGain
) -> Attribution | None:
    if given.simulation is None:
        return None
    expected, tlbs = attributable(gain.expected_fraction), simulated.geometry
    return simulated_attribution(
        given.simulation, tlbs, costs, expected, given.seen, given.settings
    )


def _unreached(
    gain: PredictedGain, measured: MeasuredGain | None, attribution: Attribution | None
) -> str | None:
    """Why a small measured gain is no answer: the memory that misses stayed on base pages."""
    if measured is None or attribution is None or "shared memory" in measured.also:
        return None
    if gain.verdict in ("worth_trying", "already_huge"):
        return None
    there = [
        region.misses_fraction or 0.0
        for region in attribution.regions
        if region.kind in _UNREACHED and not region.code
    ]
    if sum(there) < _MOST_FRACTION:
        return None
    return (
        f"{units.percent(sum(there))} of the page walks are in files and shared memory, which "
        "stayed on base pages in all measured runs (--shared-memory measures shared memory)"
    )


def attributable(expected: Interval) -> Interval:
    """Memory and code have a part of a gain; of a loss, measured, they have none."""
    low, value = max(0.0, expected.low), max(0.0, expected.value)
    return Interval(value, low, max(value, expected.high))


def with_words(found: Estimate) -> Estimate:
    return replace(found, caveats=caveats(found), advice=advice_for(found))
