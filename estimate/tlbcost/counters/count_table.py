# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts as a table (doc/format.md, "counted 1"), written and read."""

from __future__ import annotations

from dataclasses import fields
from typing import cast, get_args

from tlbcost.calibration.file import machine_of
from tlbcost.common import formats, table
from tlbcost.common.errors import TlbcostError
from tlbcost.common.table import Cell, format_table
from tlbcost.counters.count_findings import CountFindings
from tlbcost.counters.event_counts import EventCount, EventCounts, Mode, State
from tlbcost.processors.events import SIZES, Access, event_name
from tlbcost.system.machine import Machine

START = "# tlbcost counted "


def to_table(findings: CountFindings) -> str:
    counts = findings.counts
    header: dict[str, Cell] = {
        field.name: getattr(findings.machine, field.name) for field in fields(Machine)
    }
    header |= {
        "pmu": findings.pmu.key,
        "mode": counts.mode,
        "wall_ns": whole(counts.wall_ns),
        "user_ns": whole(counts.user_ns),
        "system_ns": whole(counts.system_ns),
        "minor_faults": whole(counts.minor_faults),
        "runs": findings.runs,
        "command": counts.command,
        "date": findings.date,
        "version": findings.version,
    }
    header |= {f"note_{i}": note for i, note in enumerate(counts.notes, start=1)}
    return format_table(formats.COUNTED, header, map(_row, counts.counts))


def parse(name: str, text: str) -> EventCounts:
    """The counts of a table. Raises TlbcostError naming the file and the defect."""
    found = table.parse_table(text, name, formats.COUNTED)
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
    value, fraction = table.number(row["count"]), table.number(row["running_fraction"])
    run, size = table.count(row["run"]), table.count(row["page_size_bytes"])
    if value is not None and value < 0:
        raise ValueError(f"not a count: {row['count']}")
    if fraction is not None and not 0 <= fraction <= 1:
        raise ValueError(f"not a share: {row['running_fraction']}")
    if size not in (None, *SIZES.values()) or run is None:
        raise ValueError(f"not a page size or a run: {row}")
    name = None if row["role"] is None else event_name(row["role"], row["access"], size)
    return EventCount(name, row["event"] or "NA", value, fraction, state, run)  # type: ignore[arg-type]


def _time(header: dict[str, str], key: str) -> float | None:
    return table.number(header.get(key))


def _row(count: EventCount) -> tuple[Cell, ...]:
    parts = name_parts(count.name)
    # An event is one word, as every cell.
    event = "_".join(count.event.split())
    value = whole(count.value)
    return (*parts, event, value, count.running_fraction, count.run, count.state)


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
