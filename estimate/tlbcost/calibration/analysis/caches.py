# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache sizes, load latencies, and the half-life of lines in the last cache."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from tlbcost.calibration.analysis.levels import same_in_halves
from tlbcost.calibration.analysis.samples import Samples
from tlbcost.calibration.analysis.steps import Curve, Step, find_steps
from tlbcost.calibration.loads import UNIT_BYTES
from tlbcost.calibration.records import Access, Cost
from tlbcost.common import bootstrap, units
from tlbcost.common.interval import Interval

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
