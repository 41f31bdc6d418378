# SPDX-License-Identifier: GPL-2.0-or-later
"""How is advice written for programs? A part of an estimate's JSON."""

from __future__ import annotations

from typing import Annotated

from tlbcost.common.document import Part, doc, part_of
from tlbcost.memory.eligibility import Reason
from tlbcost.memory.kinds import MemoryKind
from tlbcost.remedies.advice import Advice
from tlbcost.remedies.remedy import Remedy


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
