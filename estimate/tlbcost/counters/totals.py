# SPDX-License-Identifier: GPL-2.0-or-later
"""Sums of the readings of several runs, and notes about them.

Among it: is a count of 0 a count, or did nothing count? An Arm PMU takes any raw event, and one
that the core lacks reads 0. The kernel lists the architecture's events that it found in the core
(PMCEID registers) under the event source: a 0 of one in that list is a count. Linux names only
some of the events, so that a 0 of another one cannot be distinguished from one that is not there.

Firmware that hands out counters may give an event none if another one counts it already: QEMU's
does, for RISC-V. Of two names for one event, the one that reads 0 while the other does not is no
count.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from tlbcost.common import units
from tlbcost.counters.count_tool import CountPlan, Reading
from tlbcost.counters.diagnosis import explain
from tlbcost.counters.event_counts import AGREE_FRACTION, EventCount, EventCounts
from tlbcost.counters.event_selection import CYCLES, EventRequest
from tlbcost.processors.events import Pmu
from tlbcost.run.outcome import Run
from tlbcost.system.machine import read_line, sys_path

# Some CPU time passes uncounted while programs start and end. More is a program that the kernel
# does not let us count, since it gained rights when it started.
UNCOUNTED_FRACTION, UNCOUNTED_NS = 0.20, 20_000_000

_RAW = 4
# Types below this are the kernel's; others are numbers of event sources.
_FIRST_SOURCE = 6
_SOURCES = "/sys/bus/event_source/devices"

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
        command=_command(plan, argv),
        notes=(*remarks, *_notes(readings, groups, stopped=stopped), *_uncounted(readings, runs)),
    )


def _command(plan: CountPlan, argv: Sequence[str]) -> str:
    what = plan.target.words()
    if what is None:
        return shlex.join(argv)
    return f"{what}, while this ran: {shlex.join(argv)}" if argv else what


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
        notes.append(
            f"{_some([name for name, _ in shared])} had a counter for a part of the time "
            f"({name}: {units.percent(least)}) and {_was(shared)} scaled up: what the program did "
            "in the rest is not known"
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


def _was(names: Sequence[object]) -> str:
    return "was" if len(names) == 1 else "were"


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
    if reading.type is None or (reading.type != _RAW and reading.type < _FIRST_SOURCE):
        return False
    return reading.config not in set(_listed(reading.type))


def _listed(type_: int) -> Iterator[int]:
    for source in sys_path(_SOURCES).glob("arm*"):
        if type_ == _RAW or read_line(f"{_SOURCES}/{source.name}/type") == str(type_):
            for event in source.glob("events/*"):
                line = read_line(f"{_SOURCES}/{source.name}/events/{event.name}") or ""
                code = re.fullmatch(r"event=(0x[0-9a-f]+)", line)
                if code:
                    yield int(code[1], 16)
