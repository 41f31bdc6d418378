# SPDX-License-Identifier: GPL-2.0-or-later
"""Which memory, which code and which phase pays for translation, and what would each give alone?

Pure functions from the simulator's tables. Misses are counted in the whole run. What they cost is
the cycles that the modelled core waited for the translation of this memory, in windows, scaled to
all of its misses; where no window saw them, the mean of what did; and without windows the
calibrated prices of hits and walks. Shares are of the sum over all memory, so that none is left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from tlbcost.attribution.payers import AllocationSite, Payer, on_huge_bytes
from tlbcost.attribution.sites import allocation_site
from tlbcost.attribution.stall_time import Scale
from tlbcost.calibration.costs import PageCosts
from tlbcost.common.document import doc
from tlbcost.common.interval import Interval
from tlbcost.memory.kinds import MemoryKind, name_of
from tlbcost.simulator.memory_tables import (
    ImageAttribution,
    Line,
    ModelledMisses,
    RegionMisses,
    SidedMisses,
    SourceLocation,
)
from tlbcost.simulator.windows import ImageWindows
from tlbcost.system.filesystems import FileSystem, holding

CostedBy = Literal["windows", "prices"]
SIMULATION = "simulation"

_FILES: Mapping[str, MemoryKind] = {"tmpfs": "tmpfs", "hugetlbfs": "hugetlbfs"}


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code and its share of all walks on base pages.

    `walks`, `huge_walks`: how many it makes on each page size, of data and of fetches; None: not
    told. `samples`: that the others are estimated from; None: they are simulated.
    """

    site: Annotated[SourceLocation, doc("where it is")]
    walks_fraction: Annotated[float | None, doc("of all page walks", minimum=0, maximum=1)]
    walks: Annotated[int, doc("of samples: the misses that they stand for", minimum=0)]
    huge_walks: Annotated[int | None, doc("page walks on huge pages", minimum=0)]
    samples: Annotated[int | None, doc("null: it was simulated", minimum=0)] = None


@dataclass(frozen=True, slots=True)
class Attribution:
    """Walks by memory and code. `costed_by`: what times rest on; None: there are none.

    `windows`: what was modelled of the images. `other_fraction`: the share of the walks that no
    memory is known for; that is a Payer as well. `source`: what told of the misses.
    """

    payers: tuple[Payer, ...]
    code: tuple[CodeLine, ...]
    images: tuple[ImageAttribution, ...]
    costed_by: CostedBy | None
    other_fraction: float
    windows: tuple[ImageWindows, ...] = ()
    source: str = SIMULATION


@dataclass(frozen=True, slots=True)
class _Priced:
    """One place and what its translation takes on each page size, in units of their own."""

    program: str
    place: RegionMisses
    base: float
    huge: float
    data_saving: float


def attribute(
    images: Sequence[ImageAttribution],
    costs: tuple[PageCosts, PageCosts],
    expected: Interval | None,
    base_bytes: int,
    huge_bytes: int,
    mounts: Sequence[FileSystem],
    windows: Sequence[ImageWindows] = (),
    *,
    splintered: bool,
) -> Attribution | None:
    """By memory and code; None without tables. `expected`: the gain that payers share, of data.

    `splintered`: TLB entries hold base pages whatever the kernel maps, so that both sizes miss
    alike.
    """
    images = [whole_entries(image) for image in images] if splintered else list(images)
    places = [
        (image.executable or image.program, place) for image in images for place in image.regions
    ]
    total = sum(place.base.walks for _, place in places)
    if not places:
        return None
    costed_by: CostedBy = (
        "windows" if any(place.modelled_base.waited_cycles for _, place in places) else "prices"
    )
    priced = _priced(places, costs)
    unknown = sum(place.base.walks for _, place in places if place.kind == "unknown")
    return Attribution(
        payers=_payers(priced, expected, base_bytes, huge_bytes, mounts),
        code=code_lines([line for image in images for line in image.lines]),
        images=tuple(images),
        costed_by=costed_by,
        other_fraction=unknown / total if total else 0.0,
        windows=tuple(windows),
    )


def whole_entries(image: ImageAttribution) -> ImageAttribution:
    """The image where huge pages miss as base pages do."""
    return dataclasses.replace(
        image,
        regions=tuple(
            dataclasses.replace(
                place,
                huge=place.base,
                modelled_huge=ModelledMisses(
                    place.modelled_base.misses, place.modelled_huge.waited_cycles
                ),
            )
            for place in image.regions
        ),
        lines=tuple(dataclasses.replace(line, huge=line.base) for line in image.lines),
        stacks=tuple(dataclasses.replace(s, huge_walks=s.base_walks) for s in image.stacks),
        phases=tuple(dataclasses.replace(phase, huge=phase.base) for phase in image.phases),
    )


def code_lines(lines: Sequence[Line]) -> tuple[CodeLine, ...]:
    """Instructions of one line together; most walks first."""
    sums: dict[SourceLocation, tuple[SidedMisses, SidedMisses]] = {}
    for line in lines:
        base, huge = sums.get(line.site, (SidedMisses(), SidedMisses()))
        sums[line.site] = (base + line.base, huge + line.huge)
    total = sum(base.walks for base, _ in sums.values())
    found = [
        CodeLine(site, base.walks / total if total else 0.0, base.walks, huge.walks)
        for site, (base, huge) in sums.items()
    ]
    return tuple(sorted(found, key=lambda line: -line.walks))


def _priced(
    places: Sequence[tuple[str, RegionMisses]], costs: tuple[PageCosts, PageCosts]
) -> list[_Priced]:
    base_cost, huge_cost = costs
    base = Scale([place.modelled_base for _, place in places], base_cost)
    huge = Scale([place.modelled_huge for _, place in places], huge_cost)
    # One unit for both. Where huge pages miss next to never, windows see none of it.
    huge.per_price = huge.per_price if base.per_price is not None else None
    if huge.per_price is None:
        huge.per_price = base.per_price
    found = []
    for program, place in places:
        data = (
            base.time(place.base.data, place.modelled_base),
            huge.time(place.huge.data, place.modelled_huge),
        )
        fetch = (
            base.time(place.base.fetch, ModelledMisses()),
            huge.time(place.huge.fetch, ModelledMisses()),
        )
        found.append(
            _Priced(program, place, data[0] + fetch[0], data[1] + fetch[1], data[0] - data[1])
        )
    return found


def _payers(
    priced: Sequence[_Priced],
    expected: Interval | None,
    base_bytes: int,
    huge_bytes: int,
    mounts: Sequence[FileSystem],
) -> tuple[Payer, ...]:
    groups: dict[tuple[str, MemoryKind, str, bool], list[_Priced]] = {}
    for each in priced:
        kind = _kind(each.place, mounts)
        name = each.place.name or name_of(kind)
        groups.setdefault((each.program, kind, name, each.place.code), []).append(each)
    total = _Totals(
        sum(each.place.base.walks for each in priced),
        sum(each.place.huge.walks for each in priced),
        sum(each.base for each in priced),
        sum(each.huge for each in priced),
        sum(each.data_saving for each in priced),
        sum(_data_walks(each) for each in priced),
    )
    found = []
    for (program, kind, name, code), group in groups.items():
        places = [each.place for each in group]
        touched = sum(place.touched_pages for place in places) * base_bytes
        found.append(
            Payer(
                program=program,
                kind=kind,
                name=name,
                size_bytes=max(sum(place.most_bytes for place in places), touched),
                touched_bytes=touched,
                touched_huge_bytes=sum(
                    on_huge_bytes(
                        place.touched_pages * base_bytes,
                        place.touched_huge_pages,
                        place.most_bytes,
                        huge_bytes,
                    )
                    for place in places
                ),
                code=code,
                misses_fraction=_share(sum(place.base.walks for place in places), total.walks),
                huge_misses_fraction=_share(
                    sum(place.huge.walks for place in places), total.huge_walks
                ),
                time_fraction=_share(sum(each.base for each in group), total.time),
                huge_time_fraction=_share(sum(each.huge for each in group), total.huge_time),
                gain_fraction=_gain(group, total, expected),
                sites=_sites(group),
            )
        )
    return tuple(sorted(found, key=lambda payer: -(payer.time_fraction or 0.0)))


@dataclass(frozen=True, slots=True)
class _Totals:
    walks: int
    huge_walks: int
    time: float
    huge_time: float
    saving: float
    data_walks: int


def _data_walks(each: _Priced) -> int:
    return each.place.base.data.walks


def _gain(group: Sequence[_Priced], total: _Totals, expected: Interval | None) -> Interval | None:
    """Its part of the expected gain: by what its data save, or where all save nothing, by walks."""
    if expected is None:
        return None
    if total.saving > 0:
        part = sum(each.data_saving for each in group) / total.saving
    elif total.data_walks:
        part = sum(_data_walks(each) for each in group) / total.data_walks
    else:
        part = 0.0
    ends = sorted((expected.low * part, expected.high * part))
    return Interval(expected.value * part, ends[0], ends[1])


def _sites(group: Sequence[_Priced]) -> tuple[AllocationSite, ...]:
    """Where it was allocated, by walks; what is not told is in the sum alone."""
    walks: dict[SourceLocation, int] = {}
    for each in group:
        site = _site(each.place)
        if site is not None:
            walks[site] = walks.get(site, 0) + each.place.base.walks
    total = sum(each.place.base.walks for each in group)
    found = [
        AllocationSite(**dataclasses.asdict(site), misses_fraction=n / total)
        for site, n in walks.items()
        if n
    ]
    return tuple(sorted(found, key=lambda site: -site.misses_fraction))


def _site(place: RegionMisses) -> SourceLocation | None:
    if place.variable is not None:
        return SourceLocation(place.name, None, None, None, place.variable)
    return allocation_site(place.stack)


def file_kind(
    mounts: Sequence[FileSystem], name: str, device: tuple[int, int] | None = None
) -> MemoryKind:
    """The kind of a mapped file, by the file system that it is on."""
    mount = holding(mounts, name, device)
    return _FILES.get(mount.kind, "file") if mount is not None else "file"


def _kind(place: RegionMisses, mounts: Sequence[FileSystem]) -> MemoryKind:
    """What the simulator says; of files, by the file system that they are on."""
    if place.kind == "file":
        return file_kind(mounts, place.name or "", place.device)
    known: dict[str, MemoryKind] = {kind: kind for kind in get_args(MemoryKind)}
    return known.get(place.kind, "unknown")


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
