# SPDX-License-Identifier: GPL-2.0-or-later
"""Guesses among a published core's figures, and the core if one of them is wrong.

Each guess is tried at one end of its range, the one farther away. The other end is taken to have
the opposite effect in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tlbcost.machines.published_timing import CoreFigures, modelled
from tlbcost.processors.published import Level, PageSizeGeometry, PublishedCore, TlbLevel
from tlbcost.simulator.core import Core

# Levels that data go through: those of code alone hardly matter.
_DATA: tuple[Level, ...] = ("dtlb", "stlb")
OTHERS = "others"
_LINE, _ENTRY = 64, 8
_DIRECTORY_BYTES = 2 << 20


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
        return self.high if self.high - self.value >= self.value - self.low else self.low

    @property
    def opposite(self) -> float:
        """The effect of the other end, as a multiple of that of the tried one."""
        far = abs(self.tried - self.value)
        near = min(self.high - self.value, self.value - self.low)
        return -near / far if far else 0.0


@dataclass(frozen=True, slots=True)
class RandomReads:
    """Random reads of `bytes`; `dependent`: each waits for the one before."""

    words: str
    bytes: int
    dependent: bool


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
        return self.unknowns[0].name if len(self.unknowns) == 1 else OTHERS

    @property
    def opposite(self) -> float:
        """As of the unknowns, for which it is their mean."""
        return sum(each.opposite for each in self.unknowns) / len(self.unknowns)


def unknowns_of(
    core: PublishedCore, known: CoreFigures, sizes: Sequence[int]
) -> tuple[Unknown, ...]:
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
) -> list[tuple[Unknown, dict[RandomReads, float]]]:
    """Changes of the patterns' time on huge pages by each unknown, the most important first."""
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
    if level.ways == level.entries:
        return TlbLevel(round(entries), round(entries))
    sets = max(1, round(entries / level.ways))
    return TlbLevel(sets * level.ways, level.ways)


TYPICAL = (
    RandomReads("reads one after the other in 64 MiB", 64 << 20, dependent=True),
    RandomReads("reads one after the other in 4 GiB", 4 << 30, dependent=True),
    RandomReads("independent reads in 4 GiB", 4 << 30, dependent=False),
)


def ratio(
    value: Mapping[str, float], base: PageSizeGeometry, huge: PageSizeGeometry, pattern: RandomReads
) -> float:
    """Time on huge pages over that on base pages, by a formula that ranks the figures of a core.

    Caches and TLBs hold their share of what is read; data and page tables share the caches.
    """
    return _cycles(value, huge, pattern) / _cycles(value, base, pattern)


def _cycles(value: Mapping[str, float], pages: PageSizeGeometry, pattern: RandomReads) -> float:
    size, footprint = pages.page_size_bytes, pattern.bytes
    tables = max(footprint // size * _ENTRY, _LINE)
    missed = 1 - _held(pages.dtlb, size, footprint)
    walks = 1 - max(_held(pages.stlb, size, footprint), 1 - missed)
    data = _latency(value, footprint, footprint + tables)
    walk = _latency(value, tables, footprint + tables)
    if size < _DIRECTORY_BYTES:
        cached = min(1.0, value["page_directories"] * _DIRECTORY_BYTES / footprint)
        walk += (1 - cached) * value["l2_cycles"]
    looked_up = missed * value["stlb_hit_cycles"]
    if pattern.dependent:
        return data + looked_up + walks * (walk + value.get("walk_latency_cycles", 0))
    lines = 1 + walks
    return (
        max(
            4 / value["width"],
            data / min(value["fill_buffers"], value["reorder_buffer"] / 8),
            lines * value["memory_line_cycles"],
            (looked_up + walks * (walk + value["walk_cycles"])) / value["walkers"],
        )
        + value["l1d_cycles"] / 2
    )


def _held(level: TlbLevel | None, page_bytes: int, footprint: int) -> float:
    return 0.0 if level is None else min(1.0, level.entries * page_bytes / footprint)


def _latency(value: Mapping[str, float], part: int, all_bytes: int) -> float:
    """Mean latency of lines of `part` bytes, where all that is read has `all_bytes`.

    Tables that are small are read more often, line by line, than the data: half of each cache is
    theirs, and more of a last-level cache that keeps what is accessed again.
    """
    own = all_bytes if part > all_bytes // 2 else 2 * part
    kept = own if own == all_bytes else part * (2 - value.get("l3_adaptive", 0) / 100)
    shares = (
        (value["l1d_bytes"] / own, value["l1d_cycles"]),
        (value["l2_bytes"] / own, value["l2_cycles"]),
        (value["l3_bytes"] / kept, value["l3_cycles"]),
        (1.0, value["memory_ns"] * value["ghz"]),
    )
    total = before = 0.0
    for held, cycles in shares:
        share = min(1.0, held)
        total += max(share - before, 0.0) * cycles
        before = max(before, share)
    return total
