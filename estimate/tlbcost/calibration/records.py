# SPDX-License-Identifier: GPL-2.0-or-later
"""Calibrated costs of one machine, each with its interval, and their look-up by footprint."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from tlbcost.common import units
from tlbcost.common.document import doc
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.system.machine import Machine

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

    page_size_bytes: Annotated[int, doc("of these pages", minimum=0)]
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
