# SPDX-License-Identifier: GPL-2.0-or-later
"""Areas of a process's memory, their pages, and whether they exceed the TLB's reach.

What is compared are sizes: a rough guess, no estimate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from tlbcost.common.document import amount, doc
from tlbcost.memory.eligibility import MemoryKind, Reason, Standing, backing_of, kind_of, stand
from tlbcost.memory.smaps import Mapping
from tlbcost.memory.waste import Waste
from tlbcost.processors.published import Geometry, PageSizeGeometry, SourceKind
from tlbcost.system.huge_pages import HugeSettings


@dataclass(frozen=True, slots=True)
class TlbReach:
    """What the last level of the TLB that holds a page size covers."""

    page_size_bytes: Annotated[int, amount("size of the pages")]
    entries: Annotated[int, amount("entries of the level")]
    entry_bytes: Annotated[
        int, amount("of one entry; less than a page under a hypervisor that splinters it")
    ]
    reach_bytes: Annotated[int, amount("memory that is accessed without a page walk")]
    source_kind: Annotated[SourceKind | None, doc("where `entries` is from")]
    source: Annotated[str | None, doc("the same, in words")]


Reaches = tuple[TlbReach, TlbReach]  # on base and on huge pages


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """The mappings of one name and kind in one process, together."""

    name: Annotated[str, doc("the path, or [heap], [stack], [bss], anonymous memory")]
    kind: Annotated[MemoryKind, doc("kind of memory")]
    mappings: Annotated[int, doc("how many there are", minimum=1)]
    start: Annotated[
        int,
        amount(
            "start and end: of the mapping with most on base pages, which page_bytes, eligible, "
            "reason and words are about"
        ),
    ]
    end: Annotated[int, amount("see start")]
    size_bytes: Annotated[int, amount("of address space")]
    resident_bytes: Annotated[int, amount("in memory, on pages of any size")]
    huge_bytes: Annotated[int, amount("of these, on huge pages")]
    touched_bytes: Annotated[
        int | None, amount("on pages used in watched_s; null: not watched, or not known")
    ]
    zero_bytes: Annotated[
        int | None,
        amount(
            "of huge_bytes, base pages that hold nothing but zeros; null: not looked at, or not "
            "transparent"
        ),
    ] = None
    underused_bytes: Annotated[
        int | None,
        amount(
            "of these, in huge pages that have more of them than max_ptes_none: what the kernel's "
            "shrinker of underused huge pages may take back"
        ),
    ] = None
    eligible_bytes: Annotated[
        int, amount("of what is on base pages, what may be on transparent huge pages")
    ]
    page_bytes: Annotated[
        int | None, doc("size of the pages that hold most of it; null: not known, or none")
    ]
    eligible: Annotated[
        bool | None, doc("whether the kernel may put it on transparent huge pages, as things are")
    ]
    reason: Annotated[Reason, doc("why it is not on huge pages, or that it is")]
    words: Annotated[str, doc("the reason in words")]
    reach_ratio: Annotated[
        float,
        amount(
            "how many times the TLB the memory would take: what was touched, else what is there"
        ),
    ]
    exceeds_reach: Annotated[bool, doc("whether that is more than once")]

    @property
    def used_bytes(self) -> int:
        """What is known to be used: what was touched, else all that is there."""
        return self.resident_bytes if self.touched_bytes is None else self.touched_bytes


def reaches_of(geometry: Geometry) -> Reaches:
    return _reach(geometry, geometry.base), _reach(geometry, geometry.huge)


def _reach(geometry: Geometry, sizes: PageSizeGeometry) -> TlbReach:
    level = sizes.stlb or sizes.dtlb
    source = geometry.sources.get(("stlb" if sizes.stlb else "dtlb", sizes.page_size_bytes))
    entry = sizes.entry_bytes or sizes.page_size_bytes
    return TlbReach(
        sizes.page_size_bytes,
        level.entries,
        entry,
        level.entries * entry,
        source.kind if source else None,
        source.sentence if source else None,
    )


def areas_of(
    mappings: Iterable[Mapping],
    settings: HugeSettings,
    reaches: Reaches,
    *,
    disabled: bool = False,
    watched: bool = False,
    waste: dict[int, Waste] | None = None,
) -> tuple[Area, ...]:
    """Mappings of one name and kind together; most on base pages first.

    `disabled`: the process has transparent huge pages off. `watched`: its pages were marked unused
    and watched. `waste`: of waste_of().
    """
    groups: dict[tuple[MemoryKind, str], list[Mapping]] = {}
    for mapping in mappings:
        kind = kind_of(mapping, settings)
        if kind != "unknown":
            groups.setdefault((kind, mapping.name), []).append(mapping)
    areas = []
    for (kind, name), group in groups.items():
        standings = [stand(kind, name, backing_of(m), settings, disabled=disabled) for m in group]
        areas.append(_area(kind, group, standings, reaches, waste, watched=watched))
    return tuple(sorted(areas, key=lambda area: (area.huge_bytes - area.resident_bytes, area.name)))


def _area(
    kind: MemoryKind,
    group: list[Mapping],
    standings: list[Standing],
    reaches: Reaches,
    waste: dict[int, Waste] | None,
    *,
    watched: bool,
) -> Area:
    pairs = list(zip(group, standings, strict=True))
    first, standing = max(
        pairs,
        key=lambda pair: (
            pair[1].reason not in ("huge", "hugetlb", "empty"),
            pair[0].resident_bytes - pair[0].huge_bytes,
            pair[0].end,
        ),
    )
    resident = sum(each.resident_bytes for each in group)
    huge = sum(each.huge_bytes for each in group)
    # The kernel does not say which hugetlb pages were used.
    known = watched and kind != "hugetlbfs" and all(m.referenced_bytes is not None for m in group)
    touched = sum(each.referenced_bytes or 0 for each in group) if known else None
    looked = waste is not None and kind != "hugetlbfs"
    wasted = [waste[m.start] for m in group if m.start in waste] if waste and looked else []
    fraction = 1.0 if kind == "hugetlbfs" else huge / resident if resident else 0.0
    ratio = reach_ratio(resident if touched is None else touched, fraction, reaches)
    return Area(
        name=first.name,
        kind=kind,
        mappings=len(group),
        start=first.start,
        end=first.end,
        size_bytes=sum(each.size_bytes for each in group),
        resident_bytes=resident,
        huge_bytes=huge,
        touched_bytes=touched,
        zero_bytes=sum(each.zero_bytes for each in wasted) if looked else None,
        underused_bytes=sum(each.underused_bytes for each in wasted) if looked else None,
        eligible_bytes=sum(m.resident_bytes - m.huge_bytes for m, s in pairs if s.eligible),
        page_bytes=standing.page_bytes,
        eligible=standing.eligible,
        reason=standing.reason,
        words=standing.words,
        reach_ratio=ratio,
        exceeds_reach=ratio > 1,
    )


def reach_ratio(used_bytes: int, huge_fraction: float, reaches: Reaches) -> float:
    """How many times the TLB it takes to hold pages of which this share is huge."""
    base, huge = reaches
    return used_bytes * (huge_fraction / huge.reach_bytes + (1 - huge_fraction) / base.reach_bytes)
