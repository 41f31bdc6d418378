# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of an estimate, and the decisions before its program runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tlbcost.answer.request import AskedBackend, EstimateRequest
from tlbcost.calibration.file import calibration_for
from tlbcost.calibration.records import Calibration, Obtained, check_costs, cost_at
from tlbcost.common.document import doc
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.progress import say
from tlbcost.copies.run import CopyPlan, unavailable, untraceable
from tlbcost.counters.count_tool import probe
from tlbcost.counters.event_counts import diagnose
from tlbcost.counters.pmu import EventRequest, default_events, find_pmu
from tlbcost.memory.first_touch import Stalls
from tlbcost.processors.events import Event, Pmu, generic_pmu, pmu_of
from tlbcost.processors.published import Geometry
from tlbcost.run.launch import check_simulatable
from tlbcost.simulator.core import Core, core_for
from tlbcost.simulator.geometry import geometry_for
from tlbcost.simulator.run import find_valgrind
from tlbcost.system.huge_pages import HugeSettings, huge_settings, whole_free
from tlbcost.system.machine import Machine, glibc_version, huge_page_or_assumed, reports_free_pages
from tlbcost.thp import program as run_thp

if TYPE_CHECKING:
    from tlbcost.accuracy.record import TrackRecord, Way
    from tlbcost.attribution.backing import Seen
    from tlbcost.attribution.document import Attribution
    from tlbcost.attribution.samples import Sampled
    from tlbcost.calibration.records import PageCosts
    from tlbcost.common.units import Interval
    from tlbcost.copies.estimator import CopiedRun, CopiesRecord
    from tlbcost.counters.event_counts import EventCounts
    from tlbcost.measured.record import MeasuredGain
    from tlbcost.model.gain import PredictedGain, Witness
    from tlbcost.model.overlap import ModelledWindows
    from tlbcost.numa.locality import NodePlacement
    from tlbcost.remedies.advice import Advice
    from tlbcost.run.outcome import Outcome, Run
    from tlbcost.simulator.counts import Counts, Footprint, ProcessCounts
    from tlbcost.simulator.run import Simulation

Backend = Literal["pmu", "sim", "both", "pairs"]
Severity = Literal["high", "medium", "low"]
# A caveat's code, sentence and remedy.
Told = tuple[str, str, str]
# What would decide a verdict that is not proven: a quiet machine, more runs or pairs, a trial.
Decider = Literal["quiet", "calibration", "runs", "pairs", "trial"]
TimeName = Literal["run time", "CPU time", "cycles counted", "region's time"]
# A PMU that this user may not read is there all the same.
_PRESENT = ("counts", "forbidden", "listed")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else on this system matters to the answer. None: not known, or not there.

    `settings`: what it lets onto huge pages. `hugectl`: whether that is installed.
    `can_run_thp`: whether `tlbcost run --thp` is. `reports_free_pages`: whether this is a virtual
    machine that hands its free memory back to the host. `free_huge_pages`: free in one piece.
    `stalls`: first touches of memory, where the gain was to be measured.
    """

    has_pmu: bool
    glibc: tuple[int, int] | None
    glibc_tunables: str | None
    settings: HugeSettings | None = None
    hugectl: bool = False
    can_run_thp: bool = False
    reports_free_pages: bool = False
    free_huge_pages: int | None = None
    stalls: Stalls | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that an estimate can be made from; what was not obtained is None or empty.

    `machine`, `surroundings` and `path` are None, and `native` empty, where nothing ran here.
    `notes` are about the backend, `run_notes` about the costs during the runs; `walk_cycles` is
    what one walk costs, if the user said it. `seen`: the program's mappings when it ran natively.
    `placed`: what huge pages do on several NUMA nodes. `track_records`: how far off each model was
    on this machine. `copied`: where the simulation is of copies of the running program. `followed`:
    a process that ran before, and afterwards; its one "run" is the time between. `measured`: on
    huge pages, too; `not_measured`: why that says nothing, where it was asked for. `not_simulated`:
    the same, where what was measured does without. `region`: the phase that all of it is of.
    """

    argv: tuple[str, ...]
    path: Path | None
    machine: Machine | None
    surroundings: Surroundings | None
    huge_page_bytes: int
    calibrated: Obtained | None
    notes: tuple[str, ...] = ()
    run_notes: tuple[str, ...] = ()
    native: tuple[Outcome, ...] = ()
    geometry: Geometry | None = None
    simulation: Simulation | None = None
    counted: EventCounts | None = None
    pmu: Pmu | None = None
    walk_cycles: float | None = None
    track_records: Mapping[Way, TrackRecord] = field(default_factory=dict)
    no_core: str | None = None
    placed: NodePlacement | None = None
    seen: Seen = ()
    sampled: Sampled | None = None
    copied: CopiedRun | None = None
    followed: bool = False
    measured: MeasuredGain | None = None
    not_measured: str | None = None
    not_simulated: str | None = None
    region: str | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(outcome.run for outcome in self.native if outcome.run is not None)

    @property
    def codes(self) -> tuple[int, ...]:
        return tuple(outcome.code for outcome in self.native)

    @property
    def base_page_bytes(self) -> int | None:
        """Of the machine, else of the one that was calibrated; None: not known."""
        if self.machine is not None:
            return self.machine.base_page_bytes
        if self.calibrated is not None:
            return self.calibrated.calibration.machine.base_page_bytes
        return None

    @property
    def settings(self) -> HugeSettings | None:
        return None if self.surroundings is None else self.surroundings.settings

    @property
    def cost_notes(self) -> tuple[str, ...]:
        return () if self.calibrated is None else (*self.calibrated.notes, *self.run_notes)


@dataclass(frozen=True, slots=True)
class Simulated:
    """What the simulation counted, and what follows from that alone.

    `code` is the exit code of the simulated run, as a shell shows it. `sample`: what was modelled
    for the overlap model. `no_overlap`: why that model, though wanted, says nothing. `attribution`:
    walks by memory and code; None where no process image has tables. `copies`: of copies of the
    running program; None: it ran in Valgrind.
    """

    geometry: Geometry
    run: Run | None
    code: int
    processes: tuple[ProcessCounts, ...]
    counts: Counts
    gain: PredictedGain
    sample: ModelledWindows | None = None
    no_overlap: str | None = None
    attribution: Attribution | None = None
    copies: CopiesRecord | None = None

    @property
    def base_walks(self) -> int:
        """Page walks on base pages."""
        size = self.geometry.base.page_size_bytes
        return sum(seen.stlb_misses for (pages, _), seen in self.counts.items() if pages == size)


@dataclass(frozen=True, slots=True)
class CountedPart:
    """What the counters said, what the CPU's formulas make of it, and what follows.

    `figures` has every formula of the CPU by its name; None: an event of it was not obtained.
    `walk_cycles`: what the user said that a walk costs.
    """

    counted: EventCounts
    pmu: Pmu
    figures: Mapping[str, Interval | None]
    witness: Witness
    walk_cycles: float | None
    gain: PredictedGain


@dataclass(frozen=True, slots=True)
class Caveat:
    """A numbered warning: a fact and a remedy, as sentences."""

    code: Annotated[str, doc("T and a number, as in doc/caveats.md", pattern="^T[0-9]{2}$")]
    severity: Annotated[
        Severity,
        doc(
            "high: the answer may be about something else; medium: it may be off by more than its "
            "interval, or that is wide; low: good to know"
        ),
    ]
    sentence: Annotated[str, doc("what is so")]
    remedy: Annotated[str, doc("what to do about it")]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What translation costs the program, what huge pages would give, and what to do.

    `footprint` is the memory that the simulation saw, else what the runs show of it. `gain` is that
    of the counters where there are any. `track_record`: how far off its model was on this machine.
    `sampled`: walks by memory and code, from samples of counters. `notes`: `given.notes`, and those
    on samples. `spread_part`: the part of the gain's interval that more runs would narrow, 0 to 1;
    None: there are no two runs. `advice`: what to do about the memory that misses, most first.
    """

    version: str
    date: str
    given: Evidence
    notes: tuple[str, ...]
    base_costs: PageCosts | None
    huge_costs: PageCosts | None
    footprint: Footprint | None
    simulated: Simulated | None
    counted: CountedPart | None
    gain: PredictedGain
    track_record: TrackRecord | None = None
    sampled: Attribution | None = None
    spread_part: float | None = None
    caveats: tuple[Caveat, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def backend(self) -> Backend:
        if self.counted is None:
            return "pairs" if self.simulated is None else "sim"
        return "pmu" if self.simulated is None else "both"

    @property
    def attribution(self) -> Attribution | None:
        """Walks by memory and code: from the simulation, which knows more, else from samples."""
        simulated = self.simulated.attribution if self.simulated is not None else None
        return simulated or self.sampled


def surroundings(stalls: Stalls | None) -> Surroundings:
    """Of this system now."""
    has_pmu = find_pmu().answer in _PRESENT
    settings = huge_settings()
    size = settings.huge_page_bytes
    return Surroundings(
        has_pmu,
        glibc_version(),
        os.environ.get("GLIBC_TUNABLES"),
        settings,
        shutil.which("hugectl") is not None,
        run_thp.is_here(),
        reports_free_pages(),
        None if size is None else whole_free(size),
        stalls,
    )


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
    unsimulated: TlbcostError | None = None  # the reason, if pairs of runs may answer without


def plan_runs(request: EstimateRequest, machine: Machine, path: Path | None) -> RunPlan:
    """Choose how to count, and calibrate; refuse here what can be refused (TlbcostError)."""
    simulated = request.pid is not None or request.region is not None
    choice = choose("sim" if simulated else request.backend, machine)
    for note in choice.notes:
        say(note)
    copied, valgrind, unsimulated = False, None, None
    if choice.simulate:
        try:
            if path is not None:
                check_simulatable(path)
            if request.engine != "valgrind":
                why = unavailable() or (untraceable() if request.pid is None else None)
                if request.region is not None:
                    why = "all references of a region are counted"
                copied = why is None
                if why is not None:
                    not_copied(request, why)
            if not copied:
                valgrind = find_valgrind()
        except TlbcostError as error:
            if not request.may_stand_alone:
                raise
            unsimulated = error
    calibrated = calibration_for(request.calibration, recalibrate=request.recalibrate)
    huge, notes = huge_page_or_assumed(machine)
    geometry, core, no_core = None, None, None
    if choice.simulate:
        geometry = geometry_for(calibrated.calibration, machine, huge)
        core = core_for(calibrated.calibration, machine, geometry)
        no_core = "the calibration has no costs of loads" if core is None else None
    if choice.simulate or choice.needs_costs:
        check_costs(calibrated.calibration, machine)
    notes += core.notes if core is not None else ()
    copies = None
    if geometry is not None and copied:
        if core is not None:
            rate = cost_at(calibrated.calibration, "cycles_per_ns", None)
            copies = CopyPlan(
                geometry,
                core.option,
                rate.value if rate is not None and rate.value > 0 else 1.0,
                _USUAL_OVERHEAD if request.overhead is None else request.overhead,
                request.copies,
                copied_page_ns(calibrated.calibration, geometry),
                request.most_pause,
            )
        else:
            not_copied(request, no_core or "no core is modelled")
            valgrind = find_valgrind()
    return RunPlan(
        choice, valgrind, calibrated, geometry, core, no_core, huge, notes, copies, unsimulated
    )


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


def copied_page_ns(calibration: Calibration, geometry: Geometry) -> int:
    """CPU time of a write to a page that a copy shares."""
    fault = cost_at(calibration, "fault_ns", geometry.base.page_size_bytes)
    return _COPIED_PAGE_NS if fault is None else max(_COPIED_PAGE_NS, round(_COPIED * fault.value))


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
        return _counting(machine, compare=asked == "both")
    except TlbcostError as error:
        if asked != "auto" or error.exit_code != CANNOT_MEASURE:
            raise
        return Choice(simulate=True, notes=(f"simulated, since counters cannot be read: {error}",))


def _counting(machine: Machine, *, compare: bool) -> Choice:
    own = pmu_of(machine)
    pmu = own or generic_pmu()
    formulas = _OF_CYCLES if "share" in pmu.formulas else _OF_WALKS
    events = default_events(pmu, (*formulas, *(_TO_COMPARE if compare else ())))
    refusals = probe(pmu, [EventRequest.of(event) for event in events])
    opened = {refusal.event for refusal in refusals if refusal.state in _OPENED}
    with_cycles = _has(pmu, opened, _WITH_CYCLES)
    if "cycles" not in opened or not (with_cycles or _has(pmu, opened, _WITH_COSTS)):
        refused = [refusal for refusal in refusals if refusal.event not in opened]
        if "cycles" in opened and all(refusal.state == "unsupported" for refusal in refused):
            raise TlbcostError(
                "this machine's counters count no page walks and no TLB misses",
                "--backend sim counts without them",
                CANNOT_MEASURE,
            )
        raise diagnose(refused, "program", "user")
    notes: tuple[str, ...] = ()
    if own is None:
        notes = (
            "this CPU has no event table: the kernel's generic events are counted, whose meaning "
            "depends on the CPU",
        )
    counted = tuple(event for event in events if event.name in opened)
    return Choice(compare, pmu, counted, not with_cycles, notes)


def _has(pmu: Pmu, opened: set[str], formulas: Sequence[str]) -> bool:
    from tlbcost.processors.events import names

    return any(name in pmu.formulas and names(pmu.formulas[name]) <= opened for name in formulas)
