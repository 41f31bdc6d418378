# SPDX-License-Identifier: GPL-2.0-or-later
"""What is decided before a program runs: how it is counted, and what that costs here?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tlbcost.answer.backend import Choice, choose
from tlbcost.answer.request import EstimateRequest
from tlbcost.calibration.costs import check_costs, cost_at
from tlbcost.calibration.records import Calibration, Obtained
from tlbcost.calibration.request import calibration_for
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.progress import say
from tlbcost.copies.run import CopyPlan, unavailable, untraceable
from tlbcost.processors.geometry import Geometry
from tlbcost.run.program import check_simulatable
from tlbcost.simulator.core import Core, core_for
from tlbcost.simulator.geometry import geometry_for
from tlbcost.simulator.run import find_valgrind
from tlbcost.system.machine import Machine, huge_page_or_assumed

_USUAL_OVERHEAD = 0.05
# A page that is copied on write takes longer than one that is new and zeroed; at least so long.
_COPIED, _COPIED_PAGE_NS = 1.5, 1200


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


def plan_runs(request: EstimateRequest, machine: Machine, path: Path | None) -> RunPlan:
    """Choose how to count, and calibrate. What can be refused is refused here: TlbcostError.

    `path` None: a process that already runs.
    """
    simulated = request.pid is not None or request.region is not None
    choice = choose("sim" if simulated else request.backend, machine)
    if request.model != "auto" and not choice.simulate:
        raise TlbcostError(
            f"--model {request.model} needs a simulation, and counters are read here",
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
            not_copied(request, no_core or "no core is modelled")
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
        not_copied(request, why)
    return why is None


def not_copied(request: EstimateRequest, why: str) -> None:
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
    why = "the calibration has no costs of loads"
    if request.model == "overlap":
        raise TlbcostError(
            f"no estimate by the overlap model: {why}",
            "tlbcost calibrate --recalibrate, or --model simple",
            CANNOT_MEASURE,
        )
    return why
