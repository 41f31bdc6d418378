# SPDX-License-Identifier: GPL-2.0-or-later
"""Decisions before a program runs: how to count, and the calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.answer.request import AskedBackend, EstimateRequest
from tlbcost.calibration.file import calibration_for
from tlbcost.calibration.records import Calibration, Obtained, check_costs, cost_at
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.progress import say
from tlbcost.copies.run import CopyPlan, unavailable, untraceable
from tlbcost.counters.count_tool import probe
from tlbcost.counters.diagnosis import Refusal, diagnose
from tlbcost.counters.pmu import EventRequest, default_events, find_pmu
from tlbcost.processors.events import Event, Pmu, generic_pmu, pmu_of
from tlbcost.processors.published import Geometry
from tlbcost.run.launch import check_simulatable
from tlbcost.simulator.core import Core, core_for
from tlbcost.simulator.geometry import geometry_for
from tlbcost.simulator.run import find_valgrind
from tlbcost.system.machine import Machine, huge_page_or_assumed

_USUAL_OVERHEAD = 0.05
# A page that is copied on write takes longer than one that is new and zeroed; at least so long.
_COPIED, _COPIED_PAGE_NS = 1.5, 1200
# Any of these formulas, with all its events, bounds the time in translation.
_WITH_CYCLES = ("share", "pending_share")
_WITH_COSTS = ("walks", "data_walks")
# What an estimate is made of: few enough to be counted in each run, whose spread is then seen.
_OF_CYCLES = ("share", "data_share", "code_share", "exposed_share", "ept_share")
_OF_WALKS = (
    "pending_share", "walks", "data_walks", "code_walks", "hits", "data_hits",
    "exposed_share", "ept_share",
)  # fmt: skip
_TO_COMPARE = ("walks", "data_walks", "code_walks")
_OPENED = ("counted", "multiplexed", "left_over")


@dataclass(frozen=True, slots=True)
class RunPlan:
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
    """Choose how to count, and calibrate; refuse here what can be refused (TlbcostError)."""
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
    why = "the calibration has no costs of loads"
    if request.model == "overlap":
        raise TlbcostError(
            f"no estimate by the overlap model: {why}",
            "tlbcost calibrate --recalibrate, or --model simple",
            CANNOT_MEASURE,
        )
    return why


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do, and what the user should know of the reasons (`notes`).

    `pmu` is None where nothing is counted. `needs_costs`: the counters tell walks, but not their
    cycles, so that the calibration has to price them.
    """

    simulate: bool
    pmu: Pmu | None = None
    events: tuple[Event, ...] = ()
    needs_costs: bool = False
    notes: tuple[str, ...] = ()


def choose(asked: AskedBackend, machine: Machine) -> Choice:
    """Look at the counters unless only a simulation is asked for.

    `auto` falls back to the simulation; why is in the notes, unless there just are no counters.
    Raises TlbcostError with exit code 4 if counters are asked for and cannot be read.
    """
    if asked == "sim" or (asked == "auto" and find_pmu().answer == "absent"):
        return Choice(simulate=True)
    try:
        counting = _counting(machine, compare=asked == "both")
    except TlbcostError as error:
        if asked != "auto" or error.exit_code != CANNOT_MEASURE:
            raise
        return Choice(simulate=True, notes=(f"simulated, since counters cannot be read: {error}",))
    return Choice(asked == "both", *counting)


def _counting(
    machine: Machine, *, compare: bool
) -> tuple[Pmu, tuple[Event, ...], bool, tuple[str, ...]]:
    """The table, the events, whether walks need a price, and notes."""
    own = pmu_of(machine)
    pmu = own or generic_pmu()
    formulas = _OF_CYCLES if "share" in pmu.formulas else _OF_WALKS
    events = default_events(pmu, (*formulas, *(_TO_COMPARE if compare else ())))
    refusals = probe(pmu, [EventRequest.of(event) for event in events])
    opened = {refusal.event for refusal in refusals if refusal.state in _OPENED}
    with_cycles = _has(pmu, opened, _WITH_CYCLES)
    if "cycles" not in opened or not (with_cycles or _has(pmu, opened, _WITH_COSTS)):
        raise _nothing(refusals, opened)
    notes: tuple[str, ...] = ()
    if own is None:
        notes = (
            "this CPU has no event table: the kernel's generic events are counted, whose meaning "
            "depends on the CPU",
        )
    return pmu, tuple(event for event in events if event.name in opened), not with_cycles, notes


def _has(pmu: Pmu, opened: set[str], formulas: Sequence[str]) -> bool:
    from tlbcost.processors.events import names

    return any(name in pmu.formulas and names(pmu.formulas[name]) <= opened for name in formulas)


def _nothing(refusals: Sequence[Refusal], opened: set[str]) -> TlbcostError:
    refused = [refusal for refusal in refusals if refusal.event not in opened]
    if "cycles" in opened and all(refusal.state == "unsupported" for refusal in refused):
        return TlbcostError(
            "this machine's counters count no page walks and no TLB misses",
            "--backend sim counts without them",
            CANNOT_MEASURE,
        )
    return diagnose(refused, "program", "user")
