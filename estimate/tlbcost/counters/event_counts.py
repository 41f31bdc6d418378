# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of a program, wherever they were read, and their table.

The common form of what `tlbcost count` reads here and of what is imported from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, cast, get_args

from tlbcost.calibration.file import machine_of
from tlbcost.common import formats
from tlbcost.common.document import doc
from tlbcost.common.errors import TlbcostError
from tlbcost.processors.events import SIZES, Access, event_name
from tlbcost.system.machine import Machine

# Cycles of two runs of one program differ by less where the runs were alike; those of the article
# that the rule is from (doc/model.md) differ by 2.8 %.
AGREE_FRACTION = 0.04

State = Literal[
    "counted",
    "multiplexed",
    "never_ran",
    "left_over",
    "unsupported",
    "forbidden",
    "failed",
    "silent",
]
Mode = Literal["user", "kernel", "both"]


@dataclass(frozen=True, slots=True)
class EventCount:
    """One event's count. `name`: `role[.access[.size]]` of data/events; None: it has no role.

    `event` is what was counted, in its own words. `value` is scaled where it was multiplexed and
    None where it was not obtained; `running_fraction` None: not known. `run`: the run it is from.
    """

    name: Annotated[
        str | None, doc("role[.access[.size]], as in data/events; null: it has no role")
    ]
    event: Annotated[str, doc("in the words of libpfm4, perf or the file")]
    value: Annotated[float | None, doc("scaled to the whole time", minimum=0)]
    running_fraction: Annotated[
        float | None, doc("part of the time that it had a counter; null: not known", minimum=0)
    ]
    state: Annotated[State, doc("what became of it")]
    run: Annotated[int, doc("the run that it is from", minimum=0)] = 0


@dataclass(frozen=True, slots=True)
class EventCounts:
    """The counts of one program.

    `source` says in words where they are from; `pmu` is the key of the table in data/events they
    were understood with; `machine` is the one that counted. Times in ns; None: not known. `notes`
    are sentences for the report.
    """

    source: str
    pmu: str | None
    mode: Mode | None
    counts: tuple[EventCount, ...]
    wall_ns: float | None = None
    user_ns: float | None = None
    system_ns: float | None = None
    minor_faults: float | None = None
    command: str | None = None
    machine: Machine | None = None
    notes: tuple[str, ...] = ()

    def values(self, run: int | None = None) -> dict[str, float]:
        """The counts that were obtained, by name: those of one run, or the mean of all."""
        found: dict[str, list[float]] = {}
        for count in self.counts:
            if run is not None and count.run != run:
                continue
            if count.name is not None and count.value is not None:
                found.setdefault(count.name, []).append(count.value)
        return {name: sum(values) / len(values) for name, values in found.items()}


def join_runs(parts: Sequence[EventCounts]) -> EventCounts:
    """Counts of all runs of one program; times and faults are means. Raises ValueError."""
    if not parts:
        raise ValueError("nothing was counted")
    counts: list[EventCount] = []
    for part in parts:
        first = 1 + max((count.run for count in counts), default=-1)
        counts += [replace(count, run=first + count.run) for count in part.counts]
    return replace(
        parts[0],
        counts=tuple(counts),
        wall_ns=_mean([part.wall_ns for part in parts]),
        user_ns=_mean([part.user_ns for part in parts]),
        system_ns=_mean([part.system_ns for part in parts]),
        minor_faults=_mean([part.minor_faults for part in parts]),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def merge_sources(parts: Sequence[EventCounts]) -> EventCounts:
    """The counts of one program from several sources as one.

    Raises TlbcostError if their commands, modes or CPUs differ, or their cycles by more than 4 %:
    then they are not of the same work; and if a source has no cycles to see it by. ValueError: no
    parts.
    """
    merged = join_runs(parts)
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    cycles = [part.values().get("cycles") for part in parts]
    for part, found in zip(parts, cycles, strict=True):
        if part.pmu != first.pmu:
            raise _apart(first, part, "they are of different CPUs")
        if None not in (part.mode, first.mode) and part.mode != first.mode:
            raise _apart(first, part, f"one is of mode {first.mode}, the other of {part.mode}")
        if None not in (part.command, first.command) and part.command != first.command:
            raise _apart(first, part, f"one is of '{first.command}', the other of '{part.command}'")
        if found is None:
            raise TlbcostError(
                f"cannot put the counts of {part.source} with others: it has no cycles, which "
                "would show that the runs were alike",
                "count cycles in every run",
            )
    known = [found for found in cycles if found is not None]
    low, high = min(known), max(known)
    if high > (1 + AGREE_FRACTION) * low:
        one, other = parts[known.index(low)], parts[known.index(high)]
        by = f"by {100 * (high / low - 1):.1f} %, more than 4 %" if low else "and one is 0"
        raise _apart(one, other, f"their cycles differ {by}: {low:.0f} and {high:.0f}")
    note = (
        f"the counts are of {len(parts)} runs, whose cycles agree within "
        f"{100 * (high / low - 1) if low else 0:.1f} %"
    )
    return replace(
        merged,
        source=", ".join(dict.fromkeys(part.source for part in parts)),
        mode=next((part.mode for part in parts if part.mode is not None), None),
        command=next((part.command for part in parts if part.command is not None), None),
        machine=next((part.machine for part in parts if part.machine is not None), None),
        notes=tuple(dict.fromkeys((*merged.notes, note))),
    )


def _apart(one: EventCounts, other: EventCounts, why: str) -> TlbcostError:
    return TlbcostError(
        f"cannot put the counts of {one.source} and {other.source} together: {why}",
        "count runs of the same program on the same input",
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


START = "# tlbcost counted "


def parse(name: str, text: str) -> EventCounts:
    """The counts of a table. Raises TlbcostError naming the file and the defect."""
    found = formats.parse_table(text, name, formats.COUNTED)
    header = {key: value for key, value in found.header.items() if value != "NA"}
    try:
        mode = header.get("mode")
        if mode not in (None, *get_args(Mode)):
            raise ValueError(f"not a mode: {mode}")
        return EventCounts(
            source=name,
            pmu=header.get("pmu"),
            mode=mode,  # type: ignore[arg-type]
            counts=tuple(_count(row) for row in found.records()),
            wall_ns=_time(header, "wall_ns"),
            user_ns=_time(header, "user_ns"),
            system_ns=_time(header, "system_ns"),
            minor_faults=_time(header, "minor_faults"),
            command=header.get("command"),
            machine=machine_of(found.header) if "base_page_bytes" in header else None,
            notes=tuple(value for key, value in header.items() if key.startswith("note_")),
        )
    except KeyError as error:
        raise TlbcostError(f"{name}: no '# {error.args[0]}:' line in the header") from error
    except ValueError as error:
        raise TlbcostError(f"{name}: {error}") from error


def _count(row: dict[str, str | None]) -> EventCount:
    state = row["state"]
    if state not in get_args(State):
        raise ValueError(f"not a state: {state}")
    value, fraction = formats.number(row["count"]), formats.number(row["running_fraction"])
    run, size = formats.count(row["run"]), formats.count(row["page_size_bytes"])
    if value is not None and value < 0:
        raise ValueError(f"not a count: {row['count']}")
    if fraction is not None and not 0 <= fraction <= 1:
        raise ValueError(f"not a share: {row['running_fraction']}")
    if size not in (None, *SIZES.values()) or run is None:
        raise ValueError(f"not a page size or a run: {row}")
    name = None if row["role"] is None else event_name(row["role"], row["access"], size)
    return EventCount(name, row["event"] or "NA", value, fraction, state, run)  # type: ignore[arg-type]


def _time(header: dict[str, str], key: str) -> float | None:
    return formats.number(header.get(key))


def name_parts(name: str | None) -> tuple[str | None, Access | None, int | None]:
    """Role, access and page size in bytes of `role[.access[.size]]`."""
    if name is None:
        return None, None, None
    role, *rest = name.split(".")
    access = cast(Access, rest[0]) if rest else None
    return role, access, SIZES[rest[1]] if len(rest) > 1 else None


def whole(value: float | None) -> int | None:
    """Counts are written in full: six digits of them would not do."""
    return None if value is None else round(value)
