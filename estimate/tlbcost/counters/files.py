# SPDX-License-Identifier: GPL-2.0-or-later
"""What was counted, for programs: JSON (data/schema/count.schema.json), and the table counted 1."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

from tlbcost.common import formats
from tlbcost.common.table import Cell, format_table
from tlbcost.counters.counted import Count
from tlbcost.counters.report import Findings
from tlbcost.processors.events import SIZES
from tlbcost.system.machine import Machine

SCHEMA = "tlbcost-count-1"


def to_json(findings: Findings) -> str:
    """The findings as the text of a JSON file."""
    counted = findings.counted
    document = {
        "schema": SCHEMA,
        "tlbcost_version": findings.version,
        "date": findings.date,
        "machine": asdict(findings.machine),
        "pmu": {"key": findings.pmu.key, "name": findings.pmu.name},
        "command": counted.command,
        "mode": counted.mode,
        "runs": findings.runs,
        "wall_ns": counted.wall_ns,
        "user_ns": counted.user_ns,
        "system_ns": counted.system_ns,
        "minor_faults": counted.minor_faults,
        "counts": [_count(count) for count in counted.counts],
        "formulas": [
            {
                "name": key,
                "formula": findings.pmu.formulas[key],
                "value": None if interval is None else asdict(interval),
            }
            for key, interval in findings.figures.items()
        ],
        "notes": list(counted.notes),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_table(findings: Findings) -> str:
    """The findings as the text of a table."""
    counted = findings.counted
    header: dict[str, Cell] = {
        field.name: getattr(findings.machine, field.name) for field in fields(Machine)
    }
    header |= {
        "pmu": findings.pmu.key,
        "mode": counted.mode,
        "wall_ns": _whole(counted.wall_ns),
        "user_ns": _whole(counted.user_ns),
        "system_ns": _whole(counted.system_ns),
        "minor_faults": _whole(counted.minor_faults),
        "runs": findings.runs,
        "command": counted.command,
        "date": findings.date,
        "version": findings.version,
    }
    header |= {f"note_{i}": note for i, note in enumerate(counted.notes, start=1)}
    return format_table(formats.COUNTED, header, map(_row, counted.counts))


def _count(count: Count) -> dict[str, object]:
    role, access, size = _parts(count.name)
    return {
        "name": count.name,
        "role": role,
        "access": access,
        "page_size_bytes": size,
        "event": count.event,
        "count": _whole(count.value),
        "running_fraction": count.running_fraction,
        "run": count.run,
        "state": count.state,
    }


def _row(count: Count) -> tuple[Cell, ...]:
    parts = _parts(count.name)
    # An event is one word, as every cell.
    event = "_".join(count.event.split())
    value = _whole(count.value)
    return (*parts, event, value, count.running_fraction, count.run, count.state)


def _parts(name: str | None) -> tuple[str | None, str | None, int | None]:
    """Role, access and page size in bytes of `role[.access[.size]]`."""
    if name is None:
        return None, None, None
    role, *rest = name.split(".")
    return role, rest[0] if rest else None, SIZES[rest[1]] if len(rest) > 1 else None


def _whole(value: float | None) -> int | None:
    """Counts are written in full: six digits of them would not do."""
    return None if value is None else round(value)
