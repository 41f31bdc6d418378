# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost of a load by where its line is, and how long the line stays there.

From a calibration's `load_ns`, `stream_ns` and `l3_half_life_ns`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tlbcost.calibration.records import Access, Calibration, find
from tlbcost.common.interval import Interval

if TYPE_CHECKING:
    from tlbcost.calibration.other_sources import ReportedFigure

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
        _points(calibration, "load_ns", "serial"),
        _points(calibration, "load_ns", "overlapped"),
        _points(calibration, "stream_ns", None),
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


def _points(calibration: Calibration, quantity: str, access: Access | None) -> Points:
    return tuple(
        (cost.pages * UNIT_BYTES, cost.interval)
        for cost in find(calibration, quantity, None, access)
        if cost.pages is not None and cost.interval is not None
    )
