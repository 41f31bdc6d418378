# SPDX-License-Identifier: GPL-2.0-or-later
"""What does one event cost this program: which calibrated price, and what stands in for none?

Pure functions from a calibration to the prices at one footprint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

from tlbcost.calibration.records import Access, Calibration, Cost
from tlbcost.common import units
from tlbcost.common.document import doc
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.system.machine import Machine


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
    """All rows of a quantity, by footprint; also those that were not obtained.

    Without `access`, rows of every access.
    """
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
    """A measured cost as a price: what lies below zero is noise, no miss makes a program faster."""
    if measured is None:
        return None
    return Interval(max(0.0, measured.value), max(0.0, measured.low), max(0.0, measured.high))


def page_costs(
    calibration: Calibration, page_size_bytes: int, entry_bytes: int, footprint_bytes: int
) -> PageCosts:
    """The prices on one page size for a program that touches `footprint_bytes`.

    `entry_bytes` is what one TLB entry covers: the page itself but in some virtual machines.
    """
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
    serial = {
        "stlb_hit_ns": costs.stlb_hit_serial_ns,
        "walk_ns": costs.walk_serial_ns,
    }
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
