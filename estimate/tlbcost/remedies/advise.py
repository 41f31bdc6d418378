# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be done about the memory that pays for translation, on this system, and at what price?

Only remedies that work here are given. Nothing is changed: each is text to type or to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tlbcost.attribution.payers import Payer
from tlbcost.memory import smaps
from tlbcost.memory.eligibility import Standing, stand
from tlbcost.memory.kinds import Backing
from tlbcost.remedies import malloc, segments, shared, switches
from tlbcost.remedies.program_facts import Facts, facts_of
from tlbcost.remedies.remedy import MALLOC, Remedy, Situation

# What is worth a remedy: that may be this much of the run time, or else of the walks.
_LEAST_GAIN_FRACTION = 0.01
_LEAST_MISSES_FRACTION = 0.05
_COVERED = 0.9


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about payers that the same remedies serve; the simplest remedy first.

    `standing`: of the one that pays most; None: it was not looked at. `cautions`: what makers of
    the program advise. `none`: why there is no remedy, where there is none.
    """

    payers: tuple[Payer, ...]
    facts: Facts
    standing: Standing | None
    remedies: tuple[Remedy, ...]
    cautions: tuple[tuple[str, str], ...] = ()
    none: str | None = None


def pays(payer: Payer) -> bool:
    """Whether huge pages for this memory are worth a remedy, and it is not on them already."""
    backed = payer.backed
    if payer.kind in ("hugetlbfs", "stack", "unknown") or payer.size_bytes is None:
        return False
    if backed is not None and _is_covered(backed):
        return False
    if payer.gain_fraction is not None:
        return payer.gain_fraction.high >= _LEAST_GAIN_FRACTION
    share = payer.time_fraction if payer.time_fraction is not None else payer.misses_fraction
    return share is not None and share >= _LEAST_MISSES_FRACTION


def _is_covered(backed: Backing) -> bool:
    if "ht" in backed.flags:
        return True
    return 0 < backed.resident_bytes * _COVERED <= backed.huge_bytes


def advise(payers: Sequence[Payer], situation: Situation) -> tuple[Advice, ...]:
    """What to do about each payer that pays; those that pay most first."""
    groups: dict[tuple[str, str], list[Payer]] = {}
    for payer in sorted(filter(pays, payers), key=_weight, reverse=True):
        groups.setdefault((payer.program, _group(payer)), []).append(payer)
    return tuple(_advice(tuple(group), situation) for group in groups.values())


def _weight(payer: Payer) -> float:
    if payer.gain_fraction is not None:
        return payer.gain_fraction.value
    return payer.time_fraction or payer.misses_fraction or 0.0


def _group(payer: Payer) -> str:
    """Memory that malloc gives out is served at once, except that of threads' arenas."""
    if payer.kind in MALLOC and payer.name != smaps.ARENA:
        return "malloc"
    return f"{payer.kind} {payer.name} {payer.code}"


def _advice(payers: tuple[Payer, ...], situation: Situation) -> Advice:
    first = payers[0]
    facts = facts_of(first.program, situation.huge_page_bytes)
    standing = None
    if first.backed is not None:
        standing = stand(first.kind, first.name, first.backed, situation.settings)
    found = list(switches.remedies_for(payers, facts, situation))
    if first.kind in MALLOC or first.kind == "jit":
        found += malloc.remedies_for(payers, facts, standing, situation)
    elif first.kind in ("tmpfs", "memfd", "sysv", "shared"):
        found += shared.remedies_for(first, facts, standing, situation)
    else:
        found += segments.remedies_for(first, facts, standing, situation)
    none = None
    if not found:
        why = standing.words if standing is not None else "no way is known"
        none = f"nothing puts it on huge pages here: {why}"
    return Advice(payers, facts, standing, tuple(found), switches.cautions_for(payers, facts), none)
