# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be done on this system about memory whose page walks cost time, and at what cost?

Only remedies that work here are given. Nothing is changed: each is text to type or to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tlbcost.attribution.shares import RegionShare
from tlbcost.memory import smaps
from tlbcost.memory.eligibility import Standing, stand
from tlbcost.memory.kinds import Backing
from tlbcost.remedies import malloc, segments, shared_memory, switches
from tlbcost.remedies.program_facts import Facts, facts_of
from tlbcost.remedies.remedy import MALLOC, Remedy
from tlbcost.remedies.situation import Situation

# What is worth a remedy: that may be this much of the run time, or else of the walks.
_LEAST_GAIN_FRACTION = 0.01
_LEAST_MISSES_FRACTION = 0.05
_COVERED = 0.9


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about regions that the same remedies serve; the simplest remedy first.

    `standing`: of the region with the largest gain; None: it was not looked at. `cautions`: what
    makers of the program advise. `none`: why there is no remedy, where there is none.
    """

    regions: tuple[RegionShare, ...]
    facts: Facts
    standing: Standing | None
    remedies: tuple[Remedy, ...]
    cautions: tuple[tuple[str, str], ...] = ()
    none: str | None = None


def is_worth_it(region: RegionShare) -> bool:
    """Whether huge pages for this memory are worth a remedy, and it is not on them already."""
    backed = region.backed
    if region.kind in ("hugetlbfs", "stack", "unknown") or region.size_bytes is None:
        return False
    if backed is not None and _is_covered(backed):
        return False
    if region.gain_fraction is not None:
        return region.gain_fraction.high >= _LEAST_GAIN_FRACTION
    share = region.time_fraction if region.time_fraction is not None else region.misses_fraction
    return share is not None and share >= _LEAST_MISSES_FRACTION


def _is_covered(backed: Backing) -> bool:
    if "ht" in backed.flags:
        return True
    return 0 < backed.resident_bytes * _COVERED <= backed.huge_bytes


def advise(regions: Sequence[RegionShare], situation: Situation) -> tuple[Advice, ...]:
    """What to do about each region that is worth it; those with the largest gain first."""
    groups: dict[tuple[str, str], list[RegionShare]] = {}
    for region in sorted(filter(is_worth_it, regions), key=_weight, reverse=True):
        groups.setdefault((region.program, _group(region)), []).append(region)
    return tuple(_advice(tuple(group), situation) for group in groups.values())


def _weight(region: RegionShare) -> float:
    if region.gain_fraction is not None:
        return region.gain_fraction.value
    return region.time_fraction or region.misses_fraction or 0.0


def _group(region: RegionShare) -> str:
    """Memory that malloc gives out is served at once, except that of threads' arenas."""
    if region.kind in MALLOC and region.name != smaps.ARENA:
        return "malloc"
    return f"{region.kind} {region.name} {region.code}"


def _advice(regions: tuple[RegionShare, ...], situation: Situation) -> Advice:
    first = regions[0]
    facts = facts_of(first.program, situation.huge_page_bytes)
    standing = None
    if first.backed is not None:
        standing = stand(first.kind, first.name, first.backed, situation.settings)
    found = list(switches.remedies_for(regions, facts, situation))
    if first.kind in MALLOC or first.kind == "jit":
        found += malloc.remedies_for(regions, facts, standing, situation)
    elif first.kind in ("tmpfs", "memfd", "sysv", "shared"):
        found += shared_memory.remedies_for(first, standing, situation)
    else:
        found += segments.remedies_for(first, facts, standing, situation)
    none = None
    if not found:
        why = standing.words if standing is not None else "no way is known"
        none = f"nothing puts it on huge pages here: {why}"
    return Advice(
        regions, facts, standing, tuple(found), switches.cautions_for(regions, facts), none
    )
