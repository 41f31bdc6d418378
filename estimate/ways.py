# SPDX-License-Identifier: GPL-2.0-or-later
"""How many ways does each TLB level have? Pages a power of two apart share few sets."""

from __future__ import annotations

import math

import numpy as np
from tlbcost.levels import AGREEMENT
from tlbcost.records import Interval
from tlbcost.samples import Samples
from tlbcost.steps import find_steps

# Knees that do not move over as many doublings of the spacing are of one set.
_DOUBLINGS = 2


def ways(samples: Samples, level: int, entries: Interval | None) -> tuple[Interval | None, str]:
    """Ways of a level (0, 1) of the base page's TLB; None, and the reason.

    With pages 2, 4, 8, ... apart the level holds half as many each time, until all are in one set
    and their number is the ways; where the index mixes higher bits of the page number in, that
    needs a larger spacing than there are sets. With the entries they must make a power of two of
    sets.
    """
    base = samples.base_bytes
    knees: list[Interval] = []
    for curve in samples.spaced("tlb", base, "strided", "serial").values():
        steps = find_steps(curve)
        step = steps[level] if len(steps) > level else None
        if step is not None:
            knees.append(step.at)
    if entries is None:
        return None, "the entries are not known"
    last = knees[-_DOUBLINGS - 1 :]
    values = [at.value for at in last]
    if len(last) <= _DOUBLINGS or max(values) > (1 + AGREEMENT) * min(values):
        return None, "pages far apart do not settle on one number that the level holds"
    # All but the last line fit that is known to: the next one measured does not.
    exact = len({round(at.low) for at in last}) == 1
    held = last[0].low if exact else float(np.median(values))
    sets = 2 ** round(math.log2(entries.value / held))
    if abs(entries.value / (held * sets) - 1) > AGREEMENT:
        return None, f"{held:.0f} pages fit that are far apart: not what the entries make expect"
    count = round(held if exact else entries.value / sets)
    low, high = min(at.low for at in last), max(at.high for at in last) - 1
    return Interval(count, min(count, low), max(count, high)), ""
