# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a calibration say, to people? At most 80 columns, ns first and core cycles second."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from tlbcost.calibration.cache import Obtained
from tlbcost.calibration.costs import find
from tlbcost.calibration.load_table import load_table
from tlbcost.calibration.other_sources import (
    NAMES,
    WORDS,
    ReportedFigure,
    Source,
    disagreements,
    figure_from,
    is_splintered,
)
from tlbcost.calibration.records import Calibration, Cost
from tlbcost.common import units
from tlbcost.common.interval import Interval
from tlbcost.processors import cpuid
from tlbcost.processors.published import published
from tlbcost.system.machine import Machine

WIDTH = 80
_LATENCIES = {
    "l1d_ns": "L1 data cache",
    "l2_ns": "L2 cache",
    "l3_ns": "L3 cache",
    "memory_ns": "memory",
}
_CODE = {
    "itlb_miss_ns": "iTLB miss, STLB hit",
    "code_walk_ns": "page walk for code",
}
_COUNTS = {
    "walks_at_once": "walks at once, factor",
    "walk_cache_regions": "walk caches, regions",
}
_CACHE_SIZES = tuple(name for name in WORDS if name.endswith("_bytes"))
_TLB_SIZES = tuple(name for name in WORDS if not name.endswith("_bytes"))
CHAINS = ("chains_2", "chains_4", "chains_8")
_ENTRY_BYTES = 8
_MILLION = 1e6


def describe(obtained: Obtained, reported: Sequence[ReportedFigure] = ()) -> str:
    """The calibration as text. `reported` is what other sources say of the machine."""
    calibration = obtained.calibration
    lines = machine_lines(calibration.machine)
    lines += [f"Measured   {calibration.date}, {calibration.extent}, "
              f"in {calibration.duration_s:.1f} s"]  # fmt: skip
    lines += wrap("Source     ", obtained.source)
    if calibration.machine.hypervisor:
        lines += wrap("Guest      ", "measured inside a virtual machine: a page walk goes through "
                      "the hypervisor's page tables too (nested paging)")  # fmt: skip
    for section in _Sections(calibration, reported).all():
        lines += ["", *section] if section else []
    lines += ["", *_legend(), *_notes(obtained, reported)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def machine_lines(machine: Machine) -> list[str]:
    """The machine and its settings."""
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
    """The CPU's name, as far as it is known."""
    return machine.cpu_name or machine.cpu_vendor or "unknown CPU"


def wrap(start: str, text: str) -> list[str]:
    """Lines of at most 80 columns that begin with `start`, then as deep."""
    lines = textwrap.wrap(
        text,
        WIDTH - 1,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [start]


class _Sections:
    """The sections of a report, each empty if there is nothing to show in it."""

    def __init__(self, calibration: Calibration, reported: Sequence[ReportedFigure]) -> None:
        self._calibration = calibration
        self._reported = reported
        clock = find(calibration, "cycles_per_ns", None)
        self._clock = clock[0].interval if clock else None

    def all(self) -> list[list[str]]:
        """All sections in their order."""
        sizes = sorted({c.page_size_bytes for c in self._calibration.costs if c.page_size_bytes})
        return [
            self._counts("Clock", {"cycles_per_ns": "core cycles per ns"}),
            self._sizes("Data caches", None, _CACHE_SIZES, ("cpuid", "sysfs")),
            self._times("Latencies", _LATENCIES),
            load_table(self._calibration, self._clock),
            *(self._tlbs(size) for size in sizes),
            self._costs("STLB hits", {"stlb_hit_ns": "STLB hit"}),
            *(self._walks(size) for size in sizes),
            self._costs("Chains at once", {"walk_ns": "page walk"}, CHAINS),
            self._counts("Limits of page walks", _COUNTS),
            self._times("Walk caches", {"walk_cache_miss_ns": "walk, caches missed"}),
            self._costs("Code", _CODE),
            self._times("Kernel", {"fault_ns": "page fault", "unmap_ns": "page given back"}),
        ]

    def _counts(self, title: str, names: dict[str, str]) -> list[str]:
        """Quantities without a unit."""
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
        """Sizes of TLBs or caches beside what other sources report."""
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
        """Times that depend on no access and no footprint."""
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
        """Costs of accesses: of any kind, or of these."""
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
        """Walks over the footprint: serial and overlapped beside each other."""
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
        return _short(interval.value * self._clock.value)

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
    return units.NOT_OBTAINED if interval is None else _short(interval.value)


def _short(value: float) -> str:
    """Three figures, or as many as stand before the point; millions with a letter, for room."""
    if abs(value) < _MILLION:
        return units.nanoseconds(value)
    return f"{units.nanoseconds(value / _MILLION)} M"


def _size(name: str, interval: Interval | None) -> str:
    return units.NOT_OBTAINED if interval is None else _figure(name, interval.value)


def _figure(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return units.size(round(value))
    return f"{value:.0f}" if name in WORDS else _short(value)


def _between(interval: Interval | None, name: str = "") -> str:
    if interval is None:
        return ""
    return f"{_figure(name, interval.low)} .. {_figure(name, interval.high)}"


def _in_words(note: str) -> str:
    """A note about a quantity with the words of the report for it."""
    name, colon, rest = note.partition(": ")
    words = WORDS | _CODE | _COUNTS | {key: f"{text}, ns" for key, text in _LATENCIES.items()}
    return f"{words[name]}: {rest}" if colon and name in words else note


def _legend() -> list[str]:
    return wrap(
        "",
        "serial: the next access waits for this one; overlapped: it does not. footprint: pages in "
        "use, one cache line in each; tables: the page-table entries of so many pages. "
        "NA: not obtained. ?: published without a source that was checked.",
    )


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
