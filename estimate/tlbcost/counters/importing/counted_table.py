# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a table of `tlbcost count` say? doc/format.md, "counted 1"."""

from __future__ import annotations

from typing import get_args

from tlbcost.calibration.file import machine_of
from tlbcost.common import formats, table
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.counted import Count, Counted, Mode, State
from tlbcost.processors.events import SIZES, event_name

START = "# tlbcost counted "


def parse(name: str, text: str) -> Counted:
    """The counts of a table. Raises TlbcostError naming the file and the defect."""
    found = table.parse_table(text, name, formats.COUNTED)
    header = {key: value for key, value in found.header.items() if value != "NA"}
    try:
        mode = header.get("mode")
        if mode not in (None, *get_args(Mode)):
            raise ValueError(f"not a mode: {mode}")
        return Counted(
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


def _count(row: dict[str, str | None]) -> Count:
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
    return Count(name, row["event"] or "NA", value, fraction, state, run)  # type: ignore[arg-type]


def _time(header: dict[str, str], key: str) -> float | None:
    return table.number(header.get(key))
