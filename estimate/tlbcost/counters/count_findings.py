# SPDX-License-Identifier: GPL-2.0-or-later
"""Findings of counting: the counts, and the values of the CPU's formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tlbcost.common.interval import Interval
from tlbcost.counters.event_counts import EventCounts
from tlbcost.counters.event_selection import CYCLES, EventRequest
from tlbcost.processors.events import Pmu
from tlbcost.processors.formulas import evaluate, names
from tlbcost.system.machine import Machine

# Formulas that only grow with each of their events but cycles, so that a sum without some of them
# is a lower bound.
_SUMS = ("share", "pending_share", "walks", "data_walks")


@dataclass(frozen=True, slots=True)
class PartialSum:
    """A formula's value where counts of some accesses are missing: what the others come to.

    `missing` are the names of the events that would make it whole.
    """

    value: Interval
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountFindings:
    """What a report on counts says. `requests` are in the order of the report."""

    version: str
    date: str
    machine: Machine
    pmu: Pmu
    requests: tuple[EventRequest, ...]
    counts: EventCounts
    figures: Mapping[str, Interval | None]

    @property
    def runs(self) -> int:
        return len({count.run for count in self.counts.counts})


def relevant(pmu: Pmu, requests: Sequence[EventRequest]) -> dict[str, str]:
    """The formulas of this CPU that any of the events has a part in, besides cycles."""
    known = {each.role_name for each in requests} - {CYCLES}
    return {key: formula for key, formula in pmu.formulas.items() if names(formula) & known}


def formula_values(formulas: Mapping[str, str], counts: EventCounts) -> dict[str, Interval | None]:
    """Median and range over runs that have all of a formula; else its value by the runs' means."""
    by_run, means = _by_run(counts, {})
    return {name: _value(expression, by_run, means) for name, expression in formulas.items()}


def partial_sums(formulas: Mapping[str, str], counts: EventCounts) -> dict[str, PartialSum]:
    """Sums of which some but not all events are counted; without loads they are left out."""
    obtained = counts.values()
    found: dict[str, PartialSum] = {}
    for key in _SUMS:
        summed = names(formulas[key]) - {CYCLES} if key in formulas else set()
        missing = sorted(summed - obtained.keys())
        has_loads = any(
            (name.split(".")[1:2] in (["load"], ["data"], ["any"]) or name == "dtlb_load_misses")
            for name in summed - set(missing)
        )
        if not missing or not has_loads:
            continue
        by_run, means = _by_run(counts, dict.fromkeys(missing, 0.0))
        value = _value(formulas[key], by_run, means)
        if value is not None:
            found[key] = PartialSum(value, tuple(missing))
    return found


def only_of_code(missing: Sequence[str]) -> bool:
    """Whether no count of loads or stores is among these events."""
    return all(name.split(".")[1:2] == ["fetch"] or name == "itlb_misses" for name in missing)


def _by_run(
    counts: EventCounts, others: Mapping[str, float]
) -> tuple[list[Mapping[str, float]], Mapping[str, float]]:
    """The counts of each run and their means, `others` being taken for what none has."""
    runs = sorted({count.run for count in counts.counts})
    return [{**others, **counts.values(run)} for run in runs], {**others, **counts.values()}


def _value(
    expression: str, by_run: Sequence[Mapping[str, float]], means: Mapping[str, float]
) -> Interval | None:
    whole = [evaluate(expression, values) for values in by_run]
    found = [value for value in whole if value is not None]
    if found:
        return Interval(median(found), min(found), max(found))
    value = evaluate(expression, means)
    return None if value is None else Interval(value, value, value)
