# SPDX-License-Identifier: GPL-2.0-or-later
"""How is the memory of a process reported: as text of 80 columns, and for programs?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from tlbcost.common import units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.document import Part, doc
from tlbcost.common.units import shortened
from tlbcost.memory.areas import Area, Reaches
from tlbcost.memory.process import ProcessMemory
from tlbcost.system.machine import Machine

if TYPE_CHECKING:
    from rich.console import Console

OPINION = (
    "An opinion by size, no estimate: memory beyond the reach misses if it is used in a scattered "
    "order, and hardly if it is read from end to end; tlbcost estimate tells."
)
# Mappings with less in memory are told together.
_SMALL_BYTES = 1 << 20
_NAME_COLUMNS = 27


class MemoryMaps(Part, frozen=True, kw_only=True):
    """What `tlbcost maps --json FILE` writes: the memory of one process, or of a program when it
    had most. Units are in the keys; null means that a figure was not obtained.
    """

    schema: Annotated[Literal["tlbcost-maps-1"], doc("form of this document and its version")] = (
        "tlbcost-maps-1"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    machine: Annotated[Machine, doc("where it was measured")]
    argv: Annotated[tuple[str, ...] | None, doc("the program; null: a process that was running")]
    opinion: Annotated[str, doc("what reach_ratio can say, and what not")] = OPINION
    reach: Annotated[Reaches, doc("of the last level of the TLB, on base and on huge pages")]
    processes: Annotated[tuple[ProcessMemory, ...], doc("one or more")]


def print_maps(maps: MemoryMaps, file: TextIO, *, everything: bool) -> None:
    """Print the report; with `everything`, small mappings one by one, too."""
    print_whole(lambda console: _fill(console, maps, everything=everything), file)


def _fill(console: Console, maps: MemoryMaps, *, everything: bool) -> None:
    for number, process in enumerate(maps.processes):
        if number:
            console.print()
        _head(console, maps, process)
        _areas(console, process, everything=everything)
    console.print()
    console.print(maps.opinion)
    process = maps.processes[0]
    if process.looking_ns is not None:
        console.print(_cost(process.looking_ns, process.clearing_ns))


def _head(console: Console, maps: MemoryMaps, process: ProcessMemory) -> None:
    what = shlex.join(maps.argv) if maps.argv else f"process {process.pid}"
    console.print(f"tlbcost {maps.tlbcost_version}: memory of {what}\n", style="bold")
    rows = grid()
    rows.add_row("program", process.program or "NA")
    rows.add_row(
        "system",
        f"THP {process.thp_mode or 'not in this kernel'}, shared memory "
        f"{process.shmem_enabled or 'NA'}, defrag {process.thp_defrag or 'NA'}",
    )
    for reach in maps.reach:
        source = f" ({reach.source_kind})" if reach.source_kind else ""
        page = f"{units.size(reach.page_size_bytes)} pages"
        if reach.entry_bytes != reach.page_size_bytes:
            page += f", held as {units.size(reach.entry_bytes)}"
        rows.add_row(
            "reach", f"{units.size(reach.reach_bytes)} on {page}: {reach.entries} entries{source}"
        )
    console.print(rows)


def _areas(console: Console, process: ProcessMemory, *, everything: bool) -> None:
    listed = [area for area in process.areas if everything or area.used_bytes >= _SMALL_BYTES]
    rest = [area for area in process.areas if area not in listed]
    watched = process.watched_s is not None
    used = "touched" if watched else "in memory"
    columns = ["size", "in memory", "on huge", *(["touched"] if watched else [])]
    shown = table("memory", *columns, "x reach")
    for area in listed:
        shown.add_row(
            shortened(_name(area), _NAME_COLUMNS),
            units.size(area.size_bytes),
            units.size(area.resident_bytes),
            units.size(area.huge_bytes),
            *([_touched(area)] if watched else []),
            _times(area.reach_ratio),
        )
    if rest:
        touched = [area.touched_bytes for area in rest if area.touched_bytes is not None]
        shown.add_row(
            f"{len(rest)} others",
            units.size(sum(area.size_bytes for area in rest)),
            units.size(sum(area.resident_bytes for area in rest)),
            units.size(sum(area.huge_bytes for area in rest)),
            *([units.size(sum(touched))] if watched else []),
            _times(sum(area.reach_ratio for area in rest)),
        )
    section(console, shown)
    over = [area for area in listed if area.exceeds_reach]
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


def _cost(looking_ns: int, clearing_ns: int | None) -> str:
    """What looking cost the process."""
    text = f"Reading its mappings took {units.time(looking_ns)}, in which it could not map memory."
    if clearing_ns is None:
        return (
            f"{text} --touched SECONDS tells which pages it uses; each then takes one page walk "
            "more, and the kernel forgets which were used before."
        )
    return (
        f"{text} Marking its pages unused took {units.time(clearing_ns)} more, and each "
        "page that it used since one page walk."
    )
