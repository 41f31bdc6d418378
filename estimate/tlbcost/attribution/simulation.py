# SPDX-License-Identifier: GPL-2.0-or-later
"""Page walks by memory region, code and phase, simulated, and the gain of each region alone.

Functions from the simulator's tables. Misses are counted in the whole run. Their cost is the
modelled core's stall cycles on the translation of this memory, in windows, scaled to all its
misses; where no window saw them, the mean cost of those seen; and without windows the calibrated
costs of hits and walks. Shares are of the sum over all memory, so they add up to one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from tlbcost.attribution.backing import Seen, backed, file_kind
from tlbcost.attribution.document import (
    AllocationSite,
    Attribution,
    CodeLine,
    CostedBy,
    RegionShare,
    allocation_site,
    is_by_malloc,
    on_huge_bytes,
)
from tlbcost.calibration.records import PageCosts
from tlbcost.common.units import Interval
from tlbcost.memory.eligibility import MemoryKind, name_of
from tlbcost.processors.published import Geometry
from tlbcost.simulator.memory_tables import (
    ImageAttribution,
    ImageWindows,
    Line,
    Misses,
    ModelledMisses,
    RegionMisses,
    SidedMisses,
    SourceLocation,
)
from tlbcost.simulator.run import Simulation
from tlbcost.system.huge_pages import FileSystem, HugeSettings, mounted

# With this number of sampled misses, a region's own cost and the mean of all have equal weight.
_TRUSTED = 64


@dataclass(frozen=True, slots=True)
class _Priced:
    """One place and the time of its translation on each page size, in arbitrary units."""

    program: str
    place: RegionMisses
    base: float
    huge: float
    data_saving: float


def simulated_attribution(
    simulation: Simulation,
    geometry: Geometry,
    costs: tuple[PageCosts, PageCosts],
    expected: Interval,
    seen: Seen,
    settings: HugeSettings | None,
) -> Attribution | None:
    """None: no process image has tables. `expected`: the gain that is divided among regions."""
    base, huge = geometry.base, geometry.huge
    found = attribute(
        simulation.attributions,
        costs,
        expected,
        base.page_size_bytes,
        huge.page_size_bytes,
        mounted(),
        simulation.windows,
        splintered=huge.entry_bytes == base.page_size_bytes,
    )
    return backed(found, seen, settings)


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
    """By memory and code; None without tables. `expected`: the gain, of data, that is divided among
    regions.

    `splintered`: TLB entries hold base pages whatever the kernel maps, so both sizes miss equally.
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
        regions=_regions(priced, expected, base_bytes, huge_bytes, mounts),
        code=code_lines([line for image in images for line in image.lines]),
        images=tuple(images),
        costed_by=costed_by,
        other_fraction=unknown / total if total else 0.0,
        windows=tuple(windows),
    )


def whole_entries(image: ImageAttribution) -> ImageAttribution:
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
    # One unit for both: if huge pages hardly miss, windows see none of their misses.
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


def _regions(
    priced: Sequence[_Priced],
    expected: Interval | None,
    base_bytes: int,
    huge_bytes: int,
    mounts: Sequence[FileSystem],
) -> tuple[RegionShare, ...]:
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
        touched = _touched(places, base_bytes)
        size = sum(place.most_bytes for place in places)
        found.append(
            RegionShare(
                program=program,
                kind=kind,
                name=name,
                size_bytes=max(size, touched or 0),
                touched_bytes=touched,
                touched_huge_bytes=_touched_huge(places, base_bytes, huge_bytes),
                code=code,
                misses_fraction=_share(sum(place.base.walks for place in places), total.walks),
                huge_misses_fraction=_share(
                    sum(place.huge.walks for place in places), total.huge_walks
                ),
                time_fraction=_share(sum(each.base for each in group), total.time),
                huge_time_fraction=_share(sum(each.huge for each in group), total.huge_time),
                gain_fraction=_gain(group, total, expected),
                sites=_sites(group),
                malloc_fraction=_malloc_fraction(group),
            )
        )
    return tuple(sorted(found, key=lambda region: -(region.time_fraction or 0.0)))


def _touched(places: Sequence[RegionMisses], base_bytes: int) -> int | None:
    known = [place.touched_pages for place in places if place.touched_pages is not None]
    return sum(known) * base_bytes if len(known) == len(places) else None


def _touched_huge(places: Sequence[RegionMisses], base_bytes: int, huge_bytes: int) -> int | None:
    found = 0
    for place in places:
        if place.touched_pages is None or place.touched_huge_pages is None:
            return None
        touched = place.touched_pages * base_bytes
        found += on_huge_bytes(touched, place.touched_huge_pages, place.most_bytes, huge_bytes)
    return found


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
    """Its part of the expected gain: by what its data save, or by walks if nothing is saved."""
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
    """Where it was allocated, by walks; unknown sites are only in the sum."""
    walks: dict[SourceLocation, int] = {}
    for each in group:
        site = (
            SourceLocation(each.place.name, None, None, None, each.place.variable)
            if each.place.variable is not None
            else allocation_site(each.place.stack)
        )
        if site is not None:
            walks[site] = walks.get(site, 0) + each.place.base.walks
    total = sum(each.place.base.walks for each in group)
    found = [
        AllocationSite(**dataclasses.asdict(site), misses_fraction=n / total)
        for site, n in walks.items()
        if n
    ]
    return tuple(sorted(found, key=lambda site: -site.misses_fraction))


def _malloc_fraction(group: Sequence[_Priced]) -> float | None:
    known = [(each.place.base.walks, is_by_malloc(each.place.stack)) for each in group]
    whole = sum(walks for walks, by_malloc in known if by_malloc is not None)
    return sum(walks for walks, by_malloc in known if by_malloc) / whole if whole else None


def _kind(place: RegionMisses, mounts: Sequence[FileSystem]) -> MemoryKind:
    if place.kind == "file":
        return file_kind(mounts, place.name or "", place.device)
    known: dict[str, MemoryKind] = {kind: kind for kind in get_args(MemoryKind)}
    return known.get(place.kind, "unknown")


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


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
        price = _price(misses, self._costs)
        if self.per_price is None:
            return price
        if not self._trusted:
            return price * self.per_price
        seen = _price(modelled.misses, self._costs)
        waited = modelled.waited_cycles + self._trusted * self.per_price
        return price * waited / (seen + self._trusted)
