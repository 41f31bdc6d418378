# SPDX-License-Identifier: GPL-2.0-or-later
"""Which figures of a published core are guesses, and what is the core if one of them is wrong?

Each guess is tried at one end of its range, the one farther away. The other end is taken to have
the opposite effect in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tlbcost.machines.patterns import TYPICAL, Pattern, ratio
from tlbcost.machines.published_timing import CoreFigures, modelled
from tlbcost.processors.geometry import Level, PageSizeGeometry, TlbLevel
from tlbcost.processors.published import PublishedCore
from tlbcost.simulator.core import Core

# Levels that data go through: those of code alone hardly matter.
_DATA: tuple[Level, ...] = ("dtlb", "stlb")
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A guess and its plausible values. `level`: entries of a TLB level, for a page size."""

    name: str
    value: float
    low: float
    high: float
    level: tuple[Level, int] | None = None

    @property
    def tried(self) -> float:
        """The end that is farther away."""
        return self.high if self.high - self.value >= self.value - self.low else self.low

    @property
    def opposite(self) -> float:
        """The effect of the other end, as a multiple of that of the tried one."""
        far = abs(self.tried - self.value)
        near = min(self.high - self.value, self.value - self.low)
        return -near / far if far else 0.0


@dataclass(frozen=True, slots=True)
class Variant:
    """A machine with some guesses at the ends of their ranges.

    `geometries`: of each page size of the machine; None: as it is, or not known.
    """

    unknowns: tuple[Unknown, ...]
    core: Core
    geometries: tuple[PageSizeGeometry | None, ...]

    @property
    def name(self) -> str:
        """The figure's, or that it is several."""
        return self.unknowns[0].name if len(self.unknowns) == 1 else OTHERS

    @property
    def opposite(self) -> float:
        """As of the unknowns, for which it is their mean."""
        return sum(each.opposite for each in self.unknowns) / len(self.unknowns)


def unknowns_of(
    core: PublishedCore, known: CoreFigures, sizes: Sequence[int]
) -> tuple[Unknown, ...]:
    """All guesses that these page sizes depend on."""
    figures = [
        Unknown(name, figure.value, figure.low, figure.high)
        for name, figure in known.figures.items()
        if figure.low < figure.high
    ]
    levels = [
        Unknown(f"{level}_entries_{size}", row.entries, row.low, row.high, (level, size))
        for (level, size), row in core.levels.items()
        if level in _DATA and size in sizes and row.entries is not None
        if row.low is not None and row.high is not None and row.low < row.high
    ]
    return (*figures, *levels)


def ranked(
    unknowns: Sequence[Unknown],
    value: Mapping[str, float],
    base: PageSizeGeometry,
    huge: PageSizeGeometry,
) -> list[tuple[Unknown, dict[Pattern, float]]]:
    """By how much each changes the time of typical patterns on huge pages, relative to base pages;
    the most important first.
    """
    before = {pattern: ratio(value, base, huge, pattern) for pattern in TYPICAL}
    found = []
    for each in unknowns:
        with_it = {**value, each.name: each.tried} if each.level is None else value
        low, high = (_with(pages, each) for pages in (base, huge))
        effect = {
            pattern: abs(ratio(with_it, low, high, pattern) - before[pattern])
            for pattern in TYPICAL
        }
        found.append((each, effect))
    return sorted(found, key=lambda pair: -max(pair[1].values()))


def variants(
    unknowns: Sequence[Unknown],
    value: Mapping[str, float],
    geometries: Sequence[PageSizeGeometry | None],
    most: int,
) -> tuple[Variant, ...]:
    """One for each of the first `most` unknowns, and one for all others together."""
    groups: list[tuple[Unknown, ...]] = [(each,) for each in unknowns[:most]]
    if unknowns[most:]:
        groups.append(tuple(unknowns[most:]))
    return tuple(_variant(group, value, geometries) for group in groups)


def _variant(
    group: tuple[Unknown, ...],
    value: Mapping[str, float],
    geometries: Sequence[PageSizeGeometry | None],
) -> Variant:
    figures = {each.name: each.tried for each in group if each.level is None}
    changed: list[PageSizeGeometry | None] = []
    for pages in geometries:
        made = pages
        for each in group:
            made = None if made is None else _with(made, each)
        changed.append(None if made == pages and not figures else made)
    return Variant(group, modelled({**value, **figures}), tuple(changed))


def _with(pages: PageSizeGeometry, unknown: Unknown) -> PageSizeGeometry:
    if unknown.level is None or unknown.level[1] != pages.page_size_bytes:
        return pages
    if unknown.level[0] == "dtlb":
        return replace(pages, dtlb=_sized(pages.dtlb, unknown.tried))
    return pages if pages.stlb is None else replace(pages, stlb=_sized(pages.stlb, unknown.tried))


def _sized(level: TlbLevel, entries: float) -> TlbLevel:
    """About as many entries, in whole sets."""
    if level.ways == level.entries:
        return TlbLevel(round(entries), round(entries))
    sets = max(1, round(entries / level.ways))
    return TlbLevel(sets * level.ways, level.ways)
