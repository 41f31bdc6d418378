# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost count --json` write?"""

from __future__ import annotations

from typing import Annotated, Literal

from tlbcost.common import document
from tlbcost.common.document import Part, doc
from tlbcost.common.interval import Interval
from tlbcost.counters.count_findings import CountFindings
from tlbcost.counters.count_table import name_parts, whole
from tlbcost.counters.event_counts import EventCount, Mode, State
from tlbcost.processors.events import Access
from tlbcost.system.machine import Machine


class EventTable(Part, frozen=True, kw_only=True):
    """The table in data/events that the names are from."""

    key: Annotated[str, doc("name of its file")]
    name: Annotated[str, doc("the CPUs that it is of")]


class CountedEvent(Part, frozen=True, kw_only=True):
    """What one event came to in one run."""

    name: Annotated[
        str | None,
        doc("role[.access[.size]] as in 'tlbcost events'; null: given by its string or code"),
    ]
    role: Annotated[str | None, doc('what it counts, as in doc/format.md, "events"')]
    access: Annotated[Access | None, doc("of which accesses; null: the role says it")]
    page_size_bytes: Annotated[int | None, doc("of which pages; null: of all", minimum=0)]
    event: Annotated[str, doc("libpfm4's string, or the code")]
    count: Annotated[
        int | None,
        doc("scaled to the whole time where the event shared its counter", minimum=0),
    ]
    running_fraction: Annotated[
        float | None, doc("share of the time that it had a counter", minimum=0, maximum=1)
    ]
    run: Annotated[int, doc("number of the run that it was counted in", minimum=0)]
    state: Annotated[State, doc("whether it was counted, or why not, as in doc/format.md")]


class CountedFormula(Part, frozen=True, kw_only=True):
    """What one formula of this CPU makes of the counts."""

    name: Annotated[str, doc("shares are 0 to 1, walk_cycles is in cycles, others are counts")]
    formula: Annotated[str, doc("arithmetic over names of events")]
    value: Annotated[Interval | None, doc("median and range of the runs; null: a count is missing")]


class CountDocument(Part, frozen=True, kw_only=True):
    """Counts of hardware events. null: not obtained."""

    schema: Annotated[Literal["tlbcost-count-1"], doc("form of this document and its version")] = (
        "tlbcost-count-1"
    )
    tlbcost_version: Annotated[str, doc("the tlbcost that counted")]
    date: Annotated[str, doc("UTC, ISO 8601", format="date-time")]
    machine: Annotated[Machine, doc("where it was counted")]
    pmu: Annotated[EventTable, doc("the event table")]
    command: Annotated[str | None, doc("the program, or what was counted that ran already")]
    mode: Annotated[Mode | None, doc("the CPU's modes that were counted")]
    runs: Annotated[int, doc("how many runs the counts are from", minimum=0)]
    wall_ns: Annotated[
        float | None, doc("wall time, median of the runs; null: no program was run", minimum=0)
    ]
    user_ns: Annotated[float | None, doc("CPU time in user mode, median of the runs", minimum=0)]
    system_ns: Annotated[float | None, doc("CPU time in the kernel, median of the runs", minimum=0)]
    minor_faults: Annotated[float | None, doc("median of the runs", minimum=0)]
    counts: Annotated[list[CountedEvent], doc("each event of each run")]
    formulas: Annotated[list[CountedFormula], doc("those that any of the events has a part in")]
    notes: Annotated[tuple[str, ...], doc("what must be known of these counts")]


def to_json(findings: CountFindings) -> str:
    """The findings as the text of a JSON file."""
    counts, pmu = findings.counts, findings.pmu
    return document.to_json(
        CountDocument(
            tlbcost_version=findings.version,
            date=findings.date,
            machine=findings.machine,
            pmu=EventTable(key=pmu.key, name=pmu.name),
            command=counts.command,
            mode=counts.mode,
            runs=findings.runs,
            wall_ns=counts.wall_ns,
            user_ns=counts.user_ns,
            system_ns=counts.system_ns,
            minor_faults=counts.minor_faults,
            counts=[_event(count) for count in counts.counts],
            formulas=[
                CountedFormula(name=key, formula=pmu.formulas[key], value=value)
                for key, value in findings.figures.items()
            ],
            notes=counts.notes,
        )
    )


def _event(count: EventCount) -> CountedEvent:
    role, access, size = name_parts(count.name)
    return CountedEvent(
        name=count.name,
        role=role,
        access=access,
        page_size_bytes=size,
        event=count.event,
        count=whole(count.value),
        running_fraction=count.running_fraction,
        run=count.run,
        state=count.state,
    )
