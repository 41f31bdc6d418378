# SPDX-License-Identifier: GPL-2.0-or-later
"""Curves made of the calibrator's timings, and their steps."""

from __future__ import annotations

import math
import re
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tlbcost.common import bootstrap, units
from tlbcost.common.bootstrap import MIN_SAMPLES, Floats, resamples
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import Table, count, number
from tlbcost.common.units import Interval

# Steps are looked for on a scale of ratios, above this: an STLB hit costs 1 ns or more anywhere.
_FLOOR_NS = 0.25
# A step is at least this large, this ratio, and this many standard errors of its neighbours.
LEAST_STEP_NS = 0.5
_LEAST_RATIO = 1.5
_LEAST_ERRORS = 5
# Another step must explain this share of what the fit without it leaves.
_LEAST_GAIN = 0.4
# The entries are what still fits: the footprint where the curve is a third of the way up. Under
# true LRU any point of the step would do; real replacement makes it a slope around the capacity.
_CROSSING = 1 / 3
# As many times as steep as the whole curve.
_STEEP = 2.0
# Replicates of a crossing: more would not move the ends of its interval by as much as a footprint.
_REPLICATES = 100


@dataclass(frozen=True, slots=True)
class Curve:
    """Paired differences, far apart minus packed, in ns.

    `deltas` has one row per sweep and one column per footprint of `lines` (ascending); NaN where
    a sweep did not get to a footprint. `runs` has for each row the run of the calibrator that it
    is from; None: all from one. `packed`, of the same shape, has the time per access of the packed
    chain in ns, NaN where the time was not paired; None: the caller does not need them.
    """

    lines: Floats
    deltas: Floats
    runs: NDArray[np.int64] | None = None
    packed: Floats | None = None

    def interval(self, index: int) -> Interval | None:
        there = ~np.isnan(self.deltas[:, index])
        runs = None if self.runs is None else self.runs[there]
        return bootstrap.median(self.column(index), runs)

    @property
    def medians(self) -> Floats:
        return np.asarray(np.nanmedian(self.deltas, axis=0), dtype=np.float64)

    def column(self, index: int) -> Floats:
        values = self.deltas[:, index]
        return np.asarray(values[~np.isnan(values)], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Step:
    """Where a curve goes from one level to the next: the last footprint of the lower one."""

    at: Interval
    low_ns: float
    high_ns: float


def find_steps(curve: Curve, most: int = 2) -> list[Step | None]:
    curve = Curve(curve.lines, curve.deltas[~np.isnan(curve.deltas).all(axis=1)])
    cuts = _fit(curve, most)
    heights = [float(np.median(curve.medians[a:b])) for a, b in pairwise(cuts)]
    return [
        _step(curve, cuts[i], cuts[i + 2], heights[i], heights[i + 1])
        for i in range(len(heights) - 1)
    ]


def is_steep(curve: Curve, step: Step) -> bool:
    """Does the curve rise at the step much faster than all along, over log(lines)?"""
    after = int(np.searchsorted(curve.lines, step.at.value))
    if not 0 < after < len(curve.lines):
        return False
    logs, values = np.log(curve.lines), curve.medians
    here = (values[after] - values[after - 1]) / (logs[after] - logs[after - 1])
    along = (values[-1] - values[0]) / (logs[-1] - logs[0])
    return bool(here >= _STEEP * along)


def _fit(curve: Curve, most: int) -> list[int]:
    """Cut the curve into levels: the indices at which they begin, and the end."""
    values = curve.medians
    scaled = np.log(np.maximum(values, 0) + _FLOOR_NS)
    n = len(values)
    best, cost = [0, n], float(np.abs(scaled - np.median(scaled)).sum())
    for cuts, total in _segmentations(scaled, most):
        if total <= (1 - _LEAST_GAIN) * cost and _are_steps(curve, cuts):
            best, cost = cuts, total
    return best


def _segmentations(values: Floats, most: int) -> list[tuple[list[int], float]]:
    """The best cuts into two and more levels, with the sum of distances from their medians."""
    n = len(values)
    apart = np.full((n, n + 1), np.inf)
    for length in range(2, n + 1):
        parts = np.lib.stride_tricks.sliding_window_view(values, length)
        distances = np.abs(parts - np.median(parts, axis=1)[:, None]).sum(axis=1)
        # A level has three footprints at least, so that a slope is not taken for one; only the
        # first may have two.
        begins_at = np.arange(len(parts) if length > 2 else 1)
        apart[begins_at, begins_at + length] = distances[begins_at]
    found = []
    # Least cost of the first b values in one level, in two, ...; and where the last one begins.
    least, begins = apart[0], []
    for _ in range(most):
        totals = least[:n, None] + apart
        totals[0] = np.inf
        begins.append(np.argmin(totals, axis=0))
        least = np.min(totals, axis=0)
        if not np.isfinite(least[n]):
            break
        cuts = [n]
        for begin in reversed(begins):
            cuts.append(int(begin[cuts[-1]]))
        found.append(([0, *reversed(cuts)], float(least[n])))
    return found


def _are_steps(curve: Curve, cuts: list[int]) -> bool:
    values = curve.medians
    errors = np.array([_standard_error(curve.column(i)) for i in range(len(values))])
    for (a, b), (_, c) in pairwise(pairwise(cuts)):
        low, high = float(np.median(values[a:b])), float(np.median(values[b:c]))
        noise = max(float(np.median(errors[a:b])), float(np.median(errors[b:c])))
        if high - low < max(LEAST_STEP_NS, _LEAST_ERRORS * noise):
            return False
        if high + _FLOOR_NS < _LEAST_RATIO * (max(low, 0) + _FLOOR_NS):
            return False
    return True


def _standard_error(values: Floats) -> float:
    if len(values) < 2:
        return math.inf
    mad = float(np.median(np.abs(values - np.median(values))))
    return 1.25 * 1.4826 * mad / math.sqrt(len(values))


def _step(curve: Curve, start: int, end: int, low: float, high: float) -> Step | None:
    """Where the curve crosses from one level to the next, with its interval.

    The interval covers the resampled sweeps, and the footprints next to the crossing: between
    them nothing was measured.
    """
    threshold = low + _CROSSING * (high - low)
    lines, deltas = curve.lines[start:end], curve.deltas[:, start:end]
    found = _crossing(lines, curve.medians[start:end], threshold)
    if found is None:
        return None
    value, before, after = found
    with warnings.catch_warnings():
        # A footprint that no sweep of a replicate got to has no median.
        warnings.simplefilter("ignore", RuntimeWarning)
        replicates = np.nanmedian(deltas[resamples(len(deltas))[:_REPLICATES]], axis=1)
    others = [other[0] for row in replicates if (other := _crossing(lines, row, threshold))]
    low_end, high_end = np.percentile(others, [2.5, 97.5]) if others else (value, value)
    at = Interval(value, min(before, float(low_end)), max(after, float(high_end)))
    return Step(at, low, high)


def _crossing(
    lines: Floats, medians: Floats, threshold: float
) -> tuple[float, float, float] | None:
    """Where `medians` go through `threshold` to stay, and the footprints next to it."""
    for i in range(1, len(lines)):
        a, b = float(medians[i - 1]), float(medians[i])
        # One high footprint alone is noise.
        if a < threshold <= b and (i + 1 == len(lines) or medians[i + 1] >= threshold):
            share = (threshold - a) / (b - a)
            value = lines[i - 1] * (lines[i] / lines[i - 1]) ** share
            return float(value), float(lines[i - 1]), float(lines[i])
    return None


# Keys of the header, e.g. limited_2097152_spread, and what they mean.
_LEFT_OUT = {
    "skipped": "were not measured",
    "limited": "were measured in part",
    "dropped": "were measured less often",
    "stopped": "were not measured to the end",
}
_PARTS = {
    "near": "small footprints of {}",
    "middle": "medium footprints of {}",
    "far": "large footprints of {}",
    "large": "footprints of {}",
    "dense": "chains in {}",
    "ways": "ways on {}",
    "regions": "the page-walk caches on {}",
    "stores": "stores on {}",
    "chains": "chains side by side on {}",
    "code": "code on {}",
    "caches": "data caches on {}",
    "loads": "loads on {}",
    "stream": "sequential reads on {}",
    "memory": "loads from memory on {}",
    "residency": "the last-level cache on {}",
    "packed": "packed chains in {}",
    "fault": "page faults on {}",
    "unmap": "unmapping of {}",
}


# By lines and sweep: ns, or the difference to the packed chain; and what that took, NaN if none.
_Times = dict[tuple[int, int], tuple[float, float]]


class Key(NamedTuple):
    """What the timings of one curve have in common; the columns of `samples`."""

    probe: str
    page_size_bytes: int
    layout: str
    access: str
    spacing_bytes: int


@dataclass(frozen=True, slots=True)
class Samples:
    """Everything that one or more invocations of the probe measured, in ns.

    `curves` are over lines; `singles` are the timings without a footprint (`cycles`, `fault`,
    `unmap`) by probe and page size (None: cycles), in the order in which they were taken.
    """

    base_bytes: int
    huge_bytes: int | None
    packed_spacing_bytes: int
    packed_page_bytes: int | None
    region_bytes: int | None
    curves: dict[Key, Curve]
    singles: dict[tuple[str, int | None], Floats]
    notes: tuple[str, ...]
    line_bytes: int | None = None
    # Groups of the calibrator of which nothing could be measured on some page size.
    skipped: frozenset[str] = frozenset()

    def tlb(self, size: int, layout: str, access: str) -> Curve | None:
        """The curve of a layout that has one spacing: `spread` or `dense`."""
        return self.curve("tlb", size, layout, access)

    def curve(self, probe: str, size: int, layout: str, access: str) -> Curve | None:
        """The curve with the smallest spacing; None if that was not measured."""
        found = self.spaced(probe, size, layout, access)
        return found[min(found)] if found else None

    def spaced(self, probe: str, size: int, layout: str, access: str) -> dict[int, Curve]:
        wanted = (probe, size, layout, access)
        return {key[4]: curve for key, curve in sorted(self.curves.items()) if key[:4] == wanted}

    def at_footprints_of(self, other: Samples) -> Samples:
        """The same without the footprints that curves of `other` do not have."""
        curves = {}
        for key, curve in self.curves.items():
            known = other.curves.get(key)
            kept = np.isin(curve.lines, known.lines) if known else np.full(len(curve.lines), True)
            packed = None if curve.packed is None else curve.packed[:, kept]
            curves[key] = Curve(curve.lines[kept], curve.deltas[:, kept], curve.runs, packed)
        return replace(self, curves=curves)

    def page_sizes(self) -> list[int]:
        sizes = {key.page_size_bytes for key in self.curves if key.probe == "tlb"}
        return sorted(sizes | {size for _, size in self.singles if size is not None})


def read_samples(tables: Sequence[Table]) -> Samples:
    """Merge tables from one machine, the first one's. Raises TlbcostError naming the defect."""
    first = tables[0]
    # Difference and packed time by lines and sweep; a sweep of one invocation is not another's.
    times: dict[Key, _Times] = defaultdict(dict)
    singles: dict[tuple[str, int | None], list[float]] = defaultdict(list)
    sweeps: dict[tuple[int, int], int] = {}
    for t, table in enumerate(tables):
        if table.key("base_page_bytes") != first.key("base_page_bytes"):
            raise TlbcostError(f"{table.name}: base pages of another size than {first.name}")
        for line, row in enumerate(table.records(), start=1):
            try:
                lines, repetition = count(row["lines"]), count(row["repetition"])
                size, spacing = count(row["page_size_bytes"]), count(row["spacing_bytes"])
                ns, packed = number(row["ns"]), number(row["packed_ns"])
            except ValueError as error:
                raise TlbcostError(f"{table.name}: row {line}: {error}") from error
            probe, layout, access = row["probe"], row["layout"], row["access"]
            if probe is None or ns is None or repetition is None:
                continue
            if layout is None or access is None:
                singles[probe, size].append(ns)
            elif size is not None and lines is not None and spacing is not None:
                sweep = sweeps.setdefault((t, repetition), len(sweeps))
                key = Key(probe, size, layout, access, spacing)
                pair = (ns, math.nan) if packed is None else (ns - packed, packed)
                times[key][lines, sweep] = pair
    runs = np.array([run for run, _ in sweeps], dtype=np.int64)
    curves = {key: curve for key in times if (curve := _curve(times[key], runs)) is not None}
    return Samples(
        base_bytes=_integer(first, "base_page_bytes"),
        huge_bytes=_known(first, "huge_page_bytes"),
        packed_spacing_bytes=_integer(first, "packed_spacing_bytes"),
        packed_page_bytes=_known(first, "packed_page_bytes"),
        region_bytes=_known(first, "region_bytes"),
        curves=curves,
        singles={key: np.array(values) for key, values in singles.items()},
        line_bytes=_known(first, "line_bytes"),
        skipped=frozenset(
            key.split("_")[-1]
            for table in tables
            for key in table.header
            if key.startswith("skipped_")
        ),
        notes=tuple(dict.fromkeys(note for table in tables for note in _notes(table))),
    )


def _curve(times: _Times, runs: NDArray[np.int64]) -> Curve | None:
    by_lines: dict[int, int] = defaultdict(int)
    for lines, _ in times:
        by_lines[lines] += 1
    footprints = sorted(lines for lines, n in by_lines.items() if n >= MIN_SAMPLES)
    if not footprints:
        return None
    rows = {sweep: i for i, sweep in enumerate(sorted({sweep for _, sweep in times}))}
    columns = {lines: i for i, lines in enumerate(footprints)}
    pairs = np.full((len(rows), len(columns), 2), np.nan)
    for (lines, sweep), pair in times.items():
        if lines in columns:
            pairs[rows[sweep], columns[lines]] = pair
    deltas, packed = pairs[:, :, 0], pairs[:, :, 1]
    there = ~np.isnan(deltas).all(axis=1)
    of_rows = runs[np.array(list(rows))]
    lines_of = np.array(footprints, dtype=np.float64)
    return Curve(lines_of, deltas[there], of_rows[there], packed[there])


def _integer(samples: Table, key: str) -> int:
    text = samples.key(key)
    if not text.isdigit() or int(text) == 0:
        raise TlbcostError(f"{samples.name}: {key} is not a positive number: {text}")
    return int(text)


def _known(samples: Table, key: str) -> int | None:
    """As _integer(), or None if the header says NA or nothing."""
    return None if samples.header.get(key, "NA") == "NA" else _integer(samples, key)


def _notes(samples: Table) -> list[str]:
    said = [(key.split("_"), value) for key, value in samples.header.items()]
    notes = [
        _note(what, where, value)
        for (what, *where), value in said
        if what in _LEFT_OUT and not _is_size(what, where)
    ]
    if "moved_cpu_briefly" in samples.header:
        notes.append("the CPU went away for a while: what was measured in between is left out")
    # Page sizes not available for one reason, which names each one's file, share a note.
    sizes: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for (what, *where), value in said:
        if _is_size(what, where):
            sizes[re.sub(r"\d+", "", value)].append((int(where[0]), value))
    for same in sizes.values():
        names = ", ".join(units.size(size) for size, _ in sorted(same))
        others = "; and so for the other sizes" if len(same) > 1 else ""
        notes.append(f"{names} pages were not measured: {min(same)[1]}{others}")
    return notes


def _is_size(what: str, where: list[str]) -> bool:
    return what == "skipped" and len(where) == 1 and where[0].isdigit()


def _note(what: str, where: list[str], value: str) -> str:
    size = f"{units.size(int(where[0]))} pages" if where[0].isdigit() else f"{where[0]} pages"
    subject = _PARTS.get(where[-1], "{}").format(size)
    reason, _, cause = value.partition(": ")
    if what == "dropped":
        reason += " left out"
    return f"{subject} {_LEFT_OUT[what]}: {reason}" + (f" ({cause})" if cause else "")
