# SPDX-License-Identifier: GPL-2.0-or-later
"""How fast did the core run while it was measured, and always as fast?"""

from __future__ import annotations

import numpy as np

from tlbcost.calibration.analysis.samples import Samples
from tlbcost.calibration.records import Cost
from tlbcost.common import bootstrap

# The clock is steady if the medians of N parts of the run differ by less than this share.
_CLOCK_PARTS = 8
_STEADY = 0.05


def clock(samples: Samples) -> tuple[list[Cost], list[str]]:
    """Cycles per ns, and a note if they changed during the run."""
    times = samples.singles.get(("cycles", None))
    if times is None:
        return [], []
    rates = 1 / times
    row = Cost("cycles_per_ns", interval=bootstrap.median(rates), samples=len(rates))
    parts = [float(np.median(part)) for part in np.array_split(rates, _CLOCK_PARTS) if len(part)]
    low, high = min(parts), max(parts)
    if len(rates) < 3 * _CLOCK_PARTS or high - low <= _STEADY * float(np.median(rates)):
        return [row], []
    return [row], [f"the clock changed while it was measured: {low:.2f} to {high:.2f} cycles/ns"]
