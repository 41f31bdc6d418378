# SPDX-License-Identifier: GPL-2.0-or-later
"""Over how many regions do walks find their page directory entries in the page-walk caches?"""

from __future__ import annotations

import numpy as np

from tlbcost.calibration.analysis.levels import same_in_halves
from tlbcost.calibration.analysis.samples import Samples
from tlbcost.calibration.analysis.steps import Curve, Step, find_steps, is_steep
from tlbcost.calibration.records import Cost
from tlbcost.common import bootstrap
from tlbcost.common.bootstrap import Floats

# What misses the caches is read off between these multiples of the regions that they hold.
_BEYOND = (1.5, 4.0)


def walk_caches(samples: Samples) -> tuple[list[Cost], str]:
    """The regions that the caches hold and what a miss costs as rows, and why there are none."""
    base = samples.base_bytes
    rows = [
        Cost("walk_cache_regions", base),
        Cost("walk_cache_miss_ns", base),
    ]
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
