# SPDX-License-Identifier: GPL-2.0-or-later
"""Page walks by memory region, code and phase, simulated, and the gain of each region alone.

Functions from the simulator's tables. Misses are counted in the whole run. Their cost is the
modelled core's stall cycles on the translation of this memory, in windows, scaled to all its
misses; where no window saw them, the mean cost of those seen; and without windows the calibrated
costs of hits and walks. Shares are of the sum over all memory, so they add up to one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import get_args

from tlbcost.attribution.backing import Seen, file_kind, with_backed
from tlbcost.attribution.document import (
    AllocationSite,
    Attribution,
    CodeLine,
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
    base_bytes, huge = geometry.base.page_size_bytes, geometry.huge
    images, windows = simulation.attributions, simulation.windows
    sizes, splintered = (base_bytes, huge.page_size_bytes), huge.entry_bytes == base_bytes
    found = attribute(images, costs, expected, *sizes, mounted(), windows, splintered=splintered)
    if found is None or settings is None:
        return found
    return replace(found, regions=with_backed(found.regions, seen, settings))


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
    waited = any(place.modelled_base.waited_cycles for _, place in places)
    priced = _priced(places, costs)
    unknown = sum(place.base.walks for _, place in places if place.kind == "unknown")
    return Attribution(
        regions=_regions(priced, expected, base_bytes, huge_bytes, mounts),
        code=code_lines([line for image in images for line in image.lines]),
        images=tuple(images),
        costed_by="windows" if waited else "prices",
        other_fraction=unknown / total if total else 0.0,
        windows=tuple(windows),
    )


def whole_entries(image: ImageAttribution) -> ImageAttribution:
    regions = []
    for place in image.regions:
        waited = place.modelled_huge.waited_cycles
        modelled = ModelledMisses(place.modelled_base.misses, waited)
        regions.append(replace(place, huge=place.base, modelled_huge=modelled))
    return replace(
        image,
        regions=tuple(regions),
        lines=tuple(replace(line, huge=line.base) for line in image.lines),
        stacks=tuple(replace(stack, huge_walks=stack.base_walks) for stack in image.stacks),
        phases=tuple(replace(phase, huge=phase.base) for phase in image.phases),
    )


def code_lines(lines: Sequence[Line]) -> tuple[CodeLine, ...]:
    base, huge = Counter[SourceLocation](), Counter[SourceLocation]()
    for line in lines:
        base[line.site] += line.base.walks
        huge[line.site] += line.huge.walks
    total = base.total()
    found = [
        CodeLine(site, walks / total if total else 0.0, walks, huge[site])
        for site, walks in base.items()
    ]
    return tuple(sorted(found, key=lambda line: -line.walks))


def _priced(
    places: Sequence[tuple[str, RegionMisses]], costs: tuple[PageCosts, PageCosts]
) -> list[_Priced]:
    base = Scale([place.modelled_base for _, place in places], costs[0])
    huge = Scale([place.modelled_huge for _, place in places], costs[1])
    # One unit for both: if huge pages hardly miss, windows see none of their misses.
    if base.per_price is None or huge.per_price is None:
        huge.per_price = base.per_price
    found = []
    for program, place in places:
        data = base.time(place.base.data, place.modelled_base)
        huge_data = huge.time(place.huge.data, place.modelled_huge)
        fetch = base.time(place.base.fetch, ModelledMisses())
        huge_fetch = huge.time(place.huge.fetch, ModelledMisses())
        found.append(
            _Priced(program, place, data + fetch, huge_data + huge_fetch, data - huge_data)
        )
    return found


class _Sums:
    """Of several places."""

    def __init__(self, priced: Sequence[_Priced]) -> None:
        self.walks = sum(each.place.base.walks for each in priced)
        self.huge_walks = sum(each.place.huge.walks for each in priced)
        self.time = sum(each.base for each in priced)
        self.huge_time = sum(each.huge for each in priced)
        self.saving = sum(each.data_saving for each in priced)
        self.data_walks = sum(each.place.base.data.walks for each in priced)

    def gain(self, whole: _Sums, expected: Interval | None) -> Interval | None:
        """Their part of it: by what their data save, or by walks if nothing is saved."""
        if expected is None:
            return None
        if whole.saving > 0:
            part = self.saving / whole.saving
        else:
            part = self.data_walks / whole.data_walks if whole.data_walks else 0.0
        ends = sorted((expected.low * part, expected.high * part))
        return Interval(expected.value * part, ends[0], ends[1])


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
    total = _Sums(priced)
    found = []
    for (program, kind, name, code), group in groups.items():
        own = _Sums(group)
        touched, touched_huge = _touched([each.place for each in group], base_bytes, huge_bytes)
        found.append(
            RegionShare(
                program=program,
                kind=kind,
                name=name,
                size_bytes=max(sum(each.place.most_bytes for each in group), touched or 0),
                touched_bytes=touched,
                touched_huge_bytes=touched_huge,
                code=code,
                misses_fraction=_share(own.walks, total.walks),
                huge_misses_fraction=_share(own.huge_walks, total.huge_walks),
                time_fraction=_share(own.time, total.time),
                huge_time_fraction=_share(own.huge_time, total.huge_time),
                gain_fraction=own.gain(total, expected),
                sites=_sites(group),
                malloc_fraction=_malloc_fraction(group),
            )
        )
    return tuple(sorted(found, key=lambda region: -(region.time_fraction or 0.0)))


def _touched(
    places: Sequence[RegionMisses], base_bytes: int, huge_bytes: int
) -> tuple[int | None, int | None]:
    """Bytes on base pages, and what they use on huge ones; None: not known of all."""
    touched: int | None = 0
    huge: int | None = 0
    for place in places:
        own = None if place.touched_pages is None else place.touched_pages * base_bytes
        touched = None if touched is None or own is None else touched + own
        pages, most = place.touched_huge_pages, place.most_bytes
        if huge is None or own is None or pages is None:
            huge = None
        else:
            huge += on_huge_bytes(own, pages, most, huge_bytes)
    return touched, huge


def _sites(group: Sequence[_Priced]) -> tuple[AllocationSite, ...]:
    """Where it was allocated, by walks; unknown sites are only in the sum."""
    walks = Counter[SourceLocation]()
    for each in group:
        site = (
            SourceLocation(each.place.name, None, None, None, each.place.variable)
            if each.place.variable is not None
            else allocation_site(each.place.stack)
        )
        if site is not None:
            walks[site] += each.place.base.walks
    total = sum(each.place.base.walks for each in group)
    found = [
        AllocationSite(**asdict(site), misses_fraction=n / total) for site, n in walks.items() if n
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
