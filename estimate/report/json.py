# SPDX-License-Identifier: GPL-2.0-or-later
"""The report for programs: every figure under a key that carries its unit; null: not obtained.

The form is described by data/schema/estimate.schema.json.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from tlbcost.caveats import caveats
from tlbcost.costs import PageCosts
from tlbcost.model import run_time_ns, speedup_ratio
from tlbcost.records import (
    Interval,
    Level,
    LevelSource,
    PageSizeGeometry,
    ProcessCounts,
    Side,
    SideCounts,
    TlbLevel,
)
from tlbcost.report.content import Content
from tlbcost.report.words import next_steps, verdict_sentence
from tlbcost.stats import spread_fraction

SCHEMA = "tlbcost-estimate-1"

Value = dict[str, object]
Sources = dict[tuple[Level, int], LevelSource]


def to_json(content: Content) -> str:
    """The report as the text of a JSON file."""
    return json.dumps(document(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(content: Content) -> Value:
    """The report as nested dictionaries and lists."""
    huge = content.geometry.huge.page_size_bytes
    return {
        "schema": SCHEMA,
        "tlbcost_version": content.version,
        "date": content.date,
        "machine": {
            **asdict(content.machine),
            "huge_page_bytes": huge,
            "has_pmu": content.surroundings.has_pmu,
        },
        "program": _program(content),
        "calibration": {
            "source": content.calibration.source,
            "date": content.calibration.date,
            "notes": list(content.calibration.notes),
        },
        "geometry": [
            _geometry(level, content.geometry.sources)
            for level in (content.geometry.base, content.geometry.huge)
        ],
        "costs": [_costs(costs) for costs in (content.base_costs, content.huge_costs)],
        "processes": [_process(process) for process in content.processes],
        "counts": _counts(dict(content.counts)),
        "footprint": {
            "touched_anonymous_pages": content.footprint.anonymous_pages,
            "touched_anonymous_huge_pages": content.footprint.anonymous_huge_pages,
            "dense_huge_pages": content.footprint.dense_huge_pages,
            "touched_other_pages": content.footprint.other_pages,
        },
        **_estimate(content),
        "verdict": {
            "code": content.estimate.verdict,
            "sentence": verdict_sentence(content.estimate, huge),
        },
        "caveats": [asdict(caveat) for caveat in caveats(content)],
        "next_steps": next_steps(content),
    }


def _program(content: Content) -> Value:
    runs = content.runs
    return {
        "argv": list(content.argv),
        "path": str(content.path),
        "runs": [
            {**asdict(run), "exit_code": code}
            for run, code in zip(runs, content.codes, strict=True)
        ],
        "run_time_ns": content.estimate.run_time_ns,
        "wall_ns": content.estimate.wall_ns,
        "run_time_spread_fraction": spread_fraction([run_time_ns(run) for run in runs]),
        "simulated_wall_ns": None if content.simulated is None else content.simulated.wall_ns,
        "simulated_exit_code": content.simulated_code,
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


def _estimate(content: Content) -> Value:
    estimate = content.estimate
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


def _saving(name: str, share: Interval | None, wall_ns: float) -> Value:
    if share is None:
        return dict.fromkeys((f"{name}_fraction", f"{name}_saved_ns", f"{name}_speedup_ratio"))
    return {
        f"{name}_fraction": _interval(share),
        f"{name}_saved_ns": {end: part * wall_ns for end, part in asdict(share).items()},
        f"{name}_speedup_ratio": {end: speedup_ratio(part) for end, part in asdict(share).items()},
    }


def _interval(interval: Interval | None) -> Value | None:
    return None if interval is None else asdict(interval)
