# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a calibration to be relied on, and if it is poor, why?

Poor: others took too much of the calibrator's time, its figures contradict each other, or what
every estimate needs is missing though others took some of the time, or though a first level was
found. What is missing on a quiet machine that shows no TLB at all does not make it poor.
"""

from __future__ import annotations

from collections.abc import Sequence

from tlbcost.calibration.consistency import contradictions, last_cache_bytes
from tlbcost.calibration.load import load_of
from tlbcost.calibration.records import Cost
from tlbcost.common import units
from tlbcost.common.table import Table

# Walks at fewer footprints show nothing of how page tables leave the caches.
_FEWEST_WALKS = 2


def poor_because(samples: Sequence[Table], costs: Sequence[Cost]) -> tuple[str, ...]:
    """Why a calibration from these samples is poor, as sentences; empty: it is good."""
    load = load_of(samples)
    found = [*load.reasons, *contradictions(costs, last_cache_bytes(dict(samples[0].header)))]
    if load.disturbed:
        found += _missing(samples, costs)
    elif _shows_only_the_first_level(samples, costs):
        found.append("a first level of the TLB was found, but not what its misses cost")
    return tuple(found)


def _shows_only_the_first_level(samples: Sequence[Table], costs: Sequence[Cost]) -> bool:
    base = int(samples[0].key("base_page_bytes"))
    shown = {c.quantity for c in costs if c.page_size_bytes == base and c.interval is not None}
    return "dtlb_entries" in shown and not shown & {"stlb_hit_ns", "walk_ns"}


def _missing(samples: Sequence[Table], costs: Sequence[Cost]) -> list[str]:
    base = int(samples[0].key("base_page_bytes"))
    serial = [c for c in costs if c.page_size_bytes == base and c.access == "serial" and c.interval]
    found = []
    if not any(cost.quantity == "stlb_hit_ns" for cost in serial):
        found.append("the cost of an STLB hit is missing")
    if sum(cost.quantity == "walk_ns" for cost in serial) < _FEWEST_WALKS:
        found.append("the cost of page walks over footprints is missing")
    out_of_time = {
        key.rpartition("_")[2]
        for table in samples
        for key, why in table.header.items()
        if (key.startswith("skipped_") and why == "no time was left")
        or (key.startswith("dropped_") and why.endswith("the time limit"))
    }
    if "memory" in out_of_time and all(c.pages is not None for c in costs if _is_load(c)):
        found.append("no time was left to measure loads from memory")
    for cost in costs:
        lost = cost.quantity == "tlb_entry_bytes" and cost.interval is None
        if lost and cost.page_size_bytes and "dense" in out_of_time:
            size = units.size(cost.page_size_bytes)
            found.append(
                f"no time was left to find whether the host backs {size} pages with {size}"
            )
    return found


def _is_load(cost: Cost) -> bool:
    return cost.quantity == "load_ns" and cost.access == "serial" and cost.interval is not None
