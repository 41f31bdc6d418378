# SPDX-License-Identifier: GPL-2.0-or-later
"""How is the memory of a process told: as text of 80 columns, and for programs?

data/schema/maps.schema.json describes the second form.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.units import shortened
from tlbcost.memory.maps import Area, Looked, Reach, reach_of, reach_ratio
from tlbcost.processors.geometry import Geometry
from tlbcost.system.machine import Machine

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "tlbcost-maps-1"
_NAME_COLUMNS = 27
OPINION = (
    "An opinion by size, no estimate: memory beyond the reach misses if it is used in a scattered "
    "order, and hardly if it is read from end to end; tlbcost estimate tells."
)
# Mappings with less in memory are told together.
_SMALL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Findings:
    """What was looked at, on which machine. `argv`: empty for a process that was running."""

    version: str
    date: str
    machine: Machine
    argv: tuple[str, ...]
    looked: tuple[Looked, ...]
    geometry: Geometry

    @property
    def reaches(self) -> tuple[Reach, Reach]:
        """On base and on huge pages."""
        both = (self.geometry.base, self.geometry.huge)
        base, huge = (reach_of(self.geometry, sizes) for sizes in both)
        return base, huge


def to_json(findings: Findings) -> str:
    """The report as the text of a JSON file."""
    base, huge = findings.reaches
    document = {
        "schema": SCHEMA,
        "tlbcost_version": findings.version,
        "date": findings.date,
        "machine": asdict(findings.machine),
        "argv": list(findings.argv) or None,
        "opinion": OPINION,
        "reach": [_reach(reach) for reach in (base, huge)],
        "processes": [_process(looked, base, huge) for looked in findings.looked],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _reach(reach: Reach) -> dict[str, object]:
    return {
        "page_size_bytes": reach.page_bytes,
        "entries": reach.entries,
        "entry_bytes": reach.entry_bytes,
        "reach_bytes": reach.reach_bytes,
        "source_kind": reach.source.kind if reach.source else None,
        "source": reach.source.sentence if reach.source else None,
    }


def _process(looked: Looked, base: Reach, huge: Reach) -> dict[str, object]:
    settings = looked.settings
    return {
        "pid": looked.pid or None,
        "program": looked.program,
        "thp_mode": settings.thp,
        "thp_defrag": settings.defrag,
        "shmem_enabled": settings.shmem,
        "looking_ns": looked.looking_ns,
        "clearing_ns": looked.clearing_ns,
        "watched_s": looked.watched_s,
        "areas": [
            {
                **asdict(area),
                "reach_ratio": reach_ratio(area, base, huge),
                "exceeds_reach": reach_ratio(area, base, huge) > 1,
            }
            for area in looked.areas
        ],
    }


def print_maps(findings: Findings, file: TextIO, *, everything: bool) -> None:
    """Print the report; with `everything`, small mappings one by one, too."""
    print_whole(lambda console: _fill(console, findings, everything=everything), file)


def _fill(console: Console, findings: Findings, *, everything: bool) -> None:
    base, huge = findings.reaches
    for number, looked in enumerate(findings.looked):
        if number:
            console.print()
        _head(console, findings, looked)
        _areas(console, looked, base, huge, everything=everything)
    console.print()
    console.print(OPINION)
    looked = findings.looked[0]
    if looked.pid:
        console.print(_cost(looked))


def _head(console: Console, findings: Findings, looked: Looked) -> None:
    what = shlex.join(findings.argv) if findings.argv else f"process {looked.pid}"
    console.print(f"tlbcost {findings.version}: memory of {what}\n", style="bold")
    rows = grid()
    rows.add_row("program", looked.program or "NA")
    settings = looked.settings
    rows.add_row(
        "system",
        f"THP {settings.thp or 'not in this kernel'}, shared memory {settings.shmem or 'NA'}, "
        f"defrag {settings.defrag or 'NA'}",
    )
    for reach in findings.reaches:
        told = f" ({reach.source.kind})" if reach.source else ""
        page = f"{units.size(reach.page_bytes)} pages"
        if reach.entry_bytes != reach.page_bytes:
            page += f", held as {units.size(reach.entry_bytes)}"
        rows.add_row(
            "reach", f"{units.size(reach.reach_bytes)} on {page}: {reach.entries} entries{told}"
        )
    console.print(rows)


def _areas(console: Console, looked: Looked, base: Reach, huge: Reach, *, everything: bool) -> None:
    listed = [area for area in looked.areas if everything or area.used_bytes >= _SMALL_BYTES]
    rest = [area for area in looked.areas if area not in listed]
    used = "in memory" if looked.watched_s is None else "touched"
    columns = ["size", "in memory", "on huge"]
    columns += [] if looked.watched_s is None else ["touched"]
    shown = table("memory", *columns, "x reach")
    for area in listed:
        shown.add_row(
            shortened(_name(area), _NAME_COLUMNS),
            units.size(area.size_bytes),
            units.size(area.resident_bytes),
            units.size(area.huge_bytes),
            *([] if looked.watched_s is None else [_touched(area)]),
            _times(reach_ratio(area, base, huge)),
        )
    if rest:
        touched = [area.touched_bytes for area in rest if area.touched_bytes is not None]
        shown.add_row(
            f"{len(rest)} others",
            units.size(sum(area.size_bytes for area in rest)),
            units.size(sum(area.resident_bytes for area in rest)),
            units.size(sum(area.huge_bytes for area in rest)),
            *([] if looked.watched_s is None else [units.size(sum(touched))]),
            _times(sum(reach_ratio(area, base, huge) for area in rest)),
        )
    section(console, shown)
    over = [area for area in listed if reach_ratio(area, base, huge) > 1]
    console.print()
    if not over:
        console.print(f"Nothing alone exceeds the reach by what is {used}.", style="bold")
    else:
        console.print(f"Beyond the reach by what is {used}:", style="bold")
    rows = grid()
    for area in over:
        rows.add_row("-", f"{_name(area)}: {_why(area)}")
    if over:
        console.print(rows)


def _name(area: Area) -> str:
    if area.kind == "jit":
        return "code made at run time"
    return area.name


def _why(area: Area) -> str:
    """On which pages it is, and why not on huge ones."""
    base = area.resident_bytes - area.huge_bytes
    if area.page_bytes is None or not base:
        return area.words
    return f"{units.size(base)} not on huge pages: {area.words}"


def _touched(area: Area) -> str:
    return units.NOT_OBTAINED if area.touched_bytes is None else units.size(area.touched_bytes)


def _times(ratio: float) -> str:
    return "< 0.1" if ratio < 0.1 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def _cost(looked: Looked) -> str:
    """What looking cost the process."""
    assert looked.looking_ns is not None
    text = (
        f"Reading its mappings took {units.time(looked.looking_ns)}, in which it could not map "
        "memory."
    )
    if looked.clearing_ns is None:
        return (
            f"{text} --touched SECONDS tells which pages it uses; each then takes one page walk "
            "more, and the kernel forgets which were used before."
        )
    return (
        f"{text} Marking its pages unused took {units.time(looked.clearing_ns)} more, and each "
        "page that it used since one page walk."
    )
