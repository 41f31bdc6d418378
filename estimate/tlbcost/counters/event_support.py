# SPDX-License-Identifier: GPL-2.0-or-later
"""Which events has a CPU, and which of them can be counted and encoded on this machine?"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tlbcost.common import formats, paths
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.table import parse_table
from tlbcost.counters.pmu import find_pmu
from tlbcost.counters.readings import PROGRAM
from tlbcost.processors.event_tables import generic_pmu, named, pmu_of
from tlbcost.processors.events import ROLES, Encoding, Event, Pmu
from tlbcost.system.machine import current_machine


@dataclass(frozen=True, slots=True)
class EventsRequest:
    """Of which CPU (None: this one), and of which role (None: of all)."""

    pmu: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class EventSupport:
    """`encoded_by` has, by name, how an event is encoded here; `here` are sentences on that."""

    pmu: Pmu
    events: tuple[Event, ...]
    encoded_by: dict[str, Encoding]
    here: tuple[str, ...]


def event_support(request: EventsRequest) -> EventSupport:
    """Raises TlbcostError for a CPU (usage) or a role that there is not."""
    pmu, here = (named(request.pmu), []) if request.pmu else _of_this_machine()
    events = _of_role(pmu, request.role)
    encoded_by = _encoded_by(events)
    return EventSupport(pmu, events, encoded_by, (*here, *_on_encoding(events, encoded_by)))


def _of_this_machine() -> tuple[Pmu, list[str]]:
    """The table of this machine's CPU, and sentences on what can be counted here."""
    machine = current_machine()
    pmu, here = pmu_of(machine), []
    if pmu is None:
        known_as = machine.cpu_name or "without a name"
        here.append(f"No table is of this CPU ({known_as}): the kernel's generic events are shown.")
    found = find_pmu()
    if found.answer in ("absent", "silent"):
        here.append(f"No hardware counter can be read here: {found.how}.")
    elif found.answer == "forbidden":
        here.append(f"This user may not read counters here: {found.how}.")
    return pmu or generic_pmu(), here


def _of_role(pmu: Pmu, role: str | None) -> tuple[Event, ...]:
    if role is None:
        return pmu.events
    if role not in ROLES:
        raise TlbcostError(f"no role is called '{role}'", f"there are {', '.join(ROLES)}", USAGE)
    events = tuple(event for event in pmu.events if event.role == role)
    if not events:
        roles = ", ".join(dict.fromkeys(event.role for event in pmu.events))
        raise TlbcostError(
            f"{pmu.name} has no event of the role '{role}'", f"it has {roles}", CANNOT_MEASURE
        )
    return events


def _encoded_by(events: Sequence[Event]) -> dict[str, Encoding]:
    """How each event is encoded here; those that are not are left out."""
    tool = paths.libexec(PROGRAM)
    if not tool.exists():
        return {}
    command = [str(tool), "--encode", *(event.spec() for event in events)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {}
    table = parse_table(done.stdout, PROGRAM, formats.ENCODING)
    rows = zip(events, table.records(), strict=True)
    return {event.name: cast(Encoding, by) for event, row in rows if (by := row["encoded_by"])}


def _on_encoding(events: Sequence[Event], encoded_by: dict[str, Encoding]) -> list[str]:
    """What the installed libpfm4 makes of the strings."""
    strings = [event for event in events if event.string is not None]
    known = sum(encoded_by.get(event.name) == "libpfm4" for event in strings)
    if not strings or not encoded_by or known == len(strings):
        return []
    if known:
        return [
            f"The libpfm4 installed here knows {known} of the {len(strings)} strings: for the "
            "others the codes are used."
        ]
    return ["The libpfm4 installed here knows none of the strings: the codes are used."]
