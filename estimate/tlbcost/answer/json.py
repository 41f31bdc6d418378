# SPDX-License-Identifier: GPL-2.0-or-later
"""The report for programs: every figure under a key that carries its unit; null: not obtained.

The form is described by data/schema/estimate.schema.json.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from tlbcost.answer.caveats import caveats
from tlbcost.answer.content import Content, CountedPart, Simulated
from tlbcost.answer.remedies_text import first_steps, what_to_do
from tlbcost.answer.words import placement_sentence, verdict_sentence
from tlbcost.attribution.json import to_value
from tlbcost.calibration.costs import PageCosts
from tlbcost.common.interval import Interval
from tlbcost.common.stats import spread_fraction
from tlbcost.model.gain import MODELS, PredictedGain, run_time_ns, speedup_ratio
from tlbcost.model.overlap import Sample
from tlbcost.processors.geometry import Level, LevelSource, PageSizeGeometry, TlbLevel
from tlbcost.simulator.counts import ProcessCounts, Side, SideCounts

SCHEMA = "tlbcost-estimate-2"

Value = dict[str, object]
Sources = dict[tuple[Level, int], LevelSource]


def to_json(content: Content) -> str:
    """The report as the text of a JSON file."""
    return json.dumps(document(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(content: Content) -> Value:
    """The report as nested dictionaries and lists."""
    simulated, counted = content.simulated, content.counted
    return {
        "schema": SCHEMA,
        "tlbcost_version": content.version,
        "date": content.date,
        "backend": content.backend,
        "notes": list(content.notes),
        "machine": _machine(content),
        "huge_page_bytes": content.huge_page_bytes,
        "program": _program(content),
        "calibration": None
        if content.calibration is None
        else {
            "source": content.calibration.source,
            "date": content.calibration.date,
            "notes": list(content.calibration.notes),
        },
        "costs": [
            _costs(costs) for costs in (content.base_costs, content.huge_costs) if costs is not None
        ],
        "footprint": _footprint(content),
        "counters": None if counted is None else _counters(counted),
        "simulation": None if simulated is None else _simulation(simulated),
        "attribution": to_value(content.attribution),
        "sampled_attribution": None
        if content.sampled is content.attribution
        else to_value(content.sampled),
        **_estimate(content.estimate),
        "verdict": {
            "code": content.estimate.verdict,
            "sentence": verdict_sentence(content.estimate, content.huge_page_bytes),
        },
        "placement": _placement(content),
        "tried": None if content.tried is None else asdict(content.tried),
        "caveats": [asdict(caveat) for caveat in caveats(content)],
        "next_steps": first_steps(content),
        "what_to_do": what_to_do(content),
    }


def _placement(content: Content) -> Value | None:
    placed = content.placed
    if placed is None:
        return None
    return {
        **asdict(placed),
        "direction": placed.direction,
        "sentence": placement_sentence(content),
    }


def _machine(content: Content) -> Value | None:
    if content.machine is None:
        return None
    has_pmu = None if content.surroundings is None else content.surroundings.has_pmu
    return {**asdict(content.machine), "has_pmu": has_pmu}


def _program(content: Content) -> Value:
    runs = content.runs
    return {
        "argv": list(content.argv),
        "path": None if content.path is None else str(content.path),
        "runs": [
            {**asdict(run), "exit_code": code}
            for run, code in zip(runs, content.codes, strict=True)
        ],
        "run_time_ns": content.estimate.run_time_ns,
        "wall_ns": content.estimate.wall_ns,
        "run_time_spread_fraction": spread_fraction([run_time_ns(run) for run in runs])
        if runs
        else None,
    }


def _footprint(content: Content) -> Value | None:
    footprint = content.footprint
    if footprint is None:
        return None
    return {
        "anonymous_pages": footprint.anonymous_pages,
        "anonymous_huge_pages": footprint.anonymous_huge_pages,
        "dense_huge_pages": footprint.dense_huge_pages,
        "other_pages": footprint.other_pages,
        "source": "runs" if content.simulated is None else "simulation",
    }


def _counters(part: CountedPart) -> Value:
    counted = part.counted
    return {
        "source": counted.source,
        "pmu": part.pmu.key,
        "mode": counted.mode,
        "notes": list(counted.notes),
        "counts": [asdict(count) for count in counted.counts],
        "formulas": {
            name: {"expression": part.pmu.formulas.get(name), "value": _interval(figure)}
            for name, figure in part.figures.items()
        },
        "way": part.witness.way,
        "translation_fraction": _interval(part.witness.total),
        "data_translation_fraction": _interval(part.witness.data),
        "exposed_fraction": _interval(part.witness.exposed),
        "ept_fraction": _interval(part.witness.ept),
        **_shares(part.estimate),
    }


def _simulation(simulated: Simulated) -> Value:
    return {
        "wall_ns": None if simulated.run is None else simulated.run.wall_ns,
        "exit_code": simulated.code,
        "geometry": [
            _geometry(level, simulated.geometry.sources)
            for level in (simulated.geometry.base, simulated.geometry.huge)
        ],
        "processes": [_process(process) for process in simulated.processes],
        "counts": _counts(dict(simulated.counts)),
        **_shares(simulated.estimate),
        "model": simulated.estimate.model,
        **{
            f"expected_{model}_fraction": _interval(simulated.estimate.models.get(model))
            for model in MODELS
        },
        "modelled": None if simulated.sample is None else _modelled(simulated.sample),
        "no_overlap": simulated.no_overlap,
    }


def _modelled(sample: Sample) -> Value:
    return {
        "core": sample.core,
        "windows": sample.windows,
        "references": sample.references,
        "sampled_references": sample.sampled_references,
        "modelled_fraction": sample.modelled_fraction,
        "user_saved_fraction": _interval(sample.saving),
    }


def _shares(estimate: PredictedGain) -> Value:
    """What one backend alone concludes."""
    return {
        "bound_fraction": _interval(estimate.bound_fraction),
        "expected_fraction": _interval(estimate.expected_fraction),
    }


def _geometry(level: PageSizeGeometry, sources: Sources) -> Value:
    size = level.page_size_bytes
    return {
        "page_size_bytes": size,
        "entry_bytes": level.entry_bytes or size,
        "dtlb": _level(level.dtlb, sources.get(("dtlb", size))),
        "itlb": _level(level.itlb, sources.get(("itlb", size))),
        "stlb": _level(level.stlb, sources.get(("stlb", size))),
    }


def _level(level: TlbLevel | None, source: LevelSource | None) -> Value | None:
    if level is None:
        return None
    return {
        **asdict(level),
        "source_kind": source.kind if source else None,
        "source": source.sentence if source else None,
    }


def _costs(costs: PageCosts) -> Value:
    return {
        "page_size_bytes": costs.page_size_bytes,
        "footprint_entries": costs.footprint_entries,
        "stlb_hit_serial_ns": _interval(costs.stlb_hit_serial_ns),
        "stlb_hit_overlapped_ns": _interval(costs.stlb_hit_overlapped_ns),
        "walk_serial_ns": _interval(costs.walk_serial_ns),
        "walk_overlapped_ns": _interval(costs.walk_overlapped_ns),
        "walk_cached_ns": _interval(costs.walk_cached_ns),
        "fault_ns": _interval(costs.fault_ns),
        "unmap_ns": _interval(costs.unmap_ns),
    }


def _process(process: ProcessCounts) -> Value:
    touched = process.touched
    return {
        "pid": process.pid,
        "parent_pid": process.parent_pid,
        "program": process.program,
        "threads": process.threads,
        "touched_anonymous_pages": touched.anonymous_pages if touched else None,
        "touched_anonymous_huge_pages": touched.anonymous_huge_pages if touched else None,
        "touched_other_pages": touched.other_pages if touched else None,
        "counts": None if process.counts is None else _counts(process.counts),
    }


def _counts(counts: dict[tuple[int, Side], SideCounts]) -> list[Value]:
    return [
        {"page_size_bytes": size, "access": side, **asdict(seen)}
        for (size, side), seen in sorted(counts.items())
    ]


def _estimate(estimate: PredictedGain) -> Value:
    wall = estimate.wall_ns
    return {
        "base_data_translation_ns": _interval(estimate.base_data_ns),
        "base_code_translation_ns": _interval(estimate.base_code_ns),
        "huge_data_translation_ns": _interval(estimate.huge_data_ns),
        **_saving("bound", estimate.bound_fraction, wall),
        "bound_capped": estimate.bound_capped,
        **_saving("expected", estimate.expected_fraction, wall),
        **_saving("fault", estimate.fault_fraction, wall),
        "code_fraction": _interval(estimate.code_fraction),
    }


def _saving(name: str, share: Interval | None, wall_ns: float | None) -> Value:
    if share is None:
        return dict.fromkeys((f"{name}_fraction", f"{name}_saved_ns", f"{name}_speedup_ratio"))
    return {
        f"{name}_fraction": _interval(share),
        f"{name}_saved_ns": None
        if wall_ns is None
        else {end: part * wall_ns for end, part in asdict(share).items()},
        f"{name}_speedup_ratio": {end: speedup_ratio(part) for end, part in asdict(share).items()},
    }


def _interval(interval: Interval | None) -> Value | None:
    return None if interval is None else asdict(interval)
