# SPDX-License-Identifier: GPL-2.0-or-later
"""How many ways does each TLB level have? Pages a power of two apart share few sets."""

from __future__ import annotations

from itertools import pairwise

from tlbcost.levels import AGREEMENT
from tlbcost.records import Interval
from tlbcost.samples import Samples
from tlbcost.steps import find_steps

# Knees that do not move over as many doublings of the spacing are of one set.
_DOUBLINGS = 2


def ways(samples: Samples, level: int, entries: Interval | None) -> tuple[Interval | None, str]:
    """Ways of a level (0, 1) of the base page's TLB; None, and the reason.

    With pages 2, 4, 8, ... apart the level holds half as many each time, until all are in one set
    and their number is the ways. That must fit the entries: as many sets as pages of spacing.
    """
    base = samples.base_bytes
    knees: list[tuple[int, Interval]] = []
    for spacing, curve in samples.spaced("tlb", base, "strided", "serial").items():
        steps = find_steps(curve)
        step = steps[level] if len(steps) > level else None
        if step is not None:
            knees.append((spacing // base, step.at))
    if entries is None:
        return None, "the entries are not known"
    for i in range(len(knees) - _DOUBLINGS):
        run = knees[i : i + _DOUBLINGS + 1]
        # All but the last line fit that is known to: the next one measured does not.
        counts = {round(at.low) for _, at in run}
        if len(counts) > 1 or any(b != 2 * a for (a, _), (b, _) in pairwise(run)):
            continue
        count, sets = counts.pop(), run[0][0]
        if abs(entries.value / (count * sets) - 1) <= AGREEMENT:
            return Interval(count, count, max(count, min(at.high for _, at in run) - 1)), ""
        return None, f"{count} pages fit that are {sets} apart: not what the entries make expect"
    return None, "the level does not hold fewer and fewer pages the farther they are apart"
