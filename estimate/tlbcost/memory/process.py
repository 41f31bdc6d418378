# SPDX-License-Identifier: GPL-2.0-or-later
"""The memory of a process, running or at its peak, and its report.

Reading smaps takes the kernel some ms per GiB of base pages, in which the process cannot map
memory; marking pages unused (clear_refs) makes every page that is used take a page walk again, and
takes the same lock.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from tlbcost.common import names, units
from tlbcost.common.cleanup import sigint_left_to_the_program
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.document import Part, doc
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.units import shortened
from tlbcost.memory import smaps
from tlbcost.memory.areas import Area, Reaches, areas_of
from tlbcost.memory.eligibility import name_of
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.memory.smaps import Mapping
from tlbcost.memory.waste import Waste, khugepaged_adds, waste_of
from tlbcost.run.launch import Launcher, resolve, start_failure
from tlbcost.system import hints, process
from tlbcost.system.huge_pages import HugeSettings, huge_settings, process_disabled
from tlbcost.system.machine import THP, Machine, read_number

if TYPE_CHECKING:
    from rich.console import Console

_MAX_PTES_NONE = f"{THP}/khugepaged/max_ptes_none"
# None, half of a huge page, and the default.
_PTES_NONE = (0, 255, 511)
# The program is not timed.
_REST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """The memory of one process, or of a program when it had most."""

    pid: Annotated[int | None, doc("the process; null: a program that was run")]
    program: Annotated[str | None, doc("path of its executable; null: not known")]
    name: Annotated[str | None, doc("what ps calls it; null: several processes, or not known")] = (
        None
    )
    thp_mode: Annotated[str | None, doc("of transparent huge pages; null: not in this kernel")]
    thp_defrag: Annotated[str | None, doc("their setting defrag")]
    shmem_enabled: Annotated[str | None, doc("their setting for shared memory")]
    looking_ns: Annotated[int | None, doc("time that reading its mappings took")] = None
    clearing_ns: Annotated[int | None, doc("time that marking its pages unused took")] = None
    watched_s: Annotated[float | None, doc("how long they were watched; null: they were not")] = (
        None
    )
    max_ptes_none: Annotated[
        int | None, doc("setting of khugepaged: base pages of zeros that a huge page may have")
    ] = None
    khugepaged_bytes: Annotated[
        dict[int, int] | None,
        doc("memory that khugepaged would add by max_ptes_none, were THP always; null: not looked"),
    ] = None
    malloc_asks: Annotated[
        str | None, doc("the malloc that asks for huge pages by itself; null: no known one does")
    ] = None
    areas: Annotated[tuple[Area, ...], doc("its memory, most on base pages first")]


def look(
    pid: int, reaches: Reaches, touched_s: float | None = None, *, waste: bool = False
) -> ProcessMemory:
    """Look at a running process; with `touched_s`, mark its pages and watch that many seconds.

    `waste`: read what is on huge pages, to see what of it is zeros.

    Raises TlbcostError: 1 if there is no such process, 4 if it may not be looked at, has no
    memory of its own or the kernel does not report it.
    """
    folder = Path(f"/proc/{pid}")
    if not folder.is_dir():
        raise process.gone(pid)
    clearing_ns = None
    if touched_s is not None:
        begin = time.monotonic_ns()
        try:
            (folder / "clear_refs").write_text("1", encoding="ascii")
        except OSError as error:
            raise _refused(pid, folder, error, "clear_refs") from error
        clearing_ns = time.monotonic_ns() - begin
        time.sleep(touched_s)
    begin = time.monotonic_ns()
    try:
        text = smaps.read(pid)
    except OSError as error:
        raise _refused(pid, folder, error, "smaps") from error
    looking_ns = time.monotonic_ns() - begin
    if not text:
        raise _without_memory(pid)
    program = None
    with contextlib.suppress(OSError):
        program = process.executable(pid)
    settings = huge_settings(pid)
    mappings = smaps.parse(text, program)
    most_zero = read_number(_MAX_PTES_NONE)
    areas = areas_of(
        mappings,
        settings,
        reaches,
        disabled=bool(process_disabled(pid)),
        watched=touched_s is not None,
        waste=_waste(pid, mappings, settings, most_zero) if waste else None,
    )
    return ProcessMemory(
        pid=pid,
        program=program,
        name=process.name(pid),
        thp_mode=settings.thp,
        thp_defrag=settings.defrag,
        shmem_enabled=settings.shmem,
        looking_ns=looking_ns,
        clearing_ns=clearing_ns,
        watched_s=touched_s,
        max_ptes_none=most_zero,
        khugepaged_bytes=(
            khugepaged_adds(pid, mappings, settings.huge_page_bytes, _PTES_NONE)
            if waste and settings.huge_page_bytes is not None
            else None
        ),
        areas=areas,
    )


def _without_memory(pid: int) -> TlbcostError:
    stat = process.stat(pid)
    if stat is None:
        return process.gone(pid)
    ended = stat.state == "Z"
    what = "it has ended, and its parent has not noticed yet" if ended else "it is a kernel thread"
    return TlbcostError(
        f"process {pid} has no memory: {what}", "ps -e lists the processes", CANNOT_MEASURE
    )


def _waste(
    pid: int, mappings: Sequence[Mapping], settings: HugeSettings, most_zero: int | None
) -> dict[int, Waste] | None:
    if settings.huge_page_bytes is None:
        return None
    try:
        return waste_of(pid, mappings, settings.huge_page_bytes, most_zero or 0)
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EINVAL):
            raise TlbcostError(
                "this kernel does not tell where a process's huge pages are", "Linux 6.7 does",
                CANNOT_MEASURE,
            ) from error  # fmt: skip
        raise _refused(pid, Path(f"/proc/{pid}"), error, "mem") from error


def run_program(
    launcher: Launcher, argv: Sequence[str], reaches: Reaches
) -> tuple[int, tuple[ProcessMemory, ...]]:
    """Exit code, and memory at the peak. Raises TlbcostError, its code or 4, without any."""
    path = resolve(argv[0])
    sampler = PeakSampler(_REST)
    with sigint_left_to_the_program():
        outcome = launcher.execute(argv, discard=False, started=sampler.start)
        sampler.stop()
    if outcome.exec_errno is not None:
        raise start_failure(argv[0], path, outcome.exec_errno)
    peak = sampler.peak()
    if not peak:
        raise TlbcostError(
            f"the memory of {argv[0]} was not seen: {sampler.why_not}",
            "tlbcost maps PID reports on a running process",
            outcome.code or CANNOT_MEASURE,
        )
    settings = huge_settings()
    by_program: dict[str, list[Mapping]] = {}
    for program, mapping in peak:
        by_program.setdefault(program, []).append(mapping)
    return outcome.code, tuple(
        ProcessMemory(
            pid=None,
            program=program,
            thp_mode=settings.thp,
            thp_defrag=settings.defrag,
            shmem_enabled=settings.shmem,
            areas=areas_of(mappings, settings, reaches),
        )
        for program, mappings in by_program.items()
    )


def _refused(pid: int, folder: Path, error: OSError, file: str) -> TlbcostError:
    if error.errno in (errno.ESRCH,) or not folder.is_dir():
        return process.gone(pid)
    if error.errno in (errno.EACCES, errno.EPERM):
        return TlbcostError(
            f"the memory of process {pid} may not be read: {folder / file}: {error.strerror}",
            "this root lacks CAP_SYS_PTRACE, as in containers: add it (docker run --cap-add "
            "SYS_PTRACE), or run tlbcost outside"
            if hints.is_root()
            else hints.again_as_root(),
            CANNOT_MEASURE,
        )
    if error.errno == errno.ENOENT:
        return TlbcostError(
            f"this kernel does not report the pages of a process: it has no {folder / file} "
            "(CONFIG_PROC_PAGE_MONITOR)",
            None,
            CANNOT_MEASURE,
        )
    return TlbcostError(f"cannot read {folder / file}: {error.strerror}", None, CANNOT_MEASURE)


OPINION = (
    "A rough guess from sizes alone: memory beyond the reach misses if it is accessed in a "
    "scattered order, and hardly if it is read sequentially. tlbcost estimate measures that."
)
# Mappings with less in memory are summed up, and in a summary those beyond the largest ones.
_SMALL_BYTES = 1 << 20
_MOST_ROWS, _MOST_PROCESSES, _MOST_REASONS, _MOST_NAMES = 8, 3, 3, 2
_NAME_COLUMNS, _COMMAND_COLUMNS = 27, 60


class MemoryMaps(Part, frozen=True, kw_only=True):
    """What `tlbcost maps --json FILE` writes: the memory of one process, or of a program when it
    had most. Units are in the keys; null means that a figure was not obtained.
    """

    schema: Annotated[Literal["tlbcost-maps-2"], doc("form of this document and its version")] = (
        "tlbcost-maps-2"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    machine: Annotated[Machine, doc("where it was measured")]
    argv: Annotated[tuple[str, ...] | None, doc("the program; null: a process that was running")]
    opinion: Annotated[str, doc("what reach_ratio can say, and what not")] = OPINION
    reach: Annotated[Reaches, doc("of the last level of the TLB, on base and on huge pages")]
    processes: Annotated[tuple[ProcessMemory, ...], doc("one or more")]


def print_maps(maps: MemoryMaps, file: TextIO, *, details: bool) -> None:
    """Print the report; with `details`, all mappings and processes, and what looking cost."""
    print_whole(lambda console: _fill(console, maps, details=details), file)


def _fill(console: Console, maps: MemoryMaps, *, details: bool) -> None:
    shown = maps.processes if details else maps.processes[:_MOST_PROCESSES]
    for number, one in enumerate(shown):
        if number:
            console.print()
        if maps.argv is None:
            # By the name of a symlink that started it, if there was one, and its executable.
            called = names.shown(one.program or units.NOT_OBTAINED)
            if one.name and not PurePosixPath(called).name.startswith(one.name):
                called = f"{one.name} ({called})"
            what = f"process {one.pid}, {called}"
        elif len(maps.processes) > 1:
            what = f"{one.program or 'an unknown program'}, run by {_command(maps.argv)}"
        else:
            what = _command(maps.argv)
        console.print(f"Memory of {what}", style="bold")
        listed: Sequence[Area] = one.areas
        if not details:
            # Those with most use, in the order of all.
            most = sorted(listed, key=lambda area: -area.used_bytes)[: _MOST_ROWS // len(shown)]
            listed = [a for a in listed if a in most and a.used_bytes >= _SMALL_BYTES]
        _beyond(console, maps, one, details=details)
        if details:
            _system(console, maps, one)
        _areas(console, one, listed)
    console.print()
    if len(shown) < len(maps.processes):
        console.print(f"{len(maps.processes) - len(shown)} more processes: --details")
    console.print(maps.opinion)
    one = maps.processes[0]
    if any(area.zero_bytes for area in one.areas):
        console.print(_zeros(one))
    if one.khugepaged_bytes is not None:
        added = one.khugepaged_bytes.items()
        words = ", ".join(f"{units.size(n)} with {most}" for most, n in added)
        console.print(f"Were THP always, khugepaged would add {words} for max_ptes_none.")
    if details and one.looking_ns is not None:
        looking = units.time(one.looking_ns)
        text = f"Reading its mappings took {looking}, in which it could not map memory. "
        if one.clearing_ns is None:
            text += (
                "--touched SECONDS shows which pages it uses; each of these then costs one "
                "more page walk, and the kernel forgets which were used before."
            )
        else:
            text += (
                f"Marking its pages unused took {units.time(one.clearing_ns)} more, and each "
                "page that it has used since cost one more page walk."
            )
        console.print(text)


def _command(argv: Sequence[str]) -> str:
    return units.middle(names.command_line(argv), _COMMAND_COLUMNS)


def _beyond(console: Console, maps: MemoryMaps, process: ProcessMemory, *, details: bool) -> None:
    used = "touched" if process.watched_s is not None else "in memory"
    reach = ", ".join(
        f"{units.size(each.reach_bytes)} on {units.size(each.page_size_bytes)} pages"
        for each in maps.reach
    )
    over = [area for area in process.areas if area.exceeds_reach]
    what = f"{len(over)} mapping{'s' if len(over) > 1 else ''}" if over else "No mapping"
    verb = "exceed" if len(over) > 1 else "exceeds"
    console.print(f"{what} {verb} the TLB's reach ({reach}) by what is {used}.", style="bold")
    by_reason: dict[str, list[Area]] = {}
    for area in over:
        by_reason.setdefault(area.words, []).append(area)
    most = sorted(by_reason.values(), key=lambda areas: -sum(a.used_bytes for a in areas))
    rows = grid()
    for areas in most if details else most[:_MOST_REASONS]:
        named = [_name(area) for area in areas[:_MOST_NAMES]]
        if len(areas) > len(named):
            named.append(f"{len(areas) - len(named)} more")
        why = areas[0].words
        left = sum(area.resident_bytes - area.huge_bytes for area in areas)
        if areas[0].page_bytes is not None and left:
            why = f"{units.size(left)} not on huge pages: {why}"
        rows.add_row("-", f"{', '.join(named)}: {why}")
    console.print(rows)


def _system(console: Console, maps: MemoryMaps, process: ProcessMemory) -> None:
    console.print()
    rows = grid()
    rows.add_row("program", names.shown(process.program or "NA"))
    rows.add_row(
        "system",
        f"THP {process.thp_mode or 'not in this kernel'}, shared memory "
        f"{process.shmem_enabled or 'NA'}, defrag {process.thp_defrag or 'NA'}",
    )
    if process.malloc_asks is not None:
        rows.add_row("malloc", process.malloc_asks)
    for reach in maps.reach:
        source = f" ({reach.source_kind})" if reach.source_kind else ""
        page = f"{units.size(reach.page_size_bytes)} pages"
        if reach.entry_bytes != reach.page_size_bytes:
            page += f", held as {units.size(reach.entry_bytes)}"
        rows.add_row(
            "reach", f"{units.size(reach.reach_bytes)} on {page}: {reach.entries} entries{source}"
        )
    console.print(rows)


def _areas(console: Console, process: ProcessMemory, listed: Sequence[Area]) -> None:
    rest = [area for area in process.areas if area not in listed]
    watched = process.watched_s is not None
    columns = ["size", "in memory", "on huge", *(["touched"] if watched else [])]
    if any(area.zero_bytes is not None for area in process.areas):
        columns.append("zeros")
    shown = table("memory", *columns, "x reach")
    for area in listed:
        touched = units.size(area.touched_bytes)
        shown.add_row(
            shortened(_name(area), _NAME_COLUMNS),
            units.size(area.size_bytes),
            units.size(area.resident_bytes),
            units.size(area.huge_bytes),
            *([touched] if watched else []),
            *([units.size(area.zero_bytes)] if "zeros" in columns else []),
            _times(area.reach_ratio),
        )
    if rest:
        bytes_touched = [area.touched_bytes for area in rest if area.touched_bytes is not None]
        shown.add_row(
            f"{len(rest)} others",
            units.size(sum(area.size_bytes for area in rest)),
            units.size(sum(area.resident_bytes for area in rest)),
            units.size(sum(area.huge_bytes for area in rest)),
            *([units.size(sum(bytes_touched))] if watched else []),
            *([units.size(sum(a.zero_bytes or 0 for a in rest))] if "zeros" in columns else []),
            _times(sum(area.reach_ratio for area in rest)),
        )
    section(console, shown)


def _name(area: Area) -> str:
    if area.kind == "jit":
        return "code made at run time"
    return name_of(area.kind) if area.kind == "shared" else names.shown(area.name)


def _times(ratio: float) -> str:
    return "< 0.1" if ratio < 0.1 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def _zeros(process: ProcessMemory) -> str:
    zero = sum(area.zero_bytes or 0 for area in process.areas)
    taken = sum(area.underused_bytes or 0 for area in process.areas)
    text = (
        f"{units.size(zero)} of its huge pages are zeros, which base pages would not take if they "
        "were never written."
    )
    if process.max_ptes_none is None or read_number(f"{THP}/shrink_underused") != 1:
        return f"{text} This kernel takes none of it back (shrink_underused)."
    return (
        f"{text} The kernel's shrinker of underused huge pages may take back "
        f"{units.size(taken)} (max_ptes_none {process.max_ptes_none})."
    )
