# SPDX-License-Identifier: GPL-2.0-or-later
"""An estimate as its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from tlbcost.answer import estimate_document as parts
from tlbcost.answer import words
from tlbcost.answer.record import CountedPart, Estimate, Evidence, Simulated
from tlbcost.attribution.document import attribution_part
from tlbcost.common.document import part_of
from tlbcost.common.units import Interval, spread_fraction
from tlbcost.model.gain import speedup_ratio, total_interval
from tlbcost.processors.published import Geometry, Level, PageSizeGeometry, TlbLevel
from tlbcost.remedies.advice import advice_part
from tlbcost.simulator.counts import Side, SideCounts


def estimate_document(estimate: Estimate) -> parts.EstimateDocument:
    gain, time = estimate.gain, estimate.gain.cpu_ns
    total = total_interval(gain)
    costs = (estimate.base_costs, estimate.huge_costs)
    sampled = None if estimate.sampled is estimate.attribution else estimate.sampled
    why, around = estimate.given.not_measured, estimate.given.surroundings
    placed, footprint = estimate.given.placed, estimate.footprint
    seen_by = "runs" if estimate.simulated is None else "simulation"
    return part_of(
        parts.EstimateDocument,
        gain,
        tlbcost_version=estimate.version,
        date=estimate.date,
        backend=estimate.backend,
        notes=estimate.notes,
        machine=_machine(estimate),
        huge_page_bytes=estimate.given.huge_page_bytes,
        program=_program(estimate),
        calibration=_calibration(estimate.given),
        costs=[each for each in costs if each is not None],
        footprint=None
        if footprint is None
        else part_of(parts.FootprintPart, footprint, source=seen_by),
        counters=None if estimate.counted is None else _counters(estimate.counted),
        simulation=None if estimate.simulated is None else _simulation(estimate.simulated),
        attribution=attribution_part(estimate.attribution),
        sampled_attribution=attribution_part(sampled),
        measured=estimate.given.measured,
        stalls=None if around is None else around.stalls,
        not_measured=None if why is None else str(why),
        not_simulated=estimate.given.not_simulated,
        region=estimate.given.region,
        fractions_of=words.time_name(gain, estimate.given),
        base_data_translation_ns=gain.base_data_ns,
        base_code_translation_ns=gain.base_code_ns,
        huge_data_translation_ns=gain.huge_data_ns,
        bound_saved_ns=_saved(gain.bound_fraction, time),
        bound_speedup_ratio=_speedups(gain.bound_fraction),
        expected_saved_ns=_saved(gain.expected_fraction, time),
        expected_speedup_ratio=_speedups(gain.expected_fraction),
        fault_saved_ns=None if gain.fault_fraction is None else _saved(gain.fault_fraction, time),
        fault_speedup_ratio=None if gain.fault_fraction is None else _speedups(gain.fault_fraction),
        total_fraction=total,
        total_saved_ns=_saved(total, time),
        total_speedup_ratio=_speedups(total),
        verdict=parts.VerdictPart(
            code=gain.verdict,
            sentence=words.verdict_sentence(estimate),
            decided_by=words.decider(estimate),
            service_sentence=words.service_sentence(estimate),
        ),
        placement=None
        if placed is None
        else part_of(parts.PlacementPart, placed, sentence=words.placement_sentence(estimate)),
        tried=estimate.track_record,
        caveats=estimate.caveats,
        next_steps=words.next_steps(estimate),
        what_to_do=[advice_part(advice) for advice in estimate.advice],
    )


def _machine(estimate: Estimate) -> parts.HostMachine | None:
    machine, around = estimate.given.machine, estimate.given.surroundings
    if machine is None:
        return None
    return parts.HostMachine(**asdict(machine), has_pmu=None if around is None else around.has_pmu)


def _program(estimate: Estimate) -> parts.ProgramPart:
    given = estimate.given
    return parts.ProgramPart(
        argv=given.argv,
        path=None if given.path is None else str(given.path),
        runs=[
            parts.NativeRun(**asdict(run), exit_code=code)
            for run, code in zip(given.runs, given.codes, strict=True)
        ],
        cpu_ns=estimate.gain.cpu_ns,
        wall_ns=estimate.gain.wall_ns,
        cpu_spread_fraction=spread_fraction([run.cpu_ns for run in given.runs])
        if given.runs
        else None,
        waited_fraction=words.waited_fraction(given.runs),
        idle_fraction=words.idle_fraction(given.runs),
    )


def _calibration(given: Evidence) -> parts.CalibrationPart | None:
    if given.calibrated is None:
        return None
    known, source = given.calibrated.calibration, given.calibrated.source
    return part_of(parts.CalibrationPart, known, source=source, notes=given.cost_notes)


def _counters(part: CountedPart) -> parts.CountersPart:
    counted, witness = part.counted, part.witness
    return part_of(
        parts.CountersPart,
        counted,
        pmu=part.pmu.key,
        pmu_name=part.pmu.name,
        formulas={
            name: parts.FormulaValue(expression=part.pmu.formulas.get(name), value=figure)
            for name, figure in part.figures.items()
        },
        way=witness.way,
        translation_fraction=witness.total,
        data_translation_fraction=witness.data,
        exposed_fraction=witness.exposed,
        ept_fraction=witness.ept,
        missing_events=witness.missing,
        bound_fraction=part.gain.bound_fraction,
        expected_fraction=part.gain.expected_fraction,
    )


def _simulation(simulated: Simulated) -> parts.SimulationPart:
    gain, geometry, sample = simulated.gain, simulated.geometry, simulated.sample
    return parts.SimulationPart(
        wall_ns=None if simulated.run is None else simulated.run.wall_ns,
        exit_code=simulated.code,
        geometry=(_geometry(geometry, geometry.base), _geometry(geometry, geometry.huge)),
        processes=[
            part_of(
                parts.ProcessPart,
                each,
                counts=None if each.counts is None else _counts(each.counts),
            )
            for each in simulated.processes
        ],
        counts=_counts(simulated.counts),
        bound_fraction=gain.bound_fraction,
        expected_fraction=gain.expected_fraction,
        model=gain.model,
        expected_overlap_fraction=gain.models.get("overlap"),
        expected_simple_fraction=gain.models.get("simple"),
        modelled=None
        if sample is None
        else part_of(parts.ModelledPart, sample, user_saved_fraction=sample.saving),
        no_overlap=simulated.no_overlap,
        engine="valgrind" if simulated.copies is None else "copies",
        copies=simulated.copies,
    )


def _geometry(geometry: Geometry, each: PageSizeGeometry) -> parts.GeometryPart:
    size = each.page_size_bytes

    def level(name: Level, tlb: TlbLevel | None) -> parts.SourcedLevel | None:
        source = geometry.sources.get((name, size))
        if tlb is None:
            return None
        return parts.SourcedLevel(
            tlb.entries,
            tlb.ways,
            source_kind=source.kind if source else None,
            source=source.sentence if source else None,
        )

    return parts.GeometryPart(
        page_size_bytes=size,
        entry_bytes=each.entry_bytes or size,
        dtlb=level("dtlb", each.dtlb),
        itlb=level("itlb", each.itlb),
        stlb=level("stlb", each.stlb),
    )


def _counts(counts: Mapping[tuple[int, Side], SideCounts]) -> list[parts.AccessMisses]:
    return [
        parts.AccessMisses(**asdict(seen), page_size_bytes=size, access=side)
        for (size, side), seen in sorted(counts.items())
    ]


def _saved(share: Interval, cpu_ns: float | None) -> Interval | None:
    if cpu_ns is None:
        return None
    return Interval(share.value * cpu_ns, share.low * cpu_ns, share.high * cpu_ns)


def _speedups(share: Interval) -> parts.Ratios:
    return parts.Ratios(
        value=speedup_ratio(share.value),
        low=speedup_ratio(share.low),
        high=speedup_ratio(share.high),
    )
