# SPDX-License-Identifier: GPL-2.0-or-later
"""Which memory and code walk? The simulator's tables with the costs, or samples; and smaps."""

from __future__ import annotations

from tlbcost.attribution.backed import Seen, backed
from tlbcost.attribution.sampled import Sampled, attribute_samples
from tlbcost.attribution.simulated import Attribution, attribute
from tlbcost.calibration.costs import PageCosts
from tlbcost.common.interval import Interval
from tlbcost.counters.hits import doubts
from tlbcost.processors.geometry import Geometry
from tlbcost.simulator.run import Simulation
from tlbcost.system.filesystems import mounted
from tlbcost.system.huge_pages import HugeSettings


def who_pays(
    simulation: Simulation,
    geometry: Geometry,
    costs: tuple[PageCosts, PageCosts],
    expected: Interval,
    seen: Seen,
    settings: HugeSettings | None,
) -> Attribution | None:
    """None: no process image told. `expected`: the gain that payers share."""
    base, huge = geometry.base, geometry.huge
    attribution = attribute(
        simulation.attributions,
        costs,
        expected,
        base.page_size_bytes,
        huge.page_size_bytes,
        mounted(),
        simulation.windows,
        splintered=huge.entry_bytes == base.page_size_bytes,
    )
    return backed(attribution, seen, settings)


def who_pays_by_samples(
    sampled: Sampled | None,
    expected: Interval,
    seen: Seen,
    settings: HugeSettings | None,
) -> tuple[Attribution | None, tuple[str, ...]]:
    """The same by samples; and notes: why there is none, or what makes it less than exact."""
    if sampled is None or settings is None:
        return None, ()
    found, why_not = attribute_samples(sampled, expected, seen, settings)
    if found is None:
        return None, (f"samples of counters do not tell which memory pays: {why_not}",)
    assert sampled.hits is not None
    return found, tuple(f"samples: {doubt}" for doubt in doubts(sampled.hits))
