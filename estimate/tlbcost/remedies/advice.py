# SPDX-License-Identifier: GPL-2.0-or-later
"""Advice about memory whose page walks cost time: what can be done, and at what cost.

The remedy follows from who allocates the memory. Only remedies that work here are given. Nothing
is changed: each is text to type or to write.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from tlbcost.allocators.recognise import Owner, Program, owner_of, program_of, words_of
from tlbcost.attribution.document import RegionShare
from tlbcost.common.document import Part, doc, part_of
from tlbcost.memory.eligibility import MemoryKind, Reason, Standing, stand
from tlbcost.remedies import anonymous, segments, switches
from tlbcost.remedies.remedy import Remedy, Situation

# What is worth a remedy: that may be this much of the run time, or else of the walks.
_LEAST_GAIN_FRACTION = 0.01
_LEAST_MISSES_FRACTION = 0.05
_COVERED = 0.9
# Memory whose first touches huge pages make fewer.
_FAULTING: tuple[MemoryKind, ...] = ("heap", "anonymous", "jit", "segment", "shared", "tmpfs")


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about regions that the same remedies serve; the simplest remedy first.

    `owner`: who allocated them; None: it is not known, or not asked of such memory. `standing`: of
    the region with the largest gain; None: it was not looked at. `cautions`: what makers of the
    program advise. `none`: why there is no remedy, where there is none.
    """

    regions: tuple[RegionShare, ...]
    program: Program
    owner: Owner | None
    standing: Standing | None
    remedies: tuple[Remedy, ...]
    cautions: tuple[tuple[str, str], ...] = ()
    none: str | None = None

    @property
    def allocated_by(self) -> str | None:
        return None if self.owner is None else words_of(self.owner)


def is_worth_it(region: RegionShare, fault_gain: float = 0.0) -> bool:
    """Whether it is, and not on huge pages yet. `fault_gain`: page faults saved, of the time."""
    backed = region.backed
    if region.kind in ("hugetlbfs", "stack", "unknown") or region.size_bytes is None:
        return False
    if backed is not None:
        # On huge pages already.
        few = backed.resident_bytes * _COVERED
        if "ht" in backed.flags or 0 < few <= backed.huge_bytes:
            return False
    if region.gain_fraction is not None:
        return region.gain_fraction.high + fault_gain >= _LEAST_GAIN_FRACTION
    share = region.time_fraction if region.time_fraction is not None else region.misses_fraction
    return share is not None and share >= _LEAST_MISSES_FRACTION


def advise(regions: Sequence[RegionShare], situation: Situation) -> tuple[Advice, ...]:
    touched = sum(map(_touched, regions))
    worth: list[tuple[float, RegionShare]] = []
    for region in regions:
        part = _touched(region) / touched if touched else 0.0
        fault_gain = (situation.fault_fraction or 0.0) * part
        if is_worth_it(region, fault_gain):
            weight = region.time_fraction or region.misses_fraction or 0.0
            if region.gain_fraction is not None:
                weight = region.gain_fraction.value
            worth.append((weight + fault_gain, region))
    groups: dict[tuple[str, str], list[RegionShare]] = {}
    owners: dict[tuple[str, str], Owner | None] = {}
    for _, region in sorted(worth, key=lambda each: -each[0]):
        program = _program(region, situation)
        owner = owner_of(region.kind, program, region.backed, region.malloc_fraction)
        # Memory of one allocator is served at once, except that of threads' arenas.
        served = f"{region.kind} {region.name} {region.code}"
        if region.kind in ("heap", "anonymous"):
            served = f"{owner} {anonymous.is_arena(region)}"
        key = (region.program, served)
        groups.setdefault(key, []).append(region)
        owners[key] = owner
    return tuple(_advice(tuple(group), owners[key], situation) for key, group in groups.items())


def _touched(region: RegionShare) -> int:
    if region.kind not in _FAULTING:
        return 0
    # Copies of a running program do not see all that it touches: its resident memory is as much.
    resident = 0 if region.backed is None else region.backed.resident_bytes
    return resident if region.touched_bytes is None else region.touched_bytes


def _program(region: RegionShare, situation: Situation) -> Program:
    mapped = situation.mapped.get(region.program, ())
    if not mapped:
        real = os.path.realpath(region.program)
        same = (names for path, names in situation.mapped.items() if os.path.realpath(path) == real)
        mapped = next(same, ())
    return program_of(region.program, mapped)


def _advice(regions: tuple[RegionShare, ...], owner: Owner | None, situation: Situation) -> Advice:
    first = regions[0]
    program = _program(first, situation)
    standing = None
    if first.backed is not None:
        standing = stand(first.kind, first.name, first.backed, situation.settings)
    if first.kind in ("heap", "anonymous", "jit"):
        found = _anonymous(regions, owner, program, standing, situation)
    elif first.kind in ("tmpfs", "memfd", "sysv", "shared"):
        found = [
            *switches.remedies_for(regions, owner, program, situation),
            *segments.shared_remedies_for(first, standing, situation),
        ]
    else:
        found = segments.remedies_for(first, program, standing, situation)
    none = None
    if not found:
        why = standing.words if standing is not None else "no way is known"
        none = f"nothing puts it on huge pages here: {why}"
        if owner is not None:
            none = f"no switch for huge pages is known for memory of {words_of(owner)}"
    return Advice(
        regions,
        program,
        owner,
        standing,
        tuple(found),
        switches.cautions_for(regions, program),
        none,
    )


def _anonymous(
    regions: Sequence[RegionShare],
    owner: Owner | None,
    program: Program,
    standing: Standing | None,
    situation: Situation,
) -> list[Remedy]:
    """What needs no root first; a pool, and what root sets for all programs, last."""
    refused = standing is not None and standing.reason in ("advised_against", "process")
    # The C library drops what the environment asks of a program that gains rights.
    refused |= program.secure
    of_its_malloc: list[Remedy] = []
    if program.malloc is not None and owner == program.malloc.name and not refused:
        of_its_malloc = anonymous.malloc_remedies_for(regions, program.malloc, situation)
    found = [
        *of_its_malloc,
        *switches.remedies_for(regions, owner, program, situation),
        *anonymous.run_thp(regions, standing, situation),
        *anonymous.remedies_for(regions, program, standing, situation),
    ]
    return sorted(found, key=_need)


def _need(remedy: Remedy) -> int:
    """What is simplest to try first; of equals, what was found first."""
    if remedy.form == "command":
        # Another malloc for Python's objects takes time; tlbcost's own way does not.
        return 2 if remedy.pages == "pool" else int(remedy.caution is not None)
    return {"setting": 3, "server": 4, "code": 5, "build": 6}[remedy.form]


class RegionName(Part, frozen=True, kw_only=True):
    """Memory that one advice is about."""

    name: Annotated[str, doc("its path, or what it is called")]
    kind: Annotated[MemoryKind, doc("what kind of memory it is")]
    code: Annotated[bool, doc("it is code")]


class Caution(Part, frozen=True, kw_only=True):
    """What makers of the program advise."""

    words: Annotated[str, doc("the advice")]
    source: Annotated[str, doc("address of the documentation")]


class AdvicePart(Part, frozen=True, kw_only=True):
    """What to do about memory that the same remedies serve."""

    program: Annotated[str, doc("the executable")]
    regions: Annotated[list[RegionName], doc("the memory", minItems=1)]
    allocated_by: Annotated[str | None, doc("who allocated it; null: not known, or not allocated")]
    page_bytes: Annotated[int | None, doc("of the pages that held most of it")]
    thp_eligible: Annotated[bool | None, doc("the kernel may put it on transparent huge pages")]
    reason: Annotated[Reason | None, doc("why it is not on huge pages, or that it is")]
    why_not_huge: Annotated[str | None, doc("the same in words")]
    no_remedy: Annotated[str | None, doc("why there is no remedy, where there is none")]
    cautions: Annotated[list[Caution], doc("what makers of the program advise")]
    remedies: Annotated[tuple[Remedy, ...], doc("the simplest first")]


def advice_part(advice: Advice) -> AdvicePart:
    standing = advice.standing
    return AdvicePart(
        program=advice.regions[0].program,
        regions=[part_of(RegionName, region) for region in advice.regions],
        allocated_by=advice.allocated_by,
        page_bytes=standing.page_bytes if standing else None,
        thp_eligible=standing.eligible if standing else None,
        reason=standing.reason if standing else None,
        why_not_huge=standing.words if standing else None,
        no_remedy=advice.none,
        cautions=[Caution(words=words, source=source) for words, source in advice.cautions],
        remedies=advice.remedies,
    )
