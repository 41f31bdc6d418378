# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts as other tools print them, and what is read from them."""

from __future__ import annotations

from tlbcost.counters.event_counts import EventCount, EventCounts
from tlbcost.counters.importing.file import import_text
from tlbcost.processors.event_tables import load_pmu
from tlbcost.processors.events import Pmu

SKYLAKE = load_pmu("skl")


def read(text: str, pmu: Pmu | None = SKYLAKE, object_name: str | None = None) -> EventCounts:
    return import_text(text, "file", pmu, object_name)


def value(counted: EventCounts, event: str) -> float | None:
    return next(count.value for count in counted.counts if count.event == event)


def state(counted: EventCounts, event: str) -> str:
    return next(count.state for count in counted.counts if count.event == event)


def cycles_of(cycles: float | None, source: str = "a", **more: object) -> EventCounts:
    counts = () if cycles is None else (EventCount("cycles", "cycles", cycles, None, "counted"),)
    return EventCounts(source=source, pmu="skl", mode="user", counts=counts, **more)  # type: ignore[arg-type]
