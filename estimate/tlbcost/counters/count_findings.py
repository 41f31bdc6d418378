# SPDX-License-Identifier: GPL-2.0-or-later
"""What was found by counting: the counts, and what the formulas of the CPU make of them?"""

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
        """How many runs the counts are from."""
        return len({count.run for count in self.counts.counts})


def relevant(pmu: Pmu, requests: Sequence[EventRequest]) -> dict[str, str]:
    """The formulas of this CPU that any of the events has a part in, besides cycles."""
    known = {each.role_name for each in requests} - {CYCLES}
    return {key: formula for key, formula in pmu.formulas.items() if names(formula) & known}


def formula_values(formulas: Mapping[str, str], counts: EventCounts) -> dict[str, Interval | None]:
    """Each formula's value: the median of the runs that have all of it, and their range.

    Where no run has all, since the events did not fit into one, the runs' means are combined.
    """
    runs = sorted({count.run for count in counts.counts})
    by_run = [counts.values(run) for run in runs]
    return {name: _value(expression, by_run, counts) for name, expression in formulas.items()}


def _value(
    expression: str, by_run: Sequence[Mapping[str, float]], counts: EventCounts
) -> Interval | None:
    whole = [evaluate(expression, values) for values in by_run]
    found = [value for value in whole if value is not None]
    if found:
        return Interval(median(found), min(found), max(found))
    value = evaluate(expression, counts.values())
    return None if value is None else Interval(value, value, value)
