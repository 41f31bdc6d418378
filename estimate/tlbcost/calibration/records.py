# SPDX-License-Identifier: GPL-2.0-or-later
"""Calibrated costs of one machine, each with its interval, and their agreement with other sources.

Published tables, CPUID and the kernel are shown next to what was measured, never in place of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from tlbcost.common import units
from tlbcost.common.document import amount, doc
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import sys_path
from tlbcost.common.units import Interval
from tlbcost.processors import cpuid
from tlbcost.processors.cpuid import ReportedCache
from tlbcost.processors.published import AGREEMENT_FRACTION, Level, published
from tlbcost.system.machine import Machine, read_line

Access = Literal["serial", "overlapped", "chains_2", "chains_4", "chains_8"]
Extent = Literal["quick", "full"]
Grade = Literal["good", "poor"]
# What to do about a poor one, wherever it is shown.
POOR = "poor calibration: repeat it when the machine is quiet"
# Independent chains that are followed at once.
CHAINS: tuple[Access, ...] = ("chains_2", "chains_4", "chains_8")


@dataclass(frozen=True, slots=True)
class Cost:
    """One calibrated quantity (doc/format.md, "calibration"); `interval` None: not obtained.

    `page_size_bytes` None: the quantity belongs to no page size.
    """

    quantity: str
    page_size_bytes: int | None = None
    access: Access | None = None
    pages: int | None = None
    interval: Interval | None = None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything that was calibrated on one machine.

    `cpuid` has the raw words of CPUID leaves by their key in the samples' header; empty where the
    CPU has no such instruction. `notes` are sentences about what is missing or limited.
    `grade_reasons`: why it is poor, as sentences; empty: it is good.
    """

    machine: Machine
    date: str
    version: str
    duration_s: float
    costs: tuple[Cost, ...]
    extent: Extent = "quick"
    cpuid: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    grade_reasons: tuple[str, ...] = ()

    @property
    def grade(self) -> Grade:
        return "poor" if self.grade_reasons else "good"


@dataclass(frozen=True, slots=True)
class Obtained:
    """A calibration, and where it came from (part of a sentence).

    `curve` is the text of the `curve` table behind it; None if it was not kept.
    """

    calibration: Calibration
    source: str
    curve: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        return self.calibration.notes


@dataclass(frozen=True, slots=True)
class PageCosts:
    """What one event costs on one page size at one footprint, in ns. None: not obtained.

    The footprint is in TLB entries: pages, or the pieces of them that one entry covers. `cached`
    is the overlapped cost of a walk at the smallest footprint that has any: a program whose
    accesses lie together finds its page tables in the caches there, however much it touches.
    No price is below zero (see `price`).
    """

    page_size_bytes: Annotated[int, amount("of these pages")]
    footprint_entries: Annotated[
        int, doc("footprint that the costs are taken at, in TLB entries", minimum=1)
    ]
    stlb_hit_serial_ns: Annotated[Interval | None, doc("an STLB hit, serialized")]
    stlb_hit_overlapped_ns: Annotated[Interval | None, doc("an STLB hit, overlapped")]
    walk_serial_ns: Annotated[Interval | None, doc("a page walk, serialized")]
    walk_overlapped_ns: Annotated[Interval | None, doc("a page walk, overlapped")]
    walk_cached_ns: Annotated[
        Interval | None, doc("overlapped, at the smallest footprint that has walks")
    ]
    fault_ns: Annotated[Interval | None, doc("kernel time of the first touch of a page")]
    unmap_ns: Annotated[Interval | None, doc("kernel time of unmapping a page")] = None


def find(
    calibration: Calibration,
    quantity: str,
    page_size_bytes: int | None,
    access: Access | None = None,
) -> list[Cost]:
    """Rows of a quantity by footprint, obtained or not; without `access`, of every access."""
    found = [
        cost
        for cost in calibration.costs
        if cost.quantity == quantity
        and cost.page_size_bytes == page_size_bytes
        and (access is None or cost.access == access)
    ]
    return sorted(found, key=lambda cost: cost.pages or 0)


def cost_at(
    calibration: Calibration,
    quantity: str,
    page_size_bytes: int | None,
    access: Access | None = None,
    pages: int = 1,
) -> Interval | None:
    """A quantity at a footprint, as measured, in its own unit; None if it was not obtained.

    Between the footprints that were measured, straight lines over log(pages); beyond them, the
    nearest one. Entries and page faults have no footprint.
    """
    known = [
        (cost.pages, cost.interval)
        for cost in find(calibration, quantity, page_size_bytes, access)
        if cost.interval is not None
    ]
    if not known:
        return None
    before = [(at, interval) for at, interval in known if at is None or at <= pages]
    after = [(at, interval) for at, interval in known if at is not None and at > pages]
    if not before:
        return after[0][1]
    at_low, low = before[-1]
    if not after or at_low is None:
        return low
    at_high, high = after[0]
    share = (math.log(pages) - math.log(at_low)) / (math.log(at_high) - math.log(at_low))
    return Interval(
        low.value + share * (high.value - low.value),
        low.low + share * (high.low - low.low),
        low.high + share * (high.high - low.high),
    )


def price(measured: Interval | None) -> Interval | None:
    if measured is None:
        return None
    return Interval(max(0.0, measured.value), max(0.0, measured.low), max(0.0, measured.high))


def page_costs(
    calibration: Calibration, page_size_bytes: int, entry_bytes: int, footprint_bytes: int
) -> PageCosts:
    """Prices on one page size of a program's footprint; one TLB entry covers `entry_bytes`."""
    entries = max(1, math.ceil(footprint_bytes / entry_bytes))

    def at(quantity: str, access: Access | None, pages: int) -> Interval | None:
        return price(cost_at(calibration, quantity, page_size_bytes, access, pages))

    def hit(access: Access) -> Interval | None:
        # A hit is one of an entry, whatever page it is a piece of.
        pieces = cost_at(calibration, "stlb_hit_ns", entry_bytes, access, entries)
        return at("stlb_hit_ns", access, entries) or price(pieces)

    return PageCosts(
        page_size_bytes,
        entries,
        hit("serial"),
        hit("overlapped"),
        at("walk_ns", "serial", entries),
        at("walk_ns", "overlapped", entries),
        at("walk_ns", "overlapped", 1),
        at("fault_ns", None, 1),
        at("unmap_ns", None, 1),
    )


def missing_costs(costs: PageCosts) -> list[str]:
    """The serial costs that were not obtained; on base pages there is no estimate without them."""
    serial = {"stlb_hit_ns": costs.stlb_hit_serial_ns, "walk_ns": costs.walk_serial_ns}
    return [name for name, interval in serial.items() if interval is None]


def with_substitutes(costs: PageCosts, base: PageCosts) -> PageCosts:
    """Price what was not obtained so that the gain is never overstated.

    A huge-page cost becomes the base page's: a walk of a huge page has one step less, so that
    this is an upper limit of what it costs. An overlapped cost becomes anything from nothing (it
    may be hidden wholly) to the serial one.
    """
    hit = costs.stlb_hit_serial_ns or base.stlb_hit_serial_ns
    walk = costs.walk_serial_ns or base.walk_serial_ns
    return replace(
        costs,
        stlb_hit_serial_ns=hit,
        stlb_hit_overlapped_ns=costs.stlb_hit_overlapped_ns or _hidden(hit),
        walk_serial_ns=walk,
        walk_overlapped_ns=costs.walk_overlapped_ns or _hidden(walk),
        walk_cached_ns=costs.walk_cached_ns or _hidden(walk),
    )


def _hidden(serial: Interval | None) -> Interval | None:
    return None if serial is None else Interval(serial.high / 2, 0.0, serial.high)


def check_costs(calibrated: Calibration, machine: Machine) -> None:
    """Without the costs on base pages there is no estimate: say so before the program runs."""
    size = machine.base_page_bytes
    missing = [
        words
        for name, words in (("stlb_hit_ns", "an STLB hit"), ("walk_ns", "a page walk"))
        if cost_at(calibrated, name, size, "serial") is None
    ]
    if missing:
        raise TlbcostError(
            f"no estimate: the calibration does not say what {' and '.join(missing)} "
            f"cost{'s' if len(missing) == 1 else ''} on {units.size(size)} pages",
            "tlbcost calibrate --recalibrate, on a quiet machine",
            CANNOT_MEASURE,
        )


Source = Literal["published", "cpuid", "sysfs"]
NAMES: dict[Source, str] = {"published": "published", "cpuid": "CPUID", "sysfs": "sysfs"}

# Measured and reported cache sizes may differ by this share: lines that other data take, footprints
# some 25 % apart, and an outer level that replaces as it likes.
_CACHE_AGREEMENT_FRACTION = 0.3
# The quantities that are compared, in the words of the report.
WORDS = {
    "dtlb_entries": "L1 dTLB entries",
    "dtlb_ways": "L1 dTLB ways",
    "dtlb_store_entries": "store dTLB entries",
    "itlb_entries": "L1 iTLB entries",
    "stlb_entries": "STLB entries",
    "stlb_ways": "STLB ways",
    "l1d_bytes": "L1 data cache",
    "l2_bytes": "L2 cache",
    "l3_bytes": "L3 cache",
}
_CACHES = {1: "l1d_bytes", 2: "l2_bytes", 3: "l3_bytes"}
_FOLDER = "/sys/devices/system/cpu/cpu0/cache"
_KINDS: dict[str, cpuid.CacheKind] = {
    "Data": "data", "Instruction": "instruction", "Unified": "unified"
}  # fmt: skip
_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class ReportedFigure:
    """What one source reports of a quantity of doc/format.md, "calibration"."""

    quantity: Annotated[str, doc("the suffix is the unit of value", enum=tuple(WORDS))]
    page_size_bytes: Annotated[int | None, doc("null: a cache", minimum=1)]
    source: Annotated[Source, doc("what reports it")]
    value: Annotated[int, amount("the figure")]
    verified: Annotated[
        bool, doc("false: published from general knowledge, not checked against a source")
    ] = True


def reported_figures(
    calibration: Calibration, caches: Iterable[ReportedCache] = ()
) -> tuple[ReportedFigure, ...]:
    """What is published of the machine, what its CPUID reports, and the `caches` of sysfs."""
    by_cpuid = cpuid.decode(calibration.cpuid)
    found = list(_published(calibration))
    for tlb in by_cpuid.tlbs:
        found += _levels(tlb.level, tlb.page_size_bytes, "cpuid", tlb.entries, tlb.ways)
    found += _caches(by_cpuid.caches, "cpuid")
    return (*found, *_caches(caches, "sysfs"))


def sysfs_caches() -> tuple[ReportedCache, ...]:
    """The caches of the first CPU as the kernel reports them; what it does not is left out."""
    found = []
    for folder in sorted(sys_path(_FOLDER).glob("index[0-9]*")):
        at = f"{_FOLDER}/{folder.name}"
        level, kind = read_line(f"{at}/level") or "", _KINDS.get(read_line(f"{at}/type") or "")
        size = re.fullmatch(r"([1-9][0-9]*)([KMG]?)", read_line(f"{at}/size") or "", re.ASCII)
        if kind and size and re.fullmatch(r"[1-9]", level, re.ASCII):
            n_bytes = int(size[1]) * _FACTORS.get(size[2], 1)
            # A list such as 0-3,8.
            text = read_line(f"{at}/shared_cpu_list") or "0"
            n = 0
            for part in text.split(","):
                first, _, last = part.partition("-")
                if first.isdigit():
                    n += int(last) - int(first) + 1 if last.isdigit() else 1
            cpus = max(n, 1)
            found.append(ReportedCache(int(level), kind, n_bytes, cpus))
    return tuple(found)


def figure_from(
    reported: Iterable[ReportedFigure], quantity: str, page_size_bytes: int | None, source: Source
) -> ReportedFigure | None:
    wanted = (quantity, page_size_bytes, source)
    for figure in reported:
        if (figure.quantity, figure.page_size_bytes, figure.source) == wanted:
            return figure
    return None


def disagreements(calibration: Calibration, reported: Iterable[ReportedFigure]) -> list[str]:
    claims: dict[tuple[str, int | None, int], list[ReportedFigure]] = {}
    for figure in reported:
        key = figure.quantity, figure.page_size_bytes, figure.value
        claims.setdefault(key, []).append(figure)
    sentences = []
    for (quantity, size, claimed), claim in claims.items():
        measured = _measured(calibration, quantity, size)
        if measured is None or _agree(claim[0], measured) or is_splintered(calibration, size):
            continue
        name = WORDS[quantity]
        if size is None:
            value, other = units.size(round(measured.value)), units.size(claimed)
        else:
            name += f" on {units.size(size)} pages"
            value, other = f"{measured.value:.0f}", str(claimed)
        sentences.append(f"{name}: {value} measured, but {other} {_by(claim)}")
    return sentences


def is_splintered(calibration: Calibration, page_size_bytes: int | None) -> bool:
    """Whether the TLB holds pieces of such pages; others speak of whole ones."""
    entry = _measured(calibration, "tlb_entry_bytes", page_size_bytes)
    return entry is not None and entry.value != page_size_bytes


def _by(claim: Iterable[ReportedFigure]) -> str:
    tellers = [NAMES[figure.source] for figure in claim if figure.source != "published"]
    words = [f"reported by {' and '.join(tellers)}"] if tellers else []
    for figure in claim:
        if figure.source == "published":
            words.insert(0, "published" if figure.verified else "published (unverified)")
    return " and ".join(words)


def _published(calibration: Calibration) -> Iterator[ReportedFigure]:
    core = published(calibration.machine)
    for (level, size), row in core.levels.items() if core else ():
        yield from _levels(level, size, "published", row.entries, row.ways, row.verified)


def _levels(
    level: Level,
    size: int,
    source: Source,
    entries: int | None,
    ways: int | None,
    verified: bool = True,
) -> Iterator[ReportedFigure]:
    for what, value in (("entries", entries), ("ways", ways)):
        # Ways of code and of stores are not measured.
        if value is not None and f"{level}_{what}" in WORDS:
            yield ReportedFigure(f"{level}_{what}", size, source, value, verified)


def _caches(caches: Iterable[ReportedCache], source: Source) -> Iterator[ReportedFigure]:
    for cache in caches:
        if cache.kind != "instruction" and cache.level in _CACHES:
            yield ReportedFigure(_CACHES[cache.level], None, source, cache.size_bytes)


def _measured(calibration: Calibration, quantity: str, size: int | None) -> Interval | None:
    for cost in find(calibration, quantity, size):
        if cost.interval is not None:
            return cost.interval
    return None


def _agree(figure: ReportedFigure, measured: Interval) -> bool:
    if measured.low <= figure.value <= measured.high:
        return True
    if figure.quantity.endswith("_ways"):
        return round(measured.value) == figure.value
    size = figure.quantity.endswith("_bytes")
    allowed = _CACHE_AGREEMENT_FRACTION if size else AGREEMENT_FRACTION
    return abs(figure.value - measured.value) <= allowed * figure.value
