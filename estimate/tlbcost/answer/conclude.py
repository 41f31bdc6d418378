# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the runs, the counts and the costs come to together? Applies the models to them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tlbcost.accuracy.record import TrackRecord
from tlbcost.answer.content import (
    Backend,
    CalibrationUsed,
    Content,
    CountedPart,
    Simulated,
)
from tlbcost.answer.surroundings import Surroundings
from tlbcost.attribution.attribute import who_pays, who_pays_by_samples
from tlbcost.attribution.backed import Seen
from tlbcost.attribution.sampled import Sampled
from tlbcost.calibration.costs import PageCosts, cost_at, page_costs
from tlbcost.calibration.records import Obtained
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.common.paths import version
from tlbcost.counters.count_findings import formula_values
from tlbcost.counters.event_counts import EventCounts
from tlbcost.model import miss_costs, overlap, walk_share
from tlbcost.model.gain import ModelName, PredictedGain
from tlbcost.numa.locality import NodePlacement
from tlbcost.processors.event_tables import generic_pmu
from tlbcost.processors.events import Pmu
from tlbcost.processors.geometry import Geometry
from tlbcost.run.outcome import Outcome, Run
from tlbcost.simulator.counts import (
    Footprint,
    ProcessCounts,
    footprint_pages,
    splintered,
    total_counts,
    total_footprint,
)
from tlbcost.simulator.run import Simulation
from tlbcost.system.machine import Machine

AskedModel = Literal["auto", "overlap", "simple"]


@dataclass(frozen=True, slots=True)
class Ingredients:
    """Everything that an estimate can be made from; what was not obtained is None or empty.

    `notes` are about the backend, `calibration_notes` about the costs; `walk_cycles` is what one
    walk costs, if the user said it. `seen`: the program's mappings when it ran natively.
    """

    argv: tuple[str, ...]
    path: Path | None
    machine: Machine | None
    surroundings: Surroundings | None
    huge_page_bytes: int
    calibrated: Obtained | None
    notes: tuple[str, ...] = ()
    calibration_notes: tuple[str, ...] = ()
    native: tuple[Outcome, ...] = ()
    geometry: Geometry | None = None
    simulation: Simulation | None = None
    counted: EventCounts | None = None
    pmu: Pmu | None = None
    walk_cycles: float | None = None
    tried: Mapping[ModelName, TrackRecord] = field(default_factory=dict)
    model: AskedModel = "auto"
    no_core: str | None = None
    placed: NodePlacement | None = None
    seen: Seen = ()
    sampled: Sampled | None = None


def assemble(given: Ingredients) -> Content:
    """Apply the models to what was obtained.

    Raises TlbcostError with exit code 4 if the counts do not bound the translation, or do not
    suffice for the model asked for.
    """
    processes = _processes(given)
    footprint = _footprint(given, processes)
    costs = _page_costs(given, footprint, processes)
    simulated = _simulated(given, processes, costs, footprint)
    counted = _counted(given, costs, footprint, simulated)
    # Counters are the better witness.
    best = counted or simulated
    assert best is not None, "neither counted nor simulated"
    backend: Backend = "both" if counted and simulated else "pmu" if counted else "sim"
    calibrated = given.calibrated
    expected = best.estimate.expected_fraction
    settings = given.surroundings.settings if given.surroundings else None
    sampled, doubts = who_pays_by_samples(given.sampled, expected, given.seen, settings)
    return Content(
        version=version(),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        backend=backend,
        notes=(*given.notes, *doubts),
        machine=given.machine,
        surroundings=given.surroundings,
        argv=given.argv,
        path=given.path,
        runs=_runs(given),
        codes=tuple(outcome.code for outcome in given.native),
        calibration=None
        if calibrated is None
        else CalibrationUsed(
            calibrated.calibration.machine,
            calibrated.calibration.date,
            calibrated.source,
            (*calibrated.notes, *given.calibration_notes),
        ),
        huge_page_bytes=given.huge_page_bytes,
        base_costs=costs[0] if costs else None,
        huge_costs=costs[1] if costs else None,
        footprint=footprint,
        simulated=simulated,
        counted=counted,
        estimate=best.estimate,
        # Predictions by simulation are what was tried, and of the same model.
        tried=None if best.estimate.model is None else given.tried.get(best.estimate.model),
        placed=given.placed,
        sampled=sampled,
    )


def _runs(given: Ingredients) -> tuple[Run, ...]:
    return tuple(outcome.run for outcome in given.native if outcome.run is not None)


def _base_bytes(given: Ingredients) -> int | None:
    if given.machine is not None:
        return given.machine.base_page_bytes
    if given.calibrated is not None:
        return given.calibrated.calibration.machine.base_page_bytes
    return None


def _processes(given: Ingredients) -> tuple[ProcessCounts, ...]:
    """The simulated processes; on TLBs that hold pieces of huge pages, as these miss there."""
    if given.simulation is None or given.geometry is None:
        return ()
    sizes = (given.geometry.base.page_size_bytes, given.geometry.huge.page_size_bytes)
    if given.geometry.huge.entry_bytes != sizes[0]:
        return given.simulation.processes
    return tuple(splintered(process, *sizes) for process in given.simulation.processes)


def _footprint(given: Ingredients, processes: tuple[ProcessCounts, ...]) -> Footprint | None:
    base = _base_bytes(given)
    if base is None:
        return None
    pages_per_huge = given.huge_page_bytes // base
    if processes:
        return total_footprint(processes, pages_per_huge)
    return walk_share.memory_of(_runs(given), base, pages_per_huge)


def _page_costs(
    given: Ingredients, footprint: Footprint | None, processes: tuple[ProcessCounts, ...]
) -> tuple[PageCosts, PageCosts] | None:
    """The prices of both page sizes at the program's footprint.

    Without any footprint, as in an imported profile, those at the smallest one with walks.
    """
    base = _base_bytes(given)
    if given.calibrated is None or base is None:
        return None
    if processes:
        pages = footprint_pages(processes)
    else:
        pages = footprint.largest_anonymous_pages if footprint is not None else 1
    entry_bytes = (base, given.huge_page_bytes)
    if given.geometry is not None:
        levels = (given.geometry.base, given.geometry.huge)
        entry_bytes = (
            levels[0].entry_bytes or levels[0].page_size_bytes,
            levels[1].entry_bytes or levels[1].page_size_bytes,
        )
    calibration = given.calibrated.calibration
    return (
        page_costs(calibration, base, entry_bytes[0], pages * base),
        page_costs(calibration, given.huge_page_bytes, entry_bytes[1], pages * base),
    )


def _simulated(
    given: Ingredients,
    processes: tuple[ProcessCounts, ...],
    costs: tuple[PageCosts, PageCosts] | None,
    footprint: Footprint | None,
) -> Simulated | None:
    if given.simulation is None or given.geometry is None:
        return None
    assert costs is not None, "a simulation is priced by a calibration"
    assert footprint is not None
    counts = total_counts(processes)
    runs = _runs(given)
    simple = miss_costs.predicted(runs, counts, footprint, *costs)
    estimate, no_overlap = simple, None
    sample = overlap.sample_of(given.simulation.windows)
    if sample is not None and sample.saving is not None:
        expected = overlap.expected_gain(sample.saving, runs, simple.bound_fraction)
        estimate = overlap.with_overlap(simple, expected, runs, footprint)
    elif given.model != "simple":
        no_overlap = given.no_core or overlap.shortfall(sample)
    if given.model == "overlap" and no_overlap is not None:
        raise TlbcostError(
            f"no estimate by the overlap model: {no_overlap}",
            "--model simple, or give the program more to do",
            CANNOT_MEASURE,
        )
    return Simulated(
        given.geometry,
        given.simulation.outcome.run,
        given.simulation.outcome.code,
        processes,
        counts,
        estimate,
        sample,
        no_overlap,
        who_pays(
            given.simulation,
            given.geometry,
            costs,
            estimate.expected_fraction,
            given.seen,
            given.surroundings.settings if given.surroundings else None,
        ),
    )


def _counted(
    given: Ingredients,
    costs: tuple[PageCosts, PageCosts] | None,
    footprint: Footprint | None,
    simulated: Simulated | None,
) -> CountedPart | None:
    if given.counted is None or given.pmu is None:
        return None
    counted = given.counted
    found = formula_values(given.pmu.formulas, counted)
    cycles = counted.values().get("cycles")
    seen = walk_share.witness(found, cycles, _prices(given, costs, cycles))
    if seen is None:
        raise _unbounded(given, found)
    remaining = None if simulated is None else _remaining(simulated.estimate)
    return CountedPart(
        counted,
        given.pmu,
        found,
        seen,
        given.walk_cycles,
        walk_share.predicted(counted, seen, _runs(given), costs, footprint, remaining),
    )


def _prices(
    given: Ingredients, costs: tuple[PageCosts, PageCosts] | None, cycles: float | None
) -> walk_share.Prices | None:
    """What a walk costs in cycles: as the user said, else by the calibration."""
    if given.walk_cycles is not None:
        said = given.walk_cycles
        return walk_share.Prices(Interval(said, said, said), None)
    if costs is None or given.calibrated is None or given.counted is None:
        return None
    clock = cost_at(given.calibrated.calibration, "cycles_per_ns", None)
    rate = None if clock is None else clock.value
    if cycles and given.counted.mode == "user" and given.counted.user_ns:
        # The program's own clock, and not that of the calibration.
        rate = cycles / given.counted.user_ns
    return None if rate is None else walk_share.prices_of(costs[0], rate)


def _remaining(estimate: PredictedGain) -> float | None:
    """The part of the time in translation that stays on huge pages, by the simulation."""
    base, huge = estimate.base_data_ns, estimate.huge_data_ns
    if base is None or huge is None or base.value <= 0:
        return None
    return huge.value / base.value


def _unbounded(given: Ingredients, found: Mapping[str, Interval | None]) -> TlbcostError:
    assert given.pmu is not None
    walks = found.get("walks") or found.get("data_walks")
    if walks is not None and given.calibrated is None:
        return TlbcostError(
            f"no estimate: {given.pmu.name} counts walks but not their cycles, and what a walk "
            "costs is not known",
            "--calibration FILE, made there by tlbcost calibrate, or --walk-cycles N",
            CANNOT_MEASURE,
        )
    if given.path is None and given.pmu is generic_pmu():
        return TlbcostError(
            "no estimate: it is not known which CPU was counted on, nor what its events mean",
            "--cpu MODEL; tlbcost events --list has them",
            CANNOT_MEASURE,
        )
    needed = given.pmu.formulas.get("share") or given.pmu.formulas.get("walks") or "walks"
    return TlbcostError(
        "no estimate: the counts tell neither the cycles in page walks nor their number",
        f"count what {given.pmu.name} needs: {needed}",
        CANNOT_MEASURE,
    )
