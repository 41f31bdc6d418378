# SPDX-License-Identifier: GPL-2.0-or-later
"""A calibration as text, at most 80 columns: in full, and in 24 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tlbcost.calibration.consistency import MOST_HALF_LIFE_NS, UNIT_BYTES, presentable
from tlbcost.calibration.records import (
    CHAINS,
    NAMES,
    POOR,
    WORDS,
    Access,
    Calibration,
    Cost,
    Obtained,
    ReportedFigure,
    Source,
    disagreements,
    figure_from,
    find,
    is_splintered,
)
from tlbcost.common import units
from tlbcost.common.units import Interval
from tlbcost.processors import cpuid
from tlbcost.processors.published import published
from tlbcost.system.machine import Machine

WIDTH = 80
LATENCIES = {
    "l1d_ns": "L1 data cache",
    "l2_ns": "L2 cache",
    "l3_ns": "L3 cache",
    "memory_ns": "memory",
}
CODE = {"itlb_miss_ns": "iTLB miss, STLB hit", "code_walk_ns": "page walk for code"}
COUNTS = {"walks_at_once": "walks at once, factor", "walk_cache_regions": "walk caches, regions"}
_CACHE_SIZES = tuple(name for name in WORDS if name.endswith("_bytes"))
_TLB_SIZES = tuple(name for name in WORDS if not name.endswith("_bytes"))
_LOADS = (("load_ns", "serial"), ("load_ns", "overlapped"), ("stream_ns", None))
_ENTRY_BYTES = 8
_MILLION = 1e6
LINES = 24
_MOST_WALKS = 4
_LABEL, _COLUMN = 25, 27
_HELD = "\u00a0"
# Quantities of each page size: the words for them, the access.
_ROWS: tuple[tuple[str, str, Access | None], ...] = (
    ("dtlb_entries", "L1 dTLB, entries", None),
    ("stlb_entries", "STLB, entries", None),
    ("stlb_hit_ns", "STLB hit", "serial"),
    ("fault_ns", "Page fault", None),
    ("unmap_ns", "Unmapping a page", None),
)


_LEGEND = (
    "serial: the next access waits for this one; overlapped: it does not. footprint: pages in "
    "use, one cache line in each; tables: the page-table entries of these pages. "
    "NA: not obtained. ?: published without a source that was checked."
)


def describe(obtained: Obtained, reported: Sequence[ReportedFigure] = ()) -> str:
    obtained = replace(obtained, calibration=presentable(obtained.calibration))
    calibration = obtained.calibration
    lines = machine_lines(calibration.machine)
    lines += [f"Measured   {calibration.date}, {calibration.extent}, "
              f"in {calibration.duration_s:.1f} s"]  # fmt: skip
    lines += wrap("Source     ", obtained.source)
    lines += wrap("Grade      ", calibration.grade if calibration.grade == "good" else POOR)
    for reason in calibration.grade_reasons:
        lines += wrap("           ", reason)
    if calibration.machine.hypervisor:
        lines += wrap("Guest      ", "measured inside a virtual machine: a page walk goes through "
                      "the hypervisor's page tables too (nested paging)")  # fmt: skip
    for section in Sections(calibration, reported).all():
        lines += ["", *section] if section else []
    lines += ["", *wrap("", _LEGEND), *_notes(obtained, reported)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def machine_lines(machine: Machine) -> list[str]:
    numbers = "-".join(
        part or "?" for part in (machine.cpu_family, machine.cpu_model, machine.cpu_stepping)
    )
    where = f"guest of {machine.hypervisor}" if machine.hypervisor else "no hypervisor seen"
    return [
        *wrap("Machine    ", cpu(machine)),
        *wrap("           ", f"{machine.cpu_vendor or 'unknown vendor'} {numbers}, microcode "
              f"{machine.microcode or 'unknown'}, {where}"),
        *wrap("Kernel     ", f"{machine.kernel or 'unknown'}, "
              f"{units.size(machine.base_page_bytes)} pages, transparent huge pages "
              f"{machine.thp_mode or 'absent'}, governor {machine.governor or 'unknown'}"),
    ]  # fmt: skip


def cpu(machine: Machine) -> str:
    return machine.cpu_name or machine.cpu_vendor or "unknown CPU"


def wrap(start: str, text: str) -> list[str]:
    lines = textwrap.wrap(
        text,
        WIDTH - 1,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [start]


def _in_words(note: str) -> str:
    name, colon, rest = note.partition(": ")
    words = WORDS | CODE | COUNTS | {key: f"{text}, ns" for key, text in LATENCIES.items()}
    return f"{words[name]}: {rest}" if colon and name in words else note


def _notes(obtained: Obtained, reported: Sequence[ReportedFigure]) -> list[str]:
    calibration = obtained.calibration
    notes = [*disagreements(calibration, reported), *map(_in_words, obtained.notes)]
    silence = cpuid.decode(calibration.cpuid).silence if calibration.cpuid else None
    if silence:
        notes.append(silence)
    if published(calibration.machine) is None:
        notes.append("no published TLB sizes of this CPU are known here")
    if calibration.extent == "quick":
        notes.append("caches, ways, stores, walks at once, page-walk caches, code and the TLBs of "
                     "larger pages are measured by tlbcost calibrate --full")  # fmt: skip
    return [line for note in notes for line in wrap("note: ", note)]


class Sections:
    """The sections of a report, each empty if there is nothing to show in it."""

    def __init__(self, calibration: Calibration, reported: Sequence[ReportedFigure]) -> None:
        self._calibration = calibration
        self._reported = reported
        clock = find(calibration, "cycles_per_ns", None)
        self._clock = clock[0].interval if clock else None

    def all(self) -> list[list[str]]:
        sizes = sorted({c.page_size_bytes for c in self._calibration.costs if c.page_size_bytes})
        return [
            self._counts("Clock", {"cycles_per_ns": "core cycles per ns"}),
            self._sizes("Data caches", None, _CACHE_SIZES, ("cpuid", "sysfs")),
            self._times("Latencies", LATENCIES),
            load_table(self._calibration, self._clock),
            *(self._tlbs(size) for size in sizes),
            self._costs("STLB hits", {"stlb_hit_ns": "STLB hit"}),
            *(self._walks(size) for size in sizes),
            self._costs("Chains at once", {"walk_ns": "page walk"}, CHAINS),
            self._counts("Limits of page walks", COUNTS),
            self._times("Walk caches", {"walk_cache_miss_ns": "walk, caches missed"}),
            self._costs("Code", CODE),
            self._times("Kernel", {"fault_ns": "page fault", "unmap_ns": "unmapping a page"}),
        ]

    def _counts(self, title: str, names: dict[str, str]) -> list[str]:
        rows = []
        for name, words in names.items():
            for cost in self._ordered(name):
                pages = "" if cost.pages is None else f"{cost.pages} pages"
                where = ", ".join(filter(None, (_page(cost), _access(cost), pages)))
                rows.append(f"{words:<23}{where:<22}{_number(cost.interval):>9}  "
                            f"{_between(cost.interval)}")  # fmt: skip
        return _titled(f"{title:<45}{'value':>9}  95 % interval", rows)

    def _sizes(
        self, title: str, size: int | None, names: Iterable[str], sources: tuple[Source, ...]
    ) -> list[str]:
        rows = []
        for name in names:
            found = find(self._calibration, name, size)
            cited = [figure_from(self._reported, name, size, source) for source in sources]
            if found or any(cited):
                measured = found[0].interval if found else None
                cells = "".join(f"{_cited(figure):>12}" for figure in cited)
                rows.append(f"{WORDS[name]:<22}{_size(name, measured):>9}  "
                            f"{_between(measured, name):<22}{cells}")  # fmt: skip
        heads = "".join(f"{NAMES[source]:>12}" for source in sources)
        return _titled(f"{title:<22}{'measured':>9}  {'95 % interval':<22}{heads}", rows)

    def _tlbs(self, size: int) -> list[str]:
        lines = self._sizes(
            f"TLBs, {units.size(size)} pages", size, _TLB_SIZES, ("published", "cpuid")
        )
        for cost in find(self._calibration, "tlb_entry_bytes", size):
            lines.append(f"{'one entry covers':<22}{_size(cost.quantity, cost.interval):>9}")
        return lines

    def _times(self, title: str, names: dict[str, str]) -> list[str]:
        rows = [
            f"{words:<22}{_page(cost):<9}{_number(cost.interval):>14}  "
            f"{_between(cost.interval):<22}{self._cycles(cost.interval):>11}"
            for name, words in names.items()
            for cost in self._ordered(name)
        ]
        page = "page" if any(row[22] != " " for row in rows) else ""
        head = f"{title:<22}{page:<9}{'ns':>14}  {'95 % interval':<22}{'cycles':>11}"
        return _titled(head, rows)

    def _costs(
        self, title: str, names: dict[str, str], accesses: Sequence[str] | None = None
    ) -> list[str]:
        rows = [
            f"{words:<20}{_page(cost):<8}{_access(cost):<11}{_pages(cost):>9}"
            f"{_number(cost.interval):>8}  {_between(cost.interval):<15}"
            f"{self._cycles(cost.interval):>7}"
            for name, words in names.items()
            for cost in self._ordered(name)
            if accesses is None or cost.access in accesses
        ]
        head = (f"{title:<20}{'page':<8}{'access':<11}{'footprint':>9}{'ns':>8}  "
                f"{'95 % interval':<15}{'cycles':>7}")  # fmt: skip
        return _titled(head, rows)

    def _walks(self, size: int) -> list[str]:
        at: dict[int | None, dict[str | None, Cost]] = {}
        for cost in find(self._calibration, "walk_ns", size):
            if cost.access not in CHAINS:
                at.setdefault(cost.pages, {})[cost.access] = cost
        whole = not is_splintered(self._calibration, size)
        rows = []
        for pages, costs in at.items():
            tables = units.size(_ENTRY_BYTES * pages) if pages is not None and whole else ""
            cells = "".join(self._walk(costs.get(access)) for access in ("serial", "overlapped"))
            rows.append(f"{'' if pages is None else pages:>9}{tables:>9}{cells}")
        title = f"Walks, {units.size(size)} pages"
        two = f"{'ns':>8}  {'95 % interval':<14}{'cycles':>7}" * 2
        head = f"{title:<24}{'serial':<31}overlapped\n{'footprint':>9}{'tables':>9}{two}"
        return _titled(head, rows)

    def _walk(self, cost: Cost | None) -> str:
        if cost is None:
            return " " * 31
        interval = cost.interval
        return f"{_number(interval):>8}  {_between(interval):<14}{self._cycles(interval):>7}"

    def _cycles(self, interval: Interval | None) -> str:
        if interval is None or self._clock is None:
            return units.NOT_OBTAINED
        return short(interval.value * self._clock.value)

    def _ordered(self, name: str) -> list[Cost]:
        found = [cost for cost in self._calibration.costs if cost.quantity == name]
        order = (None, "serial", "overlapped", *CHAINS)
        return sorted(
            found, key=lambda c: (c.page_size_bytes or 0, order.index(c.access), c.pages or 0)
        )


def _titled(head: str, rows: list[str]) -> list[str]:
    return [*head.split("\n"), *rows] if rows else []


def _page(cost: Cost) -> str:
    return "" if cost.page_size_bytes is None else units.size(cost.page_size_bytes)


def _pages(cost: Cost) -> str:
    return "" if cost.pages is None else str(cost.pages)


def _access(cost: Cost) -> str:
    if cost.access in CHAINS:
        return f"{cost.access.removeprefix('chains_')} chains"
    return cost.access or ""


def _cited(figure: ReportedFigure | None) -> str:
    if figure is None:
        return units.NOT_OBTAINED
    value = units.size(figure.value) if figure.page_size_bytes is None else str(figure.value)
    return value if figure.verified else f"{value} ?"


def _number(interval: Interval | None) -> str:
    return units.NOT_OBTAINED if interval is None else short(interval.value)


def short(value: float) -> str:
    """Three figures, or as many as stand before the point; millions with a letter, for room."""
    if abs(value) < _MILLION:
        return units.nanoseconds(value)
    return f"{units.nanoseconds(value / _MILLION)} M"


def _size(name: str, interval: Interval | None) -> str:
    return units.NOT_OBTAINED if interval is None else _figure(name, interval.value)


def _figure(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return units.size(round(value))
    return f"{value:.0f}" if name in WORDS else short(value)


def _between(interval: Interval | None, name: str = "") -> str:
    if interval is None:
        return ""
    return f"{_figure(name, interval.low)} .. {_figure(name, interval.high)}"


def load_table(calibration: Calibration, clock: Interval | None) -> list[str]:
    """Loads by footprint; empty if they were not measured. `clock`: core cycles per ns."""
    found: dict[tuple[str, str | None, int | None], Interval | None] = {
        (cost.quantity, cost.access, cost.pages): cost.interval
        for cost in calibration.costs
        if (cost.quantity, cost.access) in _LOADS
    }
    rows = []
    # Lines that no cache holds have no footprint.
    for pages in sorted({pages for _, _, pages in found}, key=lambda n: (n is None, n or 0)):
        cells = [
            _cell(found[*column, pages]) if (*column, pages) in found else " " * 22
            for column in _LOADS
        ]
        serial = found.get((*_LOADS[0], pages))
        cycles = units.NOT_OBTAINED
        if serial is not None and clock is not None:
            cycles = units.nanoseconds(serial.value * clock.value)
        where = "memory" if pages is None else units.size(pages * UNIT_BYTES)
        rows.append(f"{where:>9}{cells[0]}{cycles:>5}{cells[1]}{cells[2]}")
    if not rows:
        return []
    head = f"{'ns':>6}  {'95 % interval':<14}"
    return [
        f"{'Loads':<11}{'serial':<27}{'overlapped':<22}in order, 64 bytes",
        f"{'footprint':>9}{head}{'cyc.':>5}{head}{head}",
        *rows,
        *_half_life(calibration),
    ]


def _half_life(calibration: Calibration) -> list[str]:
    found = find(calibration, "l3_half_life_ns", None)
    if not found:
        return []
    label = "Half of the lines that are not accessed leave the last-level cache in"
    half_life = found[0].interval
    if half_life is None:
        return [label, f"{units.NOT_OBTAINED:>9}"]
    if half_life.value >= MOST_HALF_LIFE_NS:
        return [label, f"{units.time(MOST_HALF_LIFE_NS):>9}  or more"]
    return [
        label,
        f"{units.time(half_life.value):>9}  {units.times(half_life.low, half_life.high)}",
    ]


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return f"{units.NOT_OBTAINED:>6}{'':16}"
    low, high = units.nanoseconds(interval.low), units.nanoseconds(interval.high)
    return f"{units.nanoseconds(interval.value):>6}  {f'{low} .. {high}':<14}"


def summarize(obtained: Obtained, reported: Sequence[ReportedFigure] = (), width: int = 80) -> str:
    calibration = presentable(obtained.calibration)
    machine = calibration.machine
    where = f"{cpu(machine)}{f', guest of {machine.hypervisor}' if machine.hypervisor else ''}"
    kernel = machine.kernel or "an unknown kernel"
    thp = f"transparent huge pages {machine.thp_mode or 'absent'}"
    lines = [
        *_grade(calibration, width),
        *_wrapped(f"Machine  {where}; {kernel}; {thp}", width, 9)[:2],
        *_wrapped(f"Source   {obtained.source}", width, 9)[:2],
        "",
        *_table(calibration),
        "",
        *_loads(calibration, width),
    ]
    end = "Everything else, and what is published: --details"
    notes = [
        line for note in _summary_notes(calibration, reported) for line in _wrapped(note, width, 2)
    ]
    room = LINES - len(lines) - 2
    if len(notes) > room:
        notes = notes[:room]
    lines += ["", *notes, end] if notes else ["", end]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _grade(calibration: Calibration, width: int) -> list[str]:
    when = f"{calibration.date}, {calibration.extent}, in {calibration.duration_s:.1f} s"
    if calibration.grade == "good":
        return [f"Good calibration: {when}"]
    first, *others = calibration.grade_reasons
    what, _, remedy = POOR.partition(": ")
    more = f"; {len(others)} more" if others else ""
    return [
        f"{what.upper()}: {remedy}",
        *_wrapped(f"Because  {first}{more}", width, 9)[:2],
        f"Taken    {when}",
    ]


def _table(calibration: Calibration) -> Iterator[str]:
    sizes = sorted({c.page_size_bytes for c in calibration.costs if c.page_size_bytes})[:2]
    heads = "".join(f"{f'{units.size(size)} pages':<{_COLUMN}}" for size in sizes)
    yield f"{'Costs in ns':<{_LABEL}}{heads}"
    for quantity, words, access in _ROWS:
        found = [find(calibration, quantity, size, access) for size in sizes]
        if any(found):
            yield _row(words, [rows[0].interval if rows else None for rows in found], quantity)
        if quantity == "stlb_hit_ns":
            yield from _walks(calibration, sizes)


def _walks(calibration: Calibration, sizes: Sequence[int]) -> Iterator[str]:
    """Walks at a few footprints: the farthest apart that were measured."""
    by_size = [
        {cost.pages: cost.interval for cost in find(calibration, "walk_ns", size, "serial")
         if cost.pages}
        for size in sizes
    ]  # fmt: skip
    footprints = sorted({pages for walks in by_size for pages, ns in walks.items() if ns})
    if not footprints:
        yield _row("Page walk", [None] * len(sizes), "walk_ns")
    # At most these, including the first and the last.
    n = len(footprints)
    most = min(n, _MOST_WALKS)
    for pages in [footprints[round(i * (n - 1) / max(1, most - 1))] for i in range(most)]:
        words = f"Page walk, {pages:,} pages"
        cells = [_value("walk_ns", walks[pages]) if pages in walks else "" for walks in by_size]
        yield f"{words:<{_LABEL}}{''.join(f'{cell:<{_COLUMN}}' for cell in cells)}"


def _row(words: str, intervals: Iterable[Interval | None], quantity: str) -> str:
    cells = "".join(f"{_value(quantity, interval):<{_COLUMN}}" for interval in intervals)
    return f"{words:<{_LABEL}}{cells}"


def _value(quantity: str, interval: Interval | None) -> str:
    if interval is None:
        return units.NOT_OBTAINED
    if not quantity.endswith("_ns"):
        return f"{interval.value:.0f} ({interval.low:.0f} to {interval.high:.0f})"
    low, high = units.nanoseconds(interval.low), units.nanoseconds(interval.high)
    return f"{units.nanoseconds(interval.value)} ({low} to {high})"


def _loads(calibration: Calibration, width: int) -> list[str]:
    found = [
        (cost.pages, cost.interval)
        for cost in find(calibration, "load_ns", None, "serial")
        if cost.interval
    ]
    words = [f"{units.size(n * UNIT_BYTES)} {units.nanoseconds(at.value)}" for n, at in found if n]
    memory = [units.nanoseconds(at.value) for n, at in found if n is None]
    words += [f"memory {memory[0] if memory else units.NOT_OBTAINED}"]
    held = [word.replace(" ", _HELD) for word in words]
    lines = _wrapped(f"Loads, ns, by footprint: {', '.join(held)}", width, 2)
    return [line.replace(_HELD, " ") for line in lines]


def _summary_notes(calibration: Calibration, reported: Sequence[ReportedFigure]) -> Iterator[str]:
    """What matters most: what huge pages are in the TLB, and what contradicts other sources."""
    yield "In brackets: 95 % interval. NA: not obtained. Walks: by the pages in use."
    for size in sorted({c.page_size_bytes for c in calibration.costs if c.page_size_bytes}):
        if is_splintered(calibration, size):
            yield (f"The TLB holds {units.size(size)} pages in smaller pieces, as the host backs "
                   "them: huge pages make a walk cheaper, and remove none.")  # fmt: skip
    for sentence in disagreements(calibration, reported):
        yield f"{sentence}."


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=True
    )
