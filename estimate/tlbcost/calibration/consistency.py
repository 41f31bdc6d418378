# SPDX-License-Identifier: GPL-2.0-or-later
"""Contradictions among the figures of a calibration, its grade, and costs of loads.

Each rule is something that holds on every machine: memory is not nearer than a cache, and a walk on
huge pages has one step less. Two figures contradict each other if they are farther apart than the
rule allows and their intervals have no value in common; a figure whose interval is as wide as
itself is none. The factors are far above what good calibrations of different machines show.

From a calibration's `load_ns`, `stream_ns` and `l3_half_life_ns`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tlbcost.calibration.calibrator import load_of
from tlbcost.calibration.records import Access, Calibration, Cost, find, price
from tlbcost.common import units
from tlbcost.common.formats import Table
from tlbcost.common.units import Interval
from tlbcost.processors import cpuid

if TYPE_CHECKING:
    from tlbcost.calibration.records import ReportedFigure


# Footprints of these rows are counted in pieces of this many bytes.
UNIT_BYTES = 64
# A footprint shows a cache's latency if it is at most this share of it,
_MOST = 0.5
# and at least this multiple of the cache before it; from the other one on, next to none of it is
# found there any more.
_LEAST, _CLEAR = 2, 4
# The longest wait of the calibrator: a half-life of this much is a lower bound.
MOST_HALF_LIFE_NS = 32e6
# A latency that many times the last cache's is memory's, whatever the cache's size is said to be.
_FARTHER = 2

Points = tuple[tuple[int, Interval], ...]


@dataclass(frozen=True, slots=True)
class Loads:
    """Footprints in bytes, ascending, and ns at each; those that were not obtained are left out.

    `serial`: per load that waits for the last one; `overlapped`: that needs nothing of others;
    `stream`: per 64 bytes read in the order of addresses; `memory`: as serial, of lines that no
    cache holds; None: not obtained. None has the cost of page walks in it. `l3_half_life_ns`: half
    of the lines that are not accessed have left the last-level cache after that time.
    """

    serial: Points
    overlapped: Points
    stream: Points
    memory: Interval | None = None
    l3_half_life_ns: Interval | None = None


@dataclass(frozen=True, slots=True)
class LevelLatencies:
    """ns of a dependent load from each level; None: not obtained, or there is no such level.

    `last_level_bytes` is the footprint at which latency is half-way from the last cache's to
    memory's: what of that cache is available, which other tenants may share.
    """

    l1: Interval | None
    l2: Interval | None
    l3: Interval | None
    memory: Interval | None
    last_level_bytes: int | None


def loads(calibration: Calibration) -> Loads | None:
    known = {cost.quantity for cost in calibration.costs}
    if not known & {"load_ns", "stream_ns"}:
        return None
    serial = find(calibration, "load_ns", None, "serial")
    return Loads(
        _load_curve(calibration, "load_ns", "serial"),
        _load_curve(calibration, "load_ns", "overlapped"),
        _load_curve(calibration, "stream_ns", None),
        next((cost.interval for cost in serial if cost.pages is None), None),
        next((cost.interval for cost in find(calibration, "l3_half_life_ns", None)), None),
    )


def cache_sizes(reported: Iterable[ReportedFigure]) -> dict[int, int]:
    """Bytes of the data cache of each level: as CPUID reports, else sysfs."""
    names = {"l1d_bytes": 1, "l2_bytes": 2, "l3_bytes": 3}
    order = {"sysfs": 0, "cpuid": 1}
    found = [figure for figure in reported if figure.quantity in names and figure.source in order]
    # The calibration has its own CPUID; sysfs is of the machine that we are on.
    found.sort(key=lambda figure: order[figure.source])
    return {names[figure.quantity]: figure.value for figure in found}


def level_latencies(found: Loads, sizes: Mapping[int, int]) -> LevelLatencies:
    """Latency of each level from the serial loads. `sizes`: bytes of each cache by its level.

    A cache's latency is that of a footprint of half of it at most, and twice the cache before it
    at least: the smallest that is four times as large as that, else the largest. Memory's is that
    of lines that were flushed; where a CPU cannot, that of the largest footprint, if the last
    cache does not hold it or is over twice as fast. Some of its lines may have been in that cache.
    """
    at: dict[int, tuple[int, Interval]] = {}
    before = 0
    for level, size in sorted(sizes.items()):
        fit = [point for point in found.serial if _LEAST * before <= point[0] <= _MOST * size]
        clear = [point for point in fit if point[0] >= _CLEAR * before]
        if fit:
            at[level] = clear[0] if clear else fit[-1]
        before = size
    last = max(sizes, default=None)
    memory = found.memory
    if memory is None and last is not None and found.serial:
        footprint, ns = found.serial[-1]
        slower = last in at and ns.value > _FARTHER * at[last][1].value
        if footprint > sizes[last] or slower:
            memory = ns
    latency = {level: point[1] for level, point in at.items()}
    reach = None
    if last in at and memory is not None:
        reach = _half_way(found.serial, at[last], memory)
    return LevelLatencies(latency.get(1), latency.get(2), latency.get(3), memory, reach)


def _half_way(serial: Points, last: tuple[int, Interval], memory: Interval) -> int | None:
    half = (last[1].value + memory.value) / 2
    beyond = [(size, ns.value) for size, ns in serial if size >= last[0]]
    for (low, low_ns), (high, high_ns) in pairwise(beyond):
        if low_ns < half <= high_ns:
            share = (half - low_ns) / (high_ns - low_ns)
            return round(math.exp(math.log(low) + share * (math.log(high) - math.log(low))))
    return None


def _load_curve(calibration: Calibration, quantity: str, access: Access | None) -> Points:
    return tuple(
        (cost.pages * UNIT_BYTES, cost.interval)
        for cost in find(calibration, quantity, None, access)
        if cost.pages is not None and cost.interval is not None
    )


# Footprints that are this many times the last cache are nearly all in memory.
_BEYOND = 4
# What a larger footprint may cost less, and memory more or less than the footprints beyond caches.
_SAME = 1.5
# A walk over twice as many pages costs at most this much more; in good calibrations 1.7.
_STEEPEST = 3.0
# Page tables of this many pages are in a core's own caches: there a walk's cost is well known.
# Farther out other tenants of the host have their part in it.
_NEAR_PAGES, _MIDDLE_PAGES = 16384, 65536
# The whole interval of such a cost over its value.
_WIDEST, _WIDEST_MIDDLE = 1.0, 1.5
# Costs that are hidden behind other work are nothing, give or take this.
_HIDDEN_NS = 0.5

_Point = tuple[int, Interval]
# Walks at fewer footprints show nothing of how page tables leave the caches.
_FEWEST_WALKS = 2


def contradictions(costs: Sequence[Cost], last_cache_bytes: int | None) -> tuple[str, ...]:
    """A sentence for each figure that cannot be true, or not together with another one."""
    found = list(_memory(costs, last_cache_bytes))
    for rule in _RULES:
        found += rule(costs)
    return tuple(dict.fromkeys(found))


def contradictions_of(calibration: Calibration) -> tuple[str, ...]:
    return contradictions(calibration.costs, last_cache_bytes(calibration.cpuid))


def last_cache_bytes(raw: dict[str, str]) -> int | None:
    """The largest data cache by the raw words of CPUID; None: not known."""
    caches = cpuid.decode(raw).caches if raw else ()
    return max((c.size_bytes for c in caches if c.kind != "instruction"), default=None)


def without_negative(costs: Sequence[Cost]) -> tuple[tuple[Cost, ...], tuple[str, ...]]:
    """Costs as they can be shown, and notes: no cost is below zero.

    What lies below zero is noise: an interval is cut there, and a value there is not obtained; but
    one that is next to zero, of work that is hidden, is zero.
    """
    shown, notes = [], []
    for cost in costs:
        at = cost.interval
        if at is None or not cost.quantity.endswith("_ns") or at.low >= 0:
            shown.append(cost)
        elif at.value >= 0 or _is_hidden(at):
            shown.append(replace(cost, interval=price(at)))
        else:
            shown.append(replace(cost, interval=None))
            notes.append(f"{_name(cost)} was measured as {_ns(at)}, below zero: not reported")
    return tuple(shown), tuple(notes)


def presentable(calibration: Calibration) -> Calibration:
    """As it can be shown: one that an earlier version measured may have costs below zero."""
    return replace(calibration, costs=without_negative(calibration.costs)[0])


def _is_hidden(at: Interval) -> bool:
    return at.value > -_HIDDEN_NS


def _below_zero(costs: Sequence[Cost]) -> Iterator[str]:
    for cost in costs:
        at = cost.interval
        if not cost.quantity.endswith("_ns") or at is None or _is_hidden(at):
            continue
        # Overlapped ones are next to nothing: noise alone may bring their median below it.
        if cost.access == "serial" or at.high < 0:
            yield f"{_name(cost)} costs {_ns(at)}"


def _too_wide(costs: Sequence[Cost]) -> Iterator[str]:
    found: list[tuple[float, str]] = []
    for cost in costs:
        at = cost.interval
        walk = cost.quantity == "walk_ns" and (cost.pages or 0) <= _MIDDLE_PAGES
        widest = _WIDEST_MIDDLE if walk and (cost.pages or 0) > _NEAR_PAGES else _WIDEST
        known = walk or cost.quantity == "stlb_hit_ns" or _is_memory(cost)
        if at is None or not known or cost.access != "serial" or at.value <= 0:
            continue
        width = (at.high - at.low) / at.value
        if cost.page_size_bytes in (None, _base(costs)) and width > widest:
            low, high = (units.nanoseconds(x) for x in (at.low, at.high))
            words = f"{_name(cost)} is only known to be between {low} and {high} ns"
            found.append((width, words))
    yield from (words for _, words in sorted(found, reverse=True))


def _memory(costs: Sequence[Cost], last_cache: int | None) -> Iterator[str]:
    """Memory costs what the footprints beyond all caches do, and no footprint costs more."""
    memory = next((c.interval for c in costs if _is_memory(c) and c.interval), None)
    if memory is None:
        return
    for lines, at in _points(costs, "load_ns", None, "serial"):
        words = f"a load from memory takes {_ns(memory)}, but from a footprint of "
        words += f"{units.size(lines * UNIT_BYTES)} {_ns(at)}"
        beyond = last_cache is not None and lines * UNIT_BYTES >= _BEYOND * last_cache
        if _exceeds(at, memory, _SAME) or (beyond and _exceeds(memory, at, _SAME)):
            yield words


def _loads(costs: Sequence[Cost]) -> Iterator[str]:
    """A larger footprint does not cost less."""
    for (few, near), (many, far) in pairwise(_points(costs, "load_ns", None, "serial")):
        if _exceeds(near, far, _SAME):
            yield (f"a load from {units.size(few * UNIT_BYTES)} takes {_ns(near)}, but from "
                   f"{units.size(many * UNIT_BYTES)} {_ns(far)}")  # fmt: skip


def _walks(costs: Sequence[Cost]) -> Iterator[str]:
    """More pages cost more, and little by little: their page tables lie farther and farther."""
    for size in sorted({c.page_size_bytes for c in costs if c.page_size_bytes}):
        for (few, near), (many, far) in pairwise(_points(costs, "walk_ns", size, "serial")):
            most = max(_STEEPEST, (many / few) ** math.log2(_STEEPEST))
            if _exceeds(near, far, _SAME) or _exceeds(far, near, most):
                yield (f"a walk on {units.size(size)} pages takes {_ns(near)} with {few:,} pages, "
                       f"but {_ns(far)} with {many:,}")  # fmt: skip


def _huge_walks(costs: Sequence[Cost]) -> Iterator[str]:
    """A walk on huge pages has one step less than one on base pages with as many entries."""
    base = _base(costs)
    if base is None:
        return
    smaller = dict(_points(costs, "walk_ns", base, "serial"))
    for size in sorted({c.page_size_bytes for c in costs if c.page_size_bytes} - {base}):
        for pages, at in _points(costs, "walk_ns", size, "serial"):
            if pages in smaller and _exceeds(at, smaller[pages], _SAME):
                yield (f"a walk takes {_ns(at)} on {units.size(size)} pages, but "
                       f"{_ns(smaller[pages])} on {units.size(base)} pages")  # fmt: skip


def _hits(costs: Sequence[Cost]) -> Iterator[str]:
    """A hit in the STLB saves a walk."""
    for size in sorted({c.page_size_bytes for c in costs if c.page_size_bytes}):
        walks = _points(costs, "walk_ns", size, "serial")
        for _, hit in _points(costs, "stlb_hit_ns", size, "serial"):
            if walks and _exceeds(hit, walks[0][1], _SAME):
                yield (f"an STLB hit takes {_ns(hit)} on {units.size(size)} pages, but a walk "
                       f"{_ns(walks[0][1])}")  # fmt: skip


def _faults(costs: Sequence[Cost]) -> Iterator[str]:
    """A larger page takes longer to zero, but less than as much memory in smaller pages."""
    faults = [
        (c.page_size_bytes, c.interval)
        for c in costs
        if c.quantity == "fault_ns" and c.page_size_bytes and c.interval
    ]
    for (small, near), (large, far) in pairwise(sorted(faults, key=lambda fault: fault[0])):
        if _exceeds(near, far, _SAME) or _exceeds(far, near, _SAME * large / small):
            yield (f"a page fault takes {_ns(near)} on {units.size(small)} pages, but {_ns(far)} "
                   f"on {units.size(large)} pages")  # fmt: skip


_RULES: tuple[Callable[[Sequence[Cost]], Iterator[str]], ...] = (
    _below_zero, _loads, _walks, _huge_walks, _hits, _faults, _too_wide,
)  # fmt: skip


def _exceeds(a: Interval, b: Interval, factor: float) -> bool:
    return a.value > factor * b.value and a.low > b.high


def _is_memory(cost: Cost) -> bool:
    return cost.quantity == "load_ns" and cost.access == "serial" and cost.pages is None


def _base(costs: Sequence[Cost]) -> int | None:
    return min((c.page_size_bytes for c in costs if c.page_size_bytes), default=None)


def _points(costs: Sequence[Cost], quantity: str, size: int | None, access: Access) -> list[_Point]:
    found = [
        (cost.pages, cost.interval)
        for cost in costs
        if (cost.quantity, cost.page_size_bytes, cost.access) == (quantity, size, access)
        and cost.pages is not None
        and cost.interval is not None
        and cost.interval.value > 0
    ]
    return sorted(found, key=lambda point: point[0])


def _ns(interval: Interval) -> str:
    return f"{units.nanoseconds(interval.value)} ns"


def _name(cost: Cost) -> str:
    if _is_memory(cost):
        return "a load from memory"
    words = {"walk_ns": "a walk", "stlb_hit_ns": "an STLB hit"}.get(cost.quantity, cost.quantity)
    size = "" if cost.page_size_bytes is None else f" on {units.size(cost.page_size_bytes)} pages"
    where = [cost.access or "", "" if cost.pages is None else f"{cost.pages:,} pages"]
    inside = ", ".join(word for word in where if word)
    return f"{words}{size}{f' ({inside})' if inside else ''}"


def poor_because(samples: Sequence[Table], costs: Sequence[Cost]) -> tuple[str, ...]:
    """Why a calibration from these samples is poor, as sentences; empty: it is good.

    Poor: others took too much of the calibrator's time, its figures contradict each other, or what
    every estimate needs is missing though others took some of the time, or though a first level
    was found. What is missing on a quiet machine that shows no TLB at all does not make it poor.
    """
    load = load_of(samples)
    found = [*load.reasons, *contradictions(costs, last_cache_bytes(dict(samples[0].header)))]
    if load.disturbed:
        found += _missing(samples, costs)
    elif _shows_only_the_first_level(samples, costs):
        found.append("a first level of the TLB was found, but not what its misses cost")
    return tuple(found)


def _shows_only_the_first_level(samples: Sequence[Table], costs: Sequence[Cost]) -> bool:
    base = int(samples[0].key("base_page_bytes"))
    shown = {c.quantity for c in costs if c.page_size_bytes == base and c.interval is not None}
    return "dtlb_entries" in shown and not shown & {"stlb_hit_ns", "walk_ns"}


def _missing(samples: Sequence[Table], costs: Sequence[Cost]) -> list[str]:
    base = int(samples[0].key("base_page_bytes"))
    serial = [c for c in costs if c.page_size_bytes == base and c.access == "serial" and c.interval]
    found = []
    if not any(cost.quantity == "stlb_hit_ns" for cost in serial):
        found.append("the cost of an STLB hit is missing")
    if sum(cost.quantity == "walk_ns" for cost in serial) < _FEWEST_WALKS:
        found.append("the cost of page walks over footprints is missing")
    out_of_time = {
        key.rpartition("_")[2]
        for table in samples
        for key, why in table.header.items()
        if (key.startswith("skipped_") and why == "no time was left")
        or (key.startswith("dropped_") and why.endswith("the time limit"))
    }
    if "memory" in out_of_time and all(
        c.pages is not None
        for c in costs
        if (c.quantity == "load_ns" and c.access == "serial" and c.interval is not None)
    ):
        found.append("no time was left to measure loads from memory")
    for cost in costs:
        lost = cost.quantity == "tlb_entry_bytes" and cost.interval is None
        if lost and cost.page_size_bytes and "dense" in out_of_time:
            size = units.size(cost.page_size_bytes)
            found.append(
                f"no time was left to find whether the host backs {size} pages with {size}"
            )
    return found
