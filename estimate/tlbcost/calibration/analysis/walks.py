# SPDX-License-Identifier: GPL-2.0-or-later
"""Costs of STLB hits and page walks by footprint, page-walk caches, cache sizes, load latencies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tlbcost.calibration.analysis.levels import Levels, same_in_halves
from tlbcost.calibration.analysis.samples import Curve, Samples, Step, find_steps, is_steep
from tlbcost.calibration.consistency import UNIT_BYTES
from tlbcost.calibration.records import CHAINS, Access, Cost
from tlbcost.common import bootstrap, units
from tlbcost.common.bootstrap import Floats
from tlbcost.common.units import Interval

# Chains in larger pages that cost more than this share of a base page's walk show that the TLB
# holds base pages; below the lower share, or with an STLB hit's cost, that it holds larger ones.
_SPLINTERED = 0.3
_WHOLE = 0.1
# An STLB hit's cost, give or take noise.
_LIKE_A_HIT = 1.5
# What misses the caches is read off between these multiples of the regions that they hold.
_BEYOND = (1.5, 4.0)


@dataclass(frozen=True, slots=True)
class Reference:
    """What the packed chains themselves pay for translation.

    They are close together, but many lines need many pages all the same: if the TLB holds base
    pages, a packed chain of more than 2000 lines starts to miss it.
    """

    spacing_bytes: int
    entry_bytes: int
    levels: Levels
    walks: Curve | None

    def paid_ns(self, lines: float, hit_ns: float) -> float:
        """Translation time per access of a packed chain of that many lines, in random order."""
        pages = lines * self.spacing_bytes / self.entry_bytes
        miss_from, last, first = self.levels.miss_from, self.levels.last, self.levels.walk_from()
        if miss_from is None or pages <= miss_from:
            return 0.0
        paid = (1 - miss_from / pages) * hit_ns
        if last is None or first is None or self.walks is None or pages <= last:
            return paid
        walk = float(
            np.interp(np.log(max(pages, first)), np.log(self.walks.lines), self.walks.medians)
        )
        return paid + (1 - last / pages) * max(walk - hit_ns, 0.0)


def entry_bytes(samples: Samples, size: int, levels: Levels, hit: Hit | None) -> int | None:
    """What one TLB entry covers when memory is in pages of `size`; None: not shown by the samples.

    Under a hypervisor that backs its guest with base pages it is a base page, whatever the guest
    maps. Judged at a footprint that overflows the TLBs in base pages but not in pages of `size`.
    """
    base = samples.base_bytes
    dense, spread = samples.tlb(size, "dense", "serial"), samples.tlb(base, "spread", "serial")
    first = levels.walk_from()
    if dense is None or spread is None or first is None or levels.last is None:
        return None
    beyond = np.flatnonzero(
        (dense.lines >= first) & (dense.lines * base / size <= 0.6 * levels.last)
    )
    if len(beyond) == 0:
        return None
    at = int(beyond[0])
    ns = float(dense.medians[at])
    share = ns / float(np.interp(np.log(dense.lines[at]), np.log(spread.lines), spread.medians))
    if share <= _WHOLE or (hit is not None and ns <= _LIKE_A_HIT * hit.interval.value):
        return size
    return base if share >= _SPLINTERED else None


@dataclass(frozen=True, slots=True)
class Hit:
    interval: Interval
    pages: int
    samples: int


def find_hit(curve: Curve | None, access: str, levels: Levels) -> Hit | None:
    between = levels.hit_range()
    if curve is None or between is None or levels.miss_from is None:
        return None
    inside = (curve.lines >= between[0]) & (curve.lines <= between[1])
    if not inside.any():
        return None
    lines, deltas = curve.lines[inside], curve.deltas[:, inside]
    there = ~np.isnan(deltas).all(axis=1)
    deltas, runs = deltas[there], None if curve.runs is None else curve.runs[there]
    if access == "overlapped":
        # A ring beyond the first level misses it always, random updates only where they do not
        # fit: charge the time to those.
        deltas = deltas / (1 - levels.miss_from / lines)
    interval = bootstrap.median(np.asarray(np.nanmedian(deltas, axis=1)), runs)
    if interval is None:
        return None
    middle = round(float(np.sqrt(lines[0] * lines[-1])))
    return Hit(interval, middle, int(np.count_nonzero(~np.isnan(deltas))))


def hit_cost(quantity: str, size: int, access: Access, hit: Hit | None) -> Cost:
    if hit is None:
        return Cost(quantity, size, access)
    return Cost(quantity, size, access, hit.pages, hit.interval, hit.samples)


def walk_costs(
    quantity: str,
    curve: Curve | None,
    size: int,
    access: Access,
    levels: Levels,
    hit: Hit | None,
    reference: Reference,
) -> list[Cost]:
    first, last = levels.walk_from(), levels.last
    nothing = Cost(quantity, size, access)
    if curve is None or first is None or last is None:
        return [nothing]
    hit_ns = hit.interval.value if hit else 0.0
    costs = []
    for i, lines in enumerate(curve.lines):
        interval = curve.interval(i) if lines >= first else None
        if interval is None:
            continue
        # What the packed chain paid is missing from the difference.
        paid = reference.paid_ns(float(lines), hit_ns)
        # A ring misses on every access; of random updates the share that fits still hits.
        hits = last / lines if access == "overlapped" else 0.0
        scaled = [(v + paid - hits * hit_ns) / (1 - hits)
                  for v in (interval.value, interval.low, interval.high)]  # fmt: skip
        costs.append(
            Cost(quantity, size, access, int(lines), Interval(*scaled), len(curve.column(i)))
        )
    return costs or [nothing]


def walk_intervals(curve: Curve | None, size: int, levels: Levels) -> list[Cost]:
    """Time from one walk to the next where independent accesses keep all walkers busy.

    As rows of a calibration, in ns, at each footprint of an overlapped curve that overflows the
    TLBs. Walks and not loads are the limit there, so that they are charged the whole time of the
    accesses that walk, and not what these take longer than packed ones.
    """
    first, last = levels.walk_from(), levels.last
    nothing = Cost("walk_interval_ns", size)
    if curve is None or curve.packed is None or first is None or last is None:
        return [nothing]
    costs = []
    for i, lines in enumerate(curve.lines):
        if lines < first:
            continue
        hits = last / lines
        # Those that hit take what packed ones take: (ns - hits * packed) / (1 - hits).
        times = curve.deltas[:, i] / (1 - hits) + curve.packed[:, i]
        there = ~np.isnan(times)
        runs = None if curve.runs is None else curve.runs[there]
        interval = bootstrap.median(times[there], runs)
        if interval is not None:
            n = int(np.count_nonzero(there))
            costs.append(Cost("walk_interval_ns", size, None, int(lines), interval, n))
    return costs or [nothing]


def walks_side_by_side(samples: Samples, serial: list[Cost]) -> list[Cost]:
    """Cost of a walk when independent chains walk at the same time, and how many do at once.

    `serial` are the walk_ns of the base page. The chains are compared with the serial one at the
    same footprint, so that what their packed chains pay is in both.
    """
    base = samples.base_bytes
    alone = samples.tlb(base, "spread", "serial")
    walks: list[Cost] = []
    most: dict[int, Cost] = {}
    for access in CHAINS:
        curve = samples.tlb(base, "spread", access)
        for cost in serial:
            one, other = _times_at(alone, cost.pages), _times_at(curve, cost.pages)
            at_once, each = bootstrap.ratio(one, other), bootstrap.median(other)
            if cost.interval is None or cost.pages is None or at_once is None or each is None:
                continue
            scale = cost.interval.value / float(np.median(one))
            walks.append(Cost("walk_ns", base, access, cost.pages, each.scaled(scale), len(other)))
            best = most.get(cost.pages)
            if not best or not best.interval or best.interval.value < at_once.value:
                most[cost.pages] = Cost(
                    "walks_at_once", base, None, cost.pages, at_once, len(other)
                )
    return [*walks, *most.values()]


def _times_at(curve: Curve | None, lines: int | None) -> Floats:
    if curve is None or lines not in curve.lines:
        return np.array([])
    return curve.column(int(np.flatnonzero(curve.lines == lines)[0]))


def walk_caches(samples: Samples) -> tuple[list[Cost], str]:
    """The regions that the caches hold and what a miss costs as rows, and why there are none."""
    base = samples.base_bytes
    rows = [Cost("walk_cache_regions", base), Cost("walk_cache_miss_ns", base)]
    curve = _over_regions(samples)
    if curve is None:
        return [], ""
    steps = _first(curve)
    if not steps:
        return rows, "walks cost about the same over all numbers of regions"
    step = steps[0]
    if not is_steep(curve, step):
        return rows, "walks grow slower little by little over the regions, without a step"
    verdict = same_in_halves(curve, step, _first)
    if verdict.entries is None:
        return rows, verdict.reason
    rows[0] = Cost("walk_cache_regions", base, interval=verdict.entries, samples=len(curve.deltas))
    low, high = (factor * step.at.value for factor in _BEYOND)
    beyond = (curve.lines >= low) & (curve.lines <= high)
    if not beyond.any():
        return (
            rows,
            "no number of regions is far enough beyond the caches to show what a miss costs",
        )
    times: Floats = np.asarray(np.nanmedian(curve.deltas[:, beyond], axis=1)) - step.low_ns
    rows[1] = Cost("walk_cache_miss_ns", base, interval=bootstrap.median(times), samples=len(times))
    return rows, ""


def _first(curve: Curve) -> list[Step]:
    return [step for step in find_steps(curve, most=1) if step]


def _over_regions(samples: Samples) -> Curve | None:
    """Extra time of a walk over regions, against the fewest; its `lines` are regions."""
    spaced = samples.spaced("tlb", samples.base_bytes, "regions", "serial")
    if samples.region_bytes is None or len(spaced) < 2:
        return None
    rows = max(len(curve.deltas) for curve in spaced.values())
    deltas = np.full((rows, len(spaced)), np.nan)
    regions = []
    for i, (spacing, curve) in enumerate(spaced.items()):
        # Always as many lines; if not, the largest number of them.
        deltas[: len(curve.deltas), i] = curve.deltas[:, -1]
        regions.append(curve.lines[-1] * spacing / samples.region_bytes)
    return Curve(np.array(regions), deltas - np.nanmedian(deltas[:, 0]))


_NAMES = ("l1d", "l2", "l3")
# A latency is read off where nearly all lines are in the level: from this multiple of the smaller
# level's size to this share of its own.
_FROM, _TO = 2.0, 0.5
# Over the footprints it is read off, latency may differ by this share from its median.
_FLAT = 0.15
_FEWEST = 3
# A third level is this many times as large as the second one, or more.
_AT_LEAST = 8
# Beyond a second level there is a third one or memory: the one takes less, the other more.
_L3_AT_MOST_NS, _MEMORY_AT_LEAST_NS = 45.0, 90.0
# The calibrator's ladders, in lines: a footprint that it could not measure has a row too.
LOADS = (256, 2048, 8192, 65536, 262144, 1048576, 4194304)
STREAM = (262144, 4194304)
MEMORY = (131072,)
RESIDENCY = (65536,)
# Nearer lines come so fast that the loop itself, not the core's loads at once, is the limit.
_OVERLAPPED_FROM = 65536
_GROUPS = frozenset({"loads", "stream", "memory", "residency"})


def caches(samples: Samples) -> tuple[list[Cost], list[str]]:
    """Sizes and latencies of the levels as rows of a calibration, and notes on what is missing.

    Sizes come from chains through all lines; latencies from those through every third, of which a
    prefetcher fetches none with its neighbour.
    """
    each, third = _chains(samples, "each"), _chains(samples, "third")
    if each is None or third is None:
        return [], []
    line, curve = each
    notes = []
    rows = [Cost(f"{name}_bytes") for name in _NAMES]
    found = _ends(curve)
    if len(found) < len(_NAMES):
        most = units.size(int(curve.lines[-1]) * line)
        notes.append(f"{rows[len(found)].quantity}: no end is seen up to {most}")
    for i, step in enumerate(found):
        verdict = same_in_halves(curve, step, _ends)
        if verdict.entries is None:
            notes.append(f"{rows[i].quantity}: {verdict.reason}")
        else:
            size = verdict.entries.scaled(line)
            rows[i] = replace(rows[i], interval=size, samples=len(curve.deltas))
    borders = [0.0, *(step.at.value for step in _ends(third[1])), np.inf]
    ends = len(borders) - 2
    for i, name in enumerate([*_NAMES, "memory"]):
        latency, used, why = None, 0, None
        if i < ends:
            latency, used, why = _latency(third[1], borders[i], borders[i + 1])
        elif name == _beyond(third[1], borders[ends], ends):
            # Where a third level ends was not seen: so far it reaches anywhere.
            last = np.inf if name == "memory" else _AT_LEAST * borders[ends]
            latency, used, why = _latency(third[1], borders[ends], last)
        if why:
            notes.append(f"{name}_ns: {why}")
        rows.append(Cost(f"{name}_ns", interval=latency, samples=used))
    if ends < len(_NAMES) and rows[-1].interval is None:
        largest = units.size(int(third[1].lines[-1]) * third[0])
        notes.append(f"memory_ns: {largest} do not distinguish it from the caches' latency")
    return rows, notes


def _ends(curve: Curve) -> list[Step]:
    """The ends of the levels that a curve shows; also one that is small next to the others."""
    steps = [step for step in find_steps(curve, most=len(_NAMES)) if step]
    for low, high in pairwise([0.0, *(step.at.value for step in steps), np.inf]):
        inside = (curve.lines >= _FROM * low) & (curve.lines <= _TO * high)
        if len(steps) < len(_NAMES) and np.count_nonzero(inside) >= _FEWEST:
            part = Curve(curve.lines[inside], curve.deltas[:, inside])
            steps += [step for step in find_steps(part, most=1) if step]
    return sorted(steps, key=lambda step: step.at.value)


def _chains(samples: Samples, layout: str) -> tuple[int, Curve] | None:
    """Bytes from line to line, and the curve."""
    for key, curve in samples.curves.items():
        if key.probe == "cache" and key.layout == layout:
            return key.spacing_bytes, curve
    return None


def _beyond(third: Curve, end: float, levels: int) -> str | None:
    """What is beyond the last level that was found; None: the samples do not show it."""
    if levels == len(_NAMES):
        return "memory"
    if levels != len(_NAMES) - 1:
        return None
    ns = third.medians[third.lines >= _FROM * end]
    if len(ns) == 0:
        return None
    if np.median(ns) <= _L3_AT_MOST_NS:
        return _NAMES[-1]
    return "memory" if np.median(ns) >= _MEMORY_AT_LEAST_NS else None


def _latency(third: Curve, low: float, high: float) -> tuple[Interval | None, int, str | None]:
    inside = (third.lines >= _FROM * low) & (third.lines <= _TO * high)
    if np.count_nonzero(inside) < _FEWEST:
        return None, 0, "too few footprints are far enough from the ends of the level"
    medians = third.medians[inside]
    middle = float(np.median(medians))
    if np.abs(np.percentile(medians, [10, 90]) - middle).max() > _FLAT * middle:
        return None, 0, "it is not the same over the footprints that should be in it"
    times = third.deltas[:, inside]
    times = times[~np.isnan(times).all(axis=1)]
    sweeps = np.asarray(np.nanmedian(times, axis=1))
    return bootstrap.median(sweeps), int(np.count_nonzero(~np.isnan(times))), None


def load_rows(samples: Samples) -> list[Cost]:
    """`load_ns`, `stream_ns`, `l3_half_life_ns` as rows of a calibration; none if not asked for."""
    probes = {key.probe for key in samples.curves}
    if not probes & {"load", "stream"} and not samples.skipped & _GROUPS:
        return []
    far = tuple(lines for lines in LOADS if lines >= _OVERLAPPED_FROM)
    return [
        *_footprint_rows(samples, ("load", "serial"), "load_ns", "serial", LOADS),
        *_footprint_rows(samples, ("load", "independent"), "load_ns", "overlapped", far),
        # From memory, however many lines it was measured over.
        *(
            replace(row, pages=None)
            for row in _footprint_rows(samples, ("load", "flushed"), "load_ns", "serial", MEMORY)
        ),
        *_footprint_rows(samples, ("stream", "sequential"), "stream_ns", None, STREAM),
        *_footprint_rows(samples, ("residency", "serial"), "l3_half_life_ns", None, RESIDENCY),
    ]


def _footprint_rows(
    samples: Samples,
    kind: tuple[str, str],
    quantity: str,
    access: Access | None,
    footprints: tuple[int, ...],
) -> list[Cost]:
    """A row for each footprint (in lines), obtained or not. `kind`: probe and access."""
    per_line = (samples.line_bytes or UNIT_BYTES) / UNIT_BYTES
    # Reads in order are reported per 64 bytes, however long a line is.
    share = per_line if quantity == "stream_ns" else 1.0
    found: dict[int, tuple[Interval | None, int]] = {}
    for key, curve in samples.curves.items():
        if (key.probe, key.access) == kind:
            for i, lines in enumerate(curve.lines):
                found[int(lines)] = curve.interval(i), len(curve.column(i))
    rows = []
    for lines in footprints:
        interval, n = found.get(lines, (None, 0))
        if interval is not None:
            interval = interval.scaled(1 / share)
        rows.append(Cost(quantity, None, access, round(lines * per_line), interval, n))
    return rows
