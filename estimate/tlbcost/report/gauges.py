# SPDX-License-Identifier: GPL-2.0-or-later
"""A saved estimate as gauges for Prometheus."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.openmetrics import exposition, family, labels

_Samples = list[tuple[str, float | None]]


def gauges(document: EstimateDocument) -> str:
    """Its age is time() less tlbcost_estimate_timestamp_seconds."""
    program = Path(document.program.argv[0]).name
    measured, stalls, counters = document.measured, document.stalls, document.counters
    growth = None if measured is None else measured.growth_bytes
    share = None if counters is None else counters.translation_fraction
    base, huge = (None, None) if stalls is None else (stalls.base, stalls.huge)

    def one(value: float | None) -> _Samples:
        return [(labels(program=program), value)]

    gain: _Samples = [
        (labels(program=program, end=end), getattr(document.total_fraction, end))
        for end in ("low", "value", "high")
    ]
    stall: _Samples = [
        (labels(program=program, pages=pages, quantile=quantile), None if ns is None else ns / 1e9)
        for pages, times in (("base", base), ("huge", huge))
        for quantile, ns in (
            ("0.5", None if times is None else times.median_ns),
            ("0.999", None if times is None else times.p999_ns),
        )
    ]
    verdict: _Samples = [(labels(program=program, verdict=document.verdict.code), 1.0)]
    made = datetime.fromisoformat(document.date).timestamp()
    lines = [
        *family("tlbcost_gain_ratio", "ratio", "Run time that huge pages save.", gain),
        *family(
            "tlbcost_bound_ratio", "ratio", "Run time that translation takes at most.",
            one(document.bound_fraction.value),
        ),
        *family(
            "tlbcost_walk_ratio", "ratio", "Cycles in page walks, counted by hardware.",
            one(None if share is None else share.value),
        ),
        *family(
            "tlbcost_growth_bytes", "bytes", "Memory that huge pages add at the peak.",
            one(None if growth is None else growth.value),
        ),
        *family("tlbcost_first_touch_seconds", "seconds", "First touches of a page.", stall),
        *family("tlbcost_verdict", "", "The verdict of the estimate.", verdict),
        *family(
            "tlbcost_estimate_timestamp_seconds", "seconds", "When it was estimated.", one(made)
        ),
    ]  # fmt: skip
    return exposition(lines)
