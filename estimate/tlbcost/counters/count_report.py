# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of `tlbcost count`: sums of several runs, as text and as JSON.

Is a count of 0 a count? An Arm PMU takes any raw event, and one that the core lacks reads 0. The
kernel lists the architecture's events that it found in the core (PMCEID registers) under the event
source: a 0 of one in that list is a count; but it names only some. Firmware that hands out counters
may give an event none if another one counts it already: QEMU's does, for RISC-V. Of two names for
one event, the one that reads 0 while the other does not is no count.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from tlbcost.common import document, units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.document import Part, amount, doc, part_of, portion
from tlbcost.common.paths import sys_path
from tlbcost.common.units import Interval, spread_fraction
from tlbcost.counters.count_tool import CountFindings, CountPlan, Reading
from tlbcost.counters.event_counts import (
    AGREE_FRACTION,
    EventCount,
    EventCounts,
    Mode,
    State,
    explain,
    name_parts,
    whole,
)
from tlbcost.counters.pmu import CYCLES, EVENT_SOURCES, EventRequest
from tlbcost.processors.events import Access, Pmu
from tlbcost.run.outcome import Run
from tlbcost.system.machine import Machine, read_line

if TYPE_CHECKING:
    from rich.console import Console


# Some CPU time passes uncounted while programs start and end. More is a program that the kernel
# does not let us count, since it gained rights when it started.
UNCOUNTED_FRACTION, UNCOUNTED_NS = 0.20, 20_000_000

_RAW = 4
# Types below this are the kernel's; others are numbers of event sources.
_FIRST_SOURCE = 6

# Number of the run, event, and what its counter said.
Readings = list[tuple[int, EventRequest, Reading]]


def total_counts(
    readings: Readings,
    plan: CountPlan,
    argv: Sequence[str],
    runs: Sequence[Run],
    groups: int,
    *,
    stopped: bool,
) -> EventCounts:
    """Counts of all runs. One set of all events took `groups` runs; `stopped`: ended early."""
    counts: list[EventCount] = []
    remarks: list[str] = []
    for request in plan.requests:
        own = [(run, reading) for run, each, reading in readings if each is request]
        # A run that had no room for it does not matter if another one had.
        known = [(run, reading) for run, reading in own if reading.count is not None]
        counts += [_count(request, run, reading) for run, reading in known]
        if not known and own:
            run, reading = own[-1]
            counts.append(_count(request, run, reading))
            remarks.append(explain(reading.refusal(request)))
        elif not known:
            counts.append(EventCount(request.role_name, request.event, None, None, "left_over"))
            remarks.append(f"{request.shown} was not obtained: it had no turn")
    return EventCounts(
        source="counters of this machine",
        pmu=plan.pmu.key,
        mode=plan.mode,
        counts=tuple(counts),
        wall_ns=median([run.wall_ns for run in runs]) if runs else None,
        user_ns=median([run.user_ns for run in runs]) if runs else None,
        system_ns=median([run.system_ns for run in runs]) if runs else None,
        minor_faults=median([run.minor_faults for run in runs]) if runs else None,
        command=", while this ran: ".join(filter(None, (plan.target.words(), shlex.join(argv)))),
        notes=(*remarks, *_notes(readings, groups, stopped=stopped), *_uncounted(readings, runs)),
    )


def scaled(reading: Reading) -> tuple[float | None, float | None]:
    fraction = None
    if reading.enabled_ns and reading.running_ns is not None:
        fraction = min(1.0, reading.running_ns / reading.enabled_ns)
    if reading.count is None:
        return None, fraction
    return reading.count / fraction if fraction else float(reading.count), fraction


def _count(request: EventRequest, run: int, reading: Reading) -> EventCount:
    value, fraction = scaled(reading)
    return EventCount(request.role_name, request.event, value, fraction, reading.state, run)


def _notes(readings: Readings, groups: int, *, stopped: bool) -> list[str]:
    notes: list[str] = []
    if stopped:
        notes.append("the runs were ended early, so that some events may not have had their turn")
    shared = [
        (each.shown, reading.running_ns / reading.enabled_ns)
        for _, each, reading in readings
        if reading.count is not None
        and reading.enabled_ns
        and reading.running_ns is not None
        and reading.running_ns < reading.enabled_ns
    ]
    if shared:
        name, least = min(shared, key=lambda pair: pair[1])
        was = "was" if len(shared) == 1 else "were"
        notes.append(
            f"{_some([name for name, _ in shared])} had a counter for a part of the time "
            f"({name}: {units.percent(least)}) and {was} scaled up: what the program did in the "
            "rest is not known"
        )
    # Where there is no string, libpfm4 is not expected to know it.
    unknown = [
        each.shown
        for _, each, reading in readings
        if reading.by_code and "|" in each.spec and reading.count is not None
    ]
    if unknown:
        notes.append(f"this libpfm4 does not know {_some(unknown)} of this CPU: counted by code")
    if groups > 1:
        notes += _agreement(readings, groups)
    return notes


def _uncounted(readings: Readings, runs: Sequence[Run]) -> list[str]:
    missed = [reading.uncounted_ns for _, _, reading in readings if reading.uncounted_ns]
    times = [run.user_ns + run.system_ns for run in runs]
    most = max(missed, default=0)
    if not times or most <= max(UNCOUNTED_NS, UNCOUNTED_FRACTION * max(times)):
        return []
    return [
        f"{units.percent(min(1.0, most / max(times)))} of the CPU time was not counted, as when a "
        "program that it starts gains rights (setuid), or when it starts many short ones"
    ]


def _agreement(readings: Readings, groups: int) -> list[str]:
    cycles = [
        (reading.count, run)
        for run, each, reading in readings
        if each.role_name == CYCLES and reading.count
    ]
    if len(cycles) < 2:
        return [
            f"the events took {groups} runs, without cycles in each: whether the runs were alike "
            "is not known"
        ]
    (least, first), (most, last) = min(cycles), max(cycles)
    share = most / least - 1
    if share <= AGREE_FRACTION:
        return []
    return [
        f"cycles differ by {units.percent(share)} between run {first} ({units.count(least)}) and "
        f"run {last} ({units.count(most)}), more than the {units.percent(AGREE_FRACTION)} of runs "
        "that are alike: counts of different runs do not belong together"
    ]


def _some(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    if len(unique) <= 2:
        return " and ".join(unique)
    return f"{unique[0]} and {len(unique) - 1} other events"


def mark_silent(found: Mapping[str, Reading], pmu: Pmu) -> dict[str, Reading]:
    """The readings, with the state `silent` and no count where 0 may mean "not there"."""
    counted = {_kernel_event(reading) for reading in found.values() if reading.count}
    architecture = platform.machine() if pmu.architecture == "any" else pmu.architecture
    arm = architecture == "aarch64"
    return {
        name: replace(reading, state="silent", count=None)
        if reading.count == 0
        and (_kernel_event(reading) in counted or (arm and _may_be_missing(reading)))
        else reading
        for name, reading in found.items()
    }


def _kernel_event(reading: Reading) -> tuple[int | None, ...]:
    return reading.type, reading.config, reading.config1


def _may_be_missing(reading: Reading) -> bool:
    kind = reading.type
    if kind is None or (kind != _RAW and kind < _FIRST_SOURCE):
        return False
    for source in sys_path(EVENT_SOURCES).glob("arm*"):
        if kind == _RAW or read_line(f"{EVENT_SOURCES}/{source.name}/type") == str(kind):
            for event in source.glob("events/*"):
                line = read_line(f"{EVENT_SOURCES}/{source.name}/events/{event.name}") or ""
                code = re.fullmatch(r"event=(0x[0-9a-f]+)", line)
                if code and int(code[1], 16) == reading.config:
                    return False
    return True


_INSTRUCTIONS = "instructions"
_COMMAND_COLUMNS = 80
# Not events that happen now and then while instructions run.
_NO_RATE = (
    "cycles", _INSTRUCTIONS, "task_clock_ns",
    "page_faults", "minor_faults", "major_faults", "context_switches",
)  # fmt: skip
_MEANING = {
    "share": "of the cycles had a page walk in progress",
    "data_share": "... of loads and stores",
    "code_share": "... of code",
    "exposed_share": "of the cycles waited for translation: at least that is lost",
    "ept_share": "of the cycles walked the hypervisor's tables",
    "walks": "page walks",
    "data_walks": "... of loads and stores",
    "code_walks": "... of code",
    "hits": "hits in the second-level TLB",
    "data_hits": "... of loads and stores",
    "walk_cycles": "cycles for a page walk, on average",
    "tma_data_share": "of the cycles, for data, by Intel's top-down method",
    "tma_code_share": "of the cycles, for code, by the same",
    "pending_share": "of the cycles, if all walkers were equally busy",
}


def print_counts(findings: CountFindings, file: TextIO, *, details: bool) -> None:
    def fill(console: Console) -> None:
        console.print(units.middle(findings.counts.command or "", _COMMAND_COLUMNS), style="bold")
        print_figures(console, findings.figures)
        print_events(console, findings.counts)
        console.print()
        _head(console, findings)
        named = [each for each in findings.requests if each.role_name is not None]
        if details:
            console.print()
        if details and named:
            console.print("counted as", style="bold")
            events = grid()
            for request in named:
                events.add_row(request.role_name, request.event)
            console.print(events)
        if findings.counts.notes:
            rows = grid()
            for note in findings.counts.notes:
                rows.add_row("note:", f"{note}.")
            console.print(rows)

    print_whole(fill, file)


def print_interval(
    readings: Sequence[Reading], requests: Sequence[EventRequest], file: TextIO
) -> None:
    shown = {each.name: each.shown for each in requests}
    for reading in readings:
        value, fraction = scaled(reading)
        file.write(
            f"{reading.end_ns / 1e9:10.3f} s  {_number(value):>18}  "
            f"{units.percent(fraction):>5}  {shown[reading.event]}\n"
        )
    file.flush()


def _head(console: Console, findings: CountFindings) -> None:
    counts, machine = findings.counts, findings.machine
    rows = grid()
    where = "" if machine.hypervisor is None else f", virtual ({machine.hypervisor})"
    rows.add_row("machine", f"{machine.cpu_name or 'unknown CPU'}{where}")
    mode = {"both": "user and kernel mode"}.get(counts.mode or "", f"{counts.mode} mode only")
    times = f"{findings.runs} run" + ("s" if findings.runs != 1 else "")
    rows.add_row("events", f"{findings.pmu.name}; {mode}; {times}")
    if counts.wall_ns is not None and counts.user_ns is not None:
        system = units.time(counts.system_ns)
        rows.add_row(
            "time",
            f"{units.time(counts.wall_ns)} wall, {units.time(counts.user_ns)} user, "
            f"{system} system",
        )
    console.print(rows)


def print_events(console: Console, counts: EventCounts) -> None:
    instructions = counts.values().get(_INSTRUCTIONS)
    several = len({count.run for count in counts.counts}) > 1
    columns = ["event", "count"]
    columns += ["/1000 instr."] if instructions else []
    columns += ["spread", "run"] if several else []
    rows = table(*columns, "ran")
    by_event: dict[tuple[str | None, str], list[EventCount]] = {}
    for count in counts.counts:
        by_event.setdefault((count.name, count.event), []).append(count)
    for (name, event), own in by_event.items():
        values = [count.value for count in own if count.value is not None]
        mean = sum(values) / len(values) if values else None
        cells = [name or event, _number(mean)]
        if instructions:
            cells.append(_rate(name, mean, instructions))
        if several:
            spread = spread_fraction(values) if len(values) > 1 else None
            cells.append("" if spread is None else units.percent(spread))
            cells.append(_spans([count.run for count in own]) if values else "")
        fractions = [c.running_fraction for c in own if c.running_fraction is not None]
        rows.add_row(*cells, units.percent(min(fractions) if fractions else None))
    section(console, rows)


def _rate(name: str | None, mean: float | None, instructions: float) -> str:
    if name in _NO_RATE:
        return ""
    if mean is None:
        return units.NOT_OBTAINED
    rate = 1000 * mean / instructions
    return units.ABOUT_ZERO if 0 < rate < 0.0005 else f"{rate:,.3f}"


def print_figures(console: Console, figures: Mapping[str, Interval | None]) -> None:
    if not figures:
        return
    vary = any(each is not None and each.low < each.high for each in figures.values())
    rows = table("of this CPU", "value", *(["range"] if vary else []), "")
    rows.columns[-1].justify = "left"
    for key, interval in figures.items():
        write = units.percent if key.endswith("share") else _number
        cells = [key, units.NOT_OBTAINED if interval is None else write(interval.value)]
        if vary:
            ends = None if interval is None else (write(interval.low), write(interval.high))
            cells.append("" if ends is None or ends[0] == ends[1] else " to ".join(ends))
        rows.add_row(*cells, _MEANING.get(key, ""))
    section(console, rows)


def _number(value: float | None) -> str:
    if value is None:
        return units.NOT_OBTAINED
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.1f}"


def _spans(runs: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for run in sorted(set(runs)):
        if spans and spans[-1][1] == run - 1:
            spans[-1][1] = run
        else:
            spans.append([run, run])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


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
    page_size_bytes: Annotated[int | None, amount("of which pages; null: of all")]
    event: Annotated[str, doc("libpfm4's string, or the code")]
    count: Annotated[
        int | None, amount("scaled to the whole time where the event shared its counter")
    ]
    running_fraction: Annotated[float | None, portion("share of the time that it had a counter")]
    run: Annotated[int, amount("number of the run that it was counted in")]
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
    runs: Annotated[int, amount("how many runs the counts are from")]
    wall_ns: Annotated[
        float | None, amount("wall time, median of the runs; null: no program was run")
    ]
    user_ns: Annotated[float | None, amount("CPU time in user mode, median of the runs")]
    system_ns: Annotated[float | None, amount("CPU time in the kernel, median of the runs")]
    minor_faults: Annotated[float | None, amount("median of the runs")]
    counts: Annotated[list[CountedEvent], doc("each event of each run")]
    formulas: Annotated[list[CountedFormula], doc("those that any of the events has a part in")]
    notes: Annotated[tuple[str, ...], doc("what must be known of these counts")]


def to_json(findings: CountFindings) -> str:
    counts, pmu = findings.counts, findings.pmu
    events = []
    for count in counts.counts:
        role, access, size = name_parts(count.name)
        parts = {"role": role, "access": access, "page_size_bytes": size}
        events.append(part_of(CountedEvent, count, count=whole(count.value), **parts))
    return document.to_json(
        part_of(
            CountDocument,
            counts,
            tlbcost_version=findings.version,
            date=findings.date,
            machine=findings.machine,
            pmu=part_of(EventTable, pmu),
            runs=findings.runs,
            counts=events,
            formulas=[
                CountedFormula(name=key, formula=pmu.formulas[key], value=value)
                for key, value in findings.figures.items()
            ],
        )
    )
