# SPDX-License-Identifier: GPL-2.0-or-later
"""How many ways does each TLB level have, and do stores have entries of their own?"""

from __future__ import annotations

import math

import numpy as np

from tlbcost.calibration.analysis.levels import AGREEMENT, Levels
from tlbcost.calibration.analysis.samples import Samples
from tlbcost.calibration.analysis.steps import Curve, Step, find_steps
from tlbcost.calibration.records import Cost
from tlbcost.common.interval import Interval

# Knees that do not move over as many doublings of the spacing are of one set.
_DOUBLINGS = 2
# A step between two lines is sharp if no more than this share of it lies on either side.
_FLAT = 0.2


def shape(samples: Samples, data: Levels, stores: Levels | None) -> tuple[list[Cost], list[str]]:
    """Ways of the base page's TLBs, and the entries that stores have for themselves.

    As rows of a calibration, and notes on what is missing. `data`, `stores`: what the curves of
    loads and of stores show; None: stores were not measured.
    """
    base = samples.base_bytes
    costs, notes = [], []
    if samples.spaced("tlb", base, "strided", "serial"):
        for i, (name, entries) in enumerate((("dtlb", data.first), ("stlb", data.second))):
            found, reason = ways(samples, i, entries)
            costs.append(Cost(f"{name}_ways", base, interval=found))
            notes += [f"{name}_ways: {reason}"] if reason else []
    if stores is not None:
        own, reason = stores.first, ""
        if stores.miss_from is None:
            reason = "stores show no step: what they miss may be hidden behind the store buffer"
        elif own and data.first and abs(own.value / data.first.value - 1) <= AGREEMENT:
            own, reason = None, "stores miss where loads do, so that they have no TLB of their own"
        costs.append(Cost("dtlb_store_entries", base, interval=own))
        notes += [f"dtlb_store_entries: {reason}"] if reason else []
    return costs, notes


def ways(samples: Samples, level: int, entries: Interval | None) -> tuple[Interval | None, str]:
    """Ways of a level (0, 1) of the base page's TLB; None, and the reason.

    With pages 2, 4, 8, ... apart the level holds half as many each time, until all are in one set
    and their number is the ways; where the index mixes higher bits of the page number in, that
    needs a larger spacing than there are sets. With the entries they must make a power of two of
    sets.
    """
    base = samples.base_bytes
    knees: list[tuple[Interval, int | None]] = []
    for curve in samples.spaced("tlb", base, "strided", "serial").values():
        steps = find_steps(curve)
        step = steps[level] if len(steps) > level else None
        if step is not None:
            knees.append((step.at, _sharp(curve, step)))
    if entries is None:
        return None, "the entries are not known"
    last = knees[-_DOUBLINGS - 1 :]
    values = [at.value for at, _ in last]
    if len(last) <= _DOUBLINGS or max(values) > (1 + AGREEMENT) * min(values):
        return None, "pages far apart do not settle on one number that the level holds"
    exact = {held for _, held in last}
    sharp = exact.pop() if len(exact) == 1 else None
    held = sharp or float(np.median(values))
    sets = 2 ** round(math.log2(entries.value / held))
    if abs(entries.value / (held * sets) - 1) > AGREEMENT:
        return None, f"{held:.0f} pages fit that are far apart: not what the entries make expect"
    if sharp:
        return Interval(sharp, sharp, sharp), ""
    # The slope of a replacement that is not LRU begins below the ways and ends above them.
    count = round(entries.value / sets)
    return Interval(count, min(count, *values), max(count, *values)), ""


def _sharp(curve: Curve, step: Step) -> int | None:
    """The lines that fit if one more misses always; None if the step is a slope."""
    fit = int(np.searchsorted(curve.lines, step.at.value, side="right")) - 1
    lines = curve.lines[fit : fit + 2]
    if len(lines) < 2 or lines[1] != lines[0] + 1:
        return None
    rise = (curve.medians[fit : fit + 2] - step.low_ns) / (step.high_ns - step.low_ns)
    return int(lines[0]) if rise[0] < _FLAT and rise[1] > 1 - _FLAT else None
