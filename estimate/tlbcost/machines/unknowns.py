# SPDX-License-Identifier: GPL-2.0-or-later
"""Published figures of a core besides its TLBs, guesses among them, and the core if one is wrong.

Each guess is tried at one end of its range, the one farther away. The other end is taken to have
the opposite effect in proportion.

The `core_...` lines of data/machines/ (doc/format.md, "machine"), each with its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import read_table
from tlbcost.processors import published
from tlbcost.simulator.core import Core, pipeline_options

_SOURCE = "source_"
_TICKS_PER_CYCLE = 64
# Figures that the overlap model needs.
NEEDED = (
    "walkers", "width", "reorder_buffer", "store_buffer", "mispredict_cycles", "ghz", "l1d_bytes",
    "l1d_ways", "l1d_cycles", "l2_bytes", "l2_ways", "l2_cycles", "l3_bytes", "l3_cycles",
    "memory_ns", "fill_buffers", "l3_line_cycles", "memory_line_cycles", "stlb_hit_cycles",
    "walk_cycles", "page_directories",
)  # fmt: skip
# The simulator's name of a figure that it uses unchanged.
_FIELDS = {
    "l1d_bytes": "l1-bytes", "l1d_ways": "l1-ways", "l1d_cycles": "l1-cycles",
    "l2_bytes": "l2-bytes", "l2_ways": "l2-ways", "l2_cycles": "l2-cycles",
    "l3_bytes": "l3-bytes", "l3_cycles": "l3-cycles", "fill_buffers": "fill-buffers",
    "l3_adaptive": "l3-adaptive", "l3_lifetime": "l3-lifetime", "forward_cycles": "forward",
    "stlb_hit_cycles": "stlb-cycles",
    "page_directories": "directories", "page_directory_ways": "directory-ways",
    "page_pointers": "pointers", "page_roots": "roots", "walk_latency_cycles": "walk-latency",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CoreFigures:
    """What a machine file has besides its rows. `code_stlb`: code has its own second level.

    `sources`: what each of its sources is, by key.
    """

    aliases: tuple[str, ...]
    figures: Mapping[str, published.Figure]
    code_stlb: published.TlbLevel | None
    sources: Mapping[str, str]

    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in NEEDED if name not in self.figures)

    def of_product(self, product: Mapping[str, float]) -> CoreFigures:
        """With these figures of a product, which are known."""
        known = {
            name: published.Figure(value, "product", "the product's", True, value, value)
            for name, value in product.items()
        }
        return replace(self, figures={**self.figures, **known})


def figures_of(core: str) -> CoreFigures:
    """Figures of a core's file, the missing ones assumed if it can be timed then."""
    path = paths.data("machines", f"{core}.tsv")
    table = read_table(path, formats.MACHINE)
    try:
        figures = dict(published.figures_in(table))
        found = figures.pop("code_stlb", None)
        code = None
        if found is not None:
            entries, ways = table.key("core_code_stlb").split()[0].split(":")
            code = published.TlbLevel(int(entries), int(ways))
    except ValueError as error:
        raise TlbcostError(f"{path}: {error}") from error
    aliases = tuple(part for part in table.header.get("aliases", "").split(",") if part)
    sources = {
        key.removeprefix(_SOURCE): text
        for key, text in table.header.items()
        if key.startswith(_SOURCE)
    }
    if all(name in figures or name in published.assumed() for name in NEEDED):
        for name, figure in published.assumed().items():
            if figures.setdefault(name, figure) is figure:
                sources[figure.source] = figure.explanation
    return CoreFigures(aliases, figures, code, sources)


def published_core(known: CoreFigures) -> Core | None:
    """The core to time on, by published figures alone; None if they do not suffice."""
    if known.missing():
        return None
    return modelled({name: figure.value for name, figure in known.figures.items()})


def modelled(value: Mapping[str, float]) -> Core:
    pipeline = published.Pipeline(
        round(value["width"]),
        round(value["reorder_buffer"]),
        round(value["store_buffer"]),
        round(value["mispredict_cycles"]),
    )
    ghz = value["ghz"]
    memory = round(value["memory_ns"] * ghz)
    line = round(value["memory_line_cycles"] * _TICKS_PER_CYCLE)
    fields = {
        **pipeline_options(pipeline),
        **{field: round(value[name]) for name, field in _FIELDS.items() if name in value},
        # Bare metal: a huge page is one piece of memory; Intel's and AMD's L2 fetch lines in pairs.
        "huge-contiguous": 1,
        "pairs": 1,
        # Where a table shows it: random reads of 4 GiB on Tiger Lake, doc/accuracy-machines.md.
        "walks-first": 1,
        "l3-interval": round(value["l3_line_cycles"] * _TICKS_PER_CYCLE),
        "memory-cycles": memory,
        "memory-interval": line,
        # At best as many outstanding lines as there are buffers.
        "memory-apart": max(line, round(memory / value["fill_buffers"] * _TICKS_PER_CYCLE)),
        "walkers": round(value["walkers"]),
        "walk-cycles": round(value["walk_cycles"]),
        "huge-walk-cycles": round(value["walk_cycles"]),
        "read-cycles": 0,
        "huge-read-cycles": 0,
        "host-shift": 0,
    }
    if "row_ns" in value:
        fields["row-cycles"] = round(value["row_ns"] * ghz)
    return Core(tuple(fields.items()))


# Levels that data go through: those of code alone hardly matter.
_DATA: tuple[published.Level, ...] = ("dtlb", "stlb")
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
    level: tuple[published.Level, int] | None = None

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
    geometries: tuple[published.PageSizeGeometry | None, ...]

    @property
    def name(self) -> str:
        return self.unknowns[0].name if len(self.unknowns) == 1 else OTHERS

    @property
    def opposite(self) -> float:
        """As of the unknowns, for which it is their mean."""
        return sum(each.opposite for each in self.unknowns) / len(self.unknowns)


def unknowns_of(
    core: published.PublishedCore, known: CoreFigures, sizes: Sequence[int]
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
    base: published.PageSizeGeometry,
    huge: published.PageSizeGeometry,
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
    geometries: Sequence[published.PageSizeGeometry | None],
    most: int,
) -> tuple[Variant, ...]:
    """One for each of the first `most` unknowns, and one for all others together."""
    groups: list[tuple[Unknown, ...]] = [(each,) for each in unknowns[:most]]
    if unknowns[most:]:
        groups.append(tuple(unknowns[most:]))
    found = []
    for group in groups:
        figures = {each.name: each.tried for each in group if each.level is None}
        changed: list[published.PageSizeGeometry | None] = []
        for pages in geometries:
            made = pages
            for each in group:
                made = None if made is None else _with(made, each)
            changed.append(None if made == pages and not figures else made)
        found.append(Variant(group, modelled({**value, **figures}), tuple(changed)))
    return tuple(found)


def _with(pages: published.PageSizeGeometry, unknown: Unknown) -> published.PageSizeGeometry:
    if unknown.level is None or unknown.level[1] != pages.page_size_bytes:
        return pages
    if unknown.level[0] == "dtlb":
        return replace(pages, dtlb=_sized(pages.dtlb, unknown.tried))
    return pages if pages.stlb is None else replace(pages, stlb=_sized(pages.stlb, unknown.tried))


def _sized(level: published.TlbLevel, entries: float) -> published.TlbLevel:
    if level.ways == level.entries:
        return published.TlbLevel(round(entries), round(entries))
    sets = max(1, round(entries / level.ways))
    return published.TlbLevel(sets * level.ways, level.ways)


TYPICAL = (
    RandomReads("reads one after the other in 64 MiB", 64 << 20, dependent=True),
    RandomReads("reads one after the other in 4 GiB", 4 << 30, dependent=True),
    RandomReads("independent reads in 4 GiB", 4 << 30, dependent=False),
)


def ratio(
    value: Mapping[str, float],
    base: published.PageSizeGeometry,
    huge: published.PageSizeGeometry,
    pattern: RandomReads,
) -> float:
    """Time on huge pages over that on base pages, by a formula that ranks the figures of a core.

    Caches and TLBs hold their share of what is read; data and page tables share the caches.
    """
    return _cycles(value, huge, pattern) / _cycles(value, base, pattern)


def _cycles(
    value: Mapping[str, float], pages: published.PageSizeGeometry, pattern: RandomReads
) -> float:
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


def _held(level: published.TlbLevel | None, page_bytes: int, footprint: int) -> float:
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
