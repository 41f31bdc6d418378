# SPDX-License-Identifier: GPL-2.0-or-later
"""How long does translation of some memory take? Windows' stall cycles, scaled to all misses."""

from __future__ import annotations

from collections.abc import Sequence

from tlbcost.calibration.costs import PageCosts
from tlbcost.simulator.memory_tables import Misses, ModelledMisses

# With this number of sampled misses, a region's own cost and the mean of all have equal weight.
_TRUSTED = 64


def _price(misses: Misses, costs: PageCosts) -> float:
    """In ns, at the cost of overlapped accesses; the number of walks where none is known."""
    hit, walk = costs.stlb_hit_overlapped_ns, costs.walk_overlapped_ns or costs.walk_serial_ns
    if walk is None or walk.value <= 0:
        return float(misses.walks)
    return misses.hits * (hit.value if hit else 0.0) + misses.walks * walk.value


class Scale:
    """From misses to time: stall cycles in windows per calibrated cost of the misses in them."""

    def __init__(self, modelled: Sequence[ModelledMisses], costs: PageCosts) -> None:
        self._costs = costs
        waited = sum(each.waited_cycles for each in modelled)
        price = sum(_price(each.misses, costs) for each in modelled)
        misses = sum(each.misses.hits + each.misses.walks for each in modelled)
        self.per_price = waited / price if price > 0 and waited else None
        self._trusted = _TRUSTED * price / misses if misses else 0.0

    def time(self, misses: Misses, modelled: ModelledMisses) -> float:
        """The time of all these misses, of which windows saw a part."""
        price = _price(misses, self._costs)
        if self.per_price is None:
            return price
        if not self._trusted:
            return price * self.per_price
        seen = _price(modelled.misses, self._costs)
        waited = modelled.waited_cycles + self._trusted * self.per_price
        return price * waited / (seen + self._trusted)
