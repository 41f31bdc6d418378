# SPDX-License-Identifier: GPL-2.0-or-later
"""How is tlbcost-count told what to count, and what does its table say?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast, get_args

from tlbcost.common import formats
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.table import count, parse_table
from tlbcost.counters.counted import Mode, State
from tlbcost.counters.refusal import Refusal
from tlbcost.processors.events import Event, Pmu

PROGRAM = "tlbcost-count"
CYCLES = "cycles"
# The kernel's own events take no counter.
SOFTWARE = "software"
_STATES = get_args(State)


@dataclass(frozen=True, slots=True)
class Wanted:
    """An event to count. `name` is unique among them, and the one in the tool's table.

    `role_name`: the name in data/events, None for one that was given by libpfm4's string or as a
    code. `event` is what it is called in reports, `spec` what tlbcost-count is given.
    """

    name: str
    role_name: str | None
    event: str
    spec: str
    software: bool = False

    @property
    def shown(self) -> str:
        """What people know it by."""
        return self.role_name or self.event

    @staticmethod
    def of(event: Event) -> Wanted:
        """An event of data/events."""
        shown = event.string or f"{event.type}:{event.code}"
        return Wanted(event.name, event.name, shown, event.spec(), event.type == SOFTWARE)


@dataclass(frozen=True, slots=True)
class Reading:
    """One row of the table counters 1: what one event did in one interval; times in ns.

    `by_code`: libpfm4 did not know the event's name. `type`, `config` and `config1` are the
    kernel's. `why`: what libpfm4 said of an event that could not be encoded. `uncounted_ns`: CPU
    time of the whole run in which nothing was counted.
    """

    end_ns: int
    event: str
    count: int | None
    enabled_ns: int | None
    running_ns: int | None
    state: State
    error: int | None
    by_code: bool = False
    type: int | None = None
    config: int | None = None
    config1: int | None = None
    why: str | None = None
    uncounted_ns: int | None = None

    def refusal(self, wanted: Wanted) -> Refusal:
        """For diagnose() and explain()."""
        return Refusal(wanted.shown, self.state, self.error, self.why)


def options(
    wanted: Sequence[Wanted], mode: Mode, pmu: Pmu, *, multiplex: bool = False
) -> list[str]:
    """The options that say what to count, and how; the first of `wanted` leads each group."""
    chosen: list[str] = []
    for each in wanted:
        chosen += ["--event", f"{each.name}={each.spec}"]
    if pmu.counters is not None:
        chosen += ["--counters", str(pmu.counters)]
        # The kernel's own events take no counter either.
        free = [each.name for each in wanted if each.software or each.role_name in pmu.fixed]
        if free:
            chosen += ["--fixed", ",".join(free)]
    if multiplex:
        chosen.append("--multiplex")
    if mode != "both":
        chosen.append(f"--{mode}-only")
    return chosen


def parse_readings(text: str, name: str) -> list[Reading]:
    """The rows of a counters table. Raises TlbcostError with exit code 125 for any defect."""
    try:
        table = parse_table(text, name, formats.COUNTERS)
        told = [text for key, text in table.header.items() if key.startswith("refused_")]
        whys = dict(text.split(": ", 1) for text in told)
        missed = count(table.header.get("uncounted_ns"))
        rows = (reading(table.columns, row) for row in table.rows)
        return [replace(row, why=whys.get(row.event), uncounted_ns=missed) for row in rows]
    except (TlbcostError, ValueError) as error:
        raise TlbcostError(
            f"cannot count: what {PROGRAM} wrote is not to be used: {error}",
            "if the disk is full, give TMPDIR a folder with room",
            TOOL_FAILED,
        ) from error


def reading(columns: Sequence[str], row: Sequence[str | None]) -> Reading:
    """One row. Raises ValueError."""
    cells = {name: None if cell == "NA" else cell for name, cell in zip(columns, row, strict=True)}
    end_ns, event, state = count(cells["end_ns"]), cells["event"], cells["state"]
    if end_ns is None or event is None:
        raise ValueError("a row without a time or an event")
    if state not in _STATES:
        raise ValueError(f"not a state: {state}")
    value = count(cells["count"])
    enabled_ns, running_ns = count(cells["enabled_ns"]), count(cells["running_ns"])
    # Of an interval in which nothing was to be counted, 0 is the count.
    if value and not running_ns:
        raise ValueError(f"{event} has a count, but did not run")
    return Reading(
        end_ns,
        event,
        value,
        enabled_ns,
        running_ns,
        cast(State, state),
        count(cells["errno"]),
        cells["encoded_by"] == "code",
        _hexadecimal(cells["type"]),
        _hexadecimal(cells["config"]),
        _hexadecimal(cells["config1"]),
    )


def by_event(readings: Sequence[Reading], wanted: Sequence[Wanted]) -> dict[str, Reading]:
    """What became of each event over the whole time; one that the table lacks has failed."""
    rows: dict[str, list[Reading]] = {each.name: [] for each in wanted}
    for row in readings:
        if row.event in rows:
            rows[row.event].append(row)
    return {
        name: _whole(parts) if parts else Reading(0, name, None, None, None, "failed", None)
        for name, parts in rows.items()
    }


def _whole(parts: Sequence[Reading]) -> Reading:
    """The readings of one event in several groups and in consecutive intervals as one."""
    last = parts[-1]
    if len(parts) == 1 or all(part.count is None for part in parts):
        return last
    intervals: dict[int, list[Reading]] = {}
    for part in parts:
        intervals.setdefault(part.end_ns, []).append(part)
    # Groups that take turns share an interval: each counts a part of it, not one after the other.
    counted = sum(_mean([part.count for part in own]) for own in intervals.values())
    enabled_ns = sum(_mean([part.enabled_ns for part in own]) for own in intervals.values())
    running_ns = sum(_mean([part.running_ns for part in own]) for own in intervals.values())
    state: State = "counted" if running_ns >= enabled_ns else "multiplexed"
    return replace(
        last,
        count=counted,
        enabled_ns=enabled_ns,
        running_ns=running_ns,
        state=state,
        error=None,
    )


def _mean(values: Sequence[int | None]) -> int:
    return round(sum(value or 0 for value in values) / len(values))


def _hexadecimal(cell: str | None) -> int | None:
    return None if cell is None else int(cell, 16)
