# SPDX-License-Identifier: GPL-2.0-or-later
"""`tlbcost events`: what the counters of this or any CPU are called, and what they mean."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.output import check_writable, write
from tlbcost.common.table import parse_table
from tlbcost.counters.pmu import find_pmu
from tlbcost.processors.event_tables import all_pmus, generic_pmu, named, pmu_of
from tlbcost.processors.events import ROLES, Event, Pmu
from tlbcost.processors.events_report import json_text, listing, text
from tlbcost.system.machine import current_machine

_TOOL = "tlbcost-count"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--pmu",
        metavar="NAME",
        help="of this CPU, as 'skl', 'zen4' or 'neoverse-n1', instead of the machine's own",
    )
    parser.add_argument("--role", metavar="ROLE", help="only the events of this role")
    parser.add_argument(
        "--list", action="store_true", help="list the CPUs that are known, and stop"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write it as JSON to FILE as well"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table; returns 0."""
    if arguments.list:
        others = [arguments.pmu, arguments.role, arguments.json]
        if any(other is not None for other in others):
            raise TlbcostError("--list goes with no other option", exit_code=USAGE)
        sys.stdout.write(listing(all_pmus()))
        return 0
    if arguments.json is not None:
        check_writable(arguments.json)
    pmu, here = (named(arguments.pmu), []) if arguments.pmu else _of_this_machine()
    events = _chosen(pmu, arguments.role)
    encoded_by = _encoded_by(events)
    here += _on_encoding(events, encoded_by)
    if arguments.json is not None:
        write(arguments.json, json_text(pmu, events, encoded_by, here))
    sys.stdout.write(text(pmu, events, here))
    return 0


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


def _chosen(pmu: Pmu, role: str | None) -> tuple[Event, ...]:
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


def _encoded_by(events: tuple[Event, ...]) -> dict[str, str]:
    """How each event is encoded here: `libpfm4` or `code`; those that are not are left out."""
    tool = paths.libexec(_TOOL)
    if not tool.exists():
        return {}
    command = [str(tool), "--encode", *(event.spec() for event in events)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {}
    table = parse_table(done.stdout, _TOOL, formats.ENCODING)
    rows = zip(events, table.records(), strict=True)
    return {event.name: row["encoded_by"] for event, row in rows if row["encoded_by"] is not None}


def _on_encoding(events: tuple[Event, ...], encoded_by: dict[str, str]) -> list[str]:
    """What the installed libpfm4 makes of the strings."""
    strings = [event for event in events if event.string is not None]
    if not strings or not encoded_by:
        return []
    known = sum(encoded_by.get(event.name) == "libpfm4" for event in strings)
    if known == len(strings):
        return []
    if known:
        return [
            f"The libpfm4 installed here knows {known} of the {len(strings)} strings: for the "
            "others the codes are used."
        ]
    return ["The libpfm4 installed here knows none of the strings: the codes are used."]
