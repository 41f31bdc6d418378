# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the readings of several runs add up to, and what is to be said about them?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from statistics import median

from tlbcost.common import units
from tlbcost.counters.counted import AGREE_FRACTION, Count, Counted
from tlbcost.counters.refusal import explain
from tlbcost.counters.target import Plan
from tlbcost.counters.tool import CYCLES, Reading, Wanted
from tlbcost.run.records import Run

# Some CPU time passes uncounted while programs start and end. More is a program that the kernel
# does not let us count, since it gained rights when it started.
UNCOUNTED_FRACTION, UNCOUNTED_NS = 0.20, 20_000_000

# Number of the run, event, and what its counter said.
Readings = list[tuple[int, Wanted, Reading]]


def counted(
    readings: Readings,
    plan: Plan,
    argv: Sequence[str],
    runs: Sequence[Run],
    groups: int,
    *,
    stopped: bool,
) -> Counted:
    """The counts of all runs. `groups`: how many runs one set of all events took.

    `stopped`: the series was ended early, so that events may not have had their turn.
    """
    counts: list[Count] = []
    untold: list[str] = []
    for wanted in plan.wanted:
        own = [(run, reading) for run, each, reading in readings if each is wanted]
        # A run that had no room for it does not matter if another one had.
        told = [(run, reading) for run, reading in own if reading.count is not None]
        counts += [_count(wanted, run, reading) for run, reading in told]
        if not told and own:
            run, reading = own[-1]
            counts.append(_count(wanted, run, reading))
            untold.append(explain(reading.refusal(wanted)))
        elif not told:
            counts.append(Count(wanted.role_name, wanted.event, None, None, "left_over"))
            untold.append(f"{wanted.shown} was not obtained: it had no turn")
    return Counted(
        source="counters of this machine",
        pmu=plan.pmu.key,
        mode=plan.mode,
        counts=tuple(counts),
        wall_ns=median([run.wall_ns for run in runs]) if runs else None,
        user_ns=median([run.user_ns for run in runs]) if runs else None,
        system_ns=median([run.system_ns for run in runs]) if runs else None,
        minor_faults=median([run.minor_faults for run in runs]) if runs else None,
        command=_command(plan, argv),
        notes=(*untold, *_notes(readings, groups, stopped=stopped), *_uncounted(readings, runs)),
    )


def _command(plan: Plan, argv: Sequence[str]) -> str:
    what = plan.target.words()
    if what is None:
        return shlex.join(argv)
    return f"{what}, while this ran: {shlex.join(argv)}" if argv else what


def scaled(reading: Reading) -> tuple[float | None, float | None]:
    """The count for the whole time, and the share of it that the counter ran for."""
    fraction = None
    if reading.enabled_ns and reading.running_ns is not None:
        fraction = min(1.0, reading.running_ns / reading.enabled_ns)
    if reading.count is None:
        return None, fraction
    return reading.count / fraction if fraction else float(reading.count), fraction


def _count(wanted: Wanted, run: int, reading: Reading) -> Count:
    value, fraction = scaled(reading)
    return Count(wanted.role_name, wanted.event, value, fraction, reading.state, run)


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
    # Where there is no string, nobody expected libpfm4 to know it.
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
