# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs on pages of several sizes for programs: data/schema/pagesizes.schema.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from tlbcost.common.interval import Interval
from tlbcost.pagesizes.backing import PageSize
from tlbcost.pagesizes.patterns import Pattern
from tlbcost.pagesizes.report import PageReport, extremes
from tlbcost.pagesizes.run import PageTimes, Timed

SCHEMA = "tlbcost-pagesizes-1"

Value = dict[str, object]


def to_json(report: PageReport) -> str:
    """The report as the text of a JSON file."""
    times = report.times
    worst, best = extremes(times)
    document = {
        "schema": SCHEMA,
        "tlbcost_version": report.version,
        "date": report.date,
        "machine": asdict(report.machine),
        "rounds": times.rounds,
        "accesses": times.accesses,
        "scaled_bytes": times.gib << 30,
        "page_sizes": [{"page_size_bytes": s.n_bytes, "way": s.way} for s in times.sizes],
        "missing": [
            {"page_size_bytes": size, "reason": lack.reason, "hint": lack.hint}
            for size, lack in times.missing.items()
        ],
        "patterns": [_pattern(times, each) for each in times.patterns],
        "published": [asdict(each) for each in report.published],
        "tlbs": list(report.tlbs),
        "notes": list(report.notes),
        "worst": worst,
        "best": best,
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _pattern(times: PageTimes, pattern: Pattern) -> Value:
    run = next((t for t in times.timed if t.pattern == pattern.number), None)
    return {
        "pattern": pattern.number,
        "words": pattern.words,
        "size_bytes": pattern.size(times.gib),
        "chunks": None if run is None else run.chunks,
        "stride_bytes": None if run is None else run.stride_bytes,
        "offset_bytes": None if run is None else run.offset_bytes,
        "draws": None if run is None else run.draws,
        "lines": None if run is None else run.lines,
        "pages_4k": None if run is None else run.pages_4k,
        "pages_2m": None if run is None else run.pages_2m,
        "pages_1g": None if run is None else run.pages_1g,
        "page_sizes": [_on(times, pattern, size) for size in times.sizes],
    }


def _on(times: PageTimes, pattern: Pattern, size: PageSize) -> Value:
    lack = times.lacks.get((pattern.number, size.n_bytes))
    base = size.n_bytes == times.sizes[0].n_bytes
    key = pattern.number, size.n_bytes
    return {
        "page_size_bytes": size.n_bytes,
        "cycles": _interval(times.cost(*key, lambda run: run.cycles)),
        "time_ns": _interval(times.cost(*key, lambda run: run.ns)),
        "ratio": None if base else _interval(times.ratio(*key)),
        "missing": None if lack is None else asdict(lack),
        "runs": [_run(run) for run in times.runs(*key)],
    }


def _run(run: Timed) -> Mapping[str, object]:
    return {
        "round": run.round,
        "elapsed_ns": run.elapsed_ns,
        "cycles_per_ns": run.cycles_per_ns,
        "resident_bytes": run.resident_bytes,
        "proven_bytes": run.proven_bytes,
    }


def _interval(interval: Interval | None) -> Value | None:
    return None if interval is None else asdict(interval)
