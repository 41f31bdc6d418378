# SPDX-License-Identifier: GPL-2.0-or-later
"""Published figures of each core: its TLBs, its pipeline, and their sources.

A figure that was not checked against its source has a range of plausible values: whoever uses it
has to let it vary (doc/format.md, "machine").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from tlbcost.common import formats, paths
from tlbcost.common.document import doc
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import Table, count, read_table
from tlbcost.system.machine import Machine


@dataclass(frozen=True, slots=True)
class Processors:
    """Processors as /proc/cpuinfo describes them; doc/format.md, "machine", has the notation.

    `family`, `models` and `steppings` are None if they do not matter; `vendor` None: the file is
    not about a particular processor.
    """

    vendor: str | None
    family: int | None
    models: frozenset[int] | None
    steppings: frozenset[int] | None = None

    def include(self, machine: Machine) -> bool:
        """Whether this machine's processor is one of them."""
        vendor, model, stepping = machine.cpu_vendor, machine.cpu_model, machine.cpu_stepping
        # POWER kernels report no vendor; the version is in "revision: 2.2 (pvr 004e 1202)".
        power = re.search(r"\(pvr ([0-9a-f]{4}) ", stepping or "")
        if power:
            vendor, model = "IBM", f"0x{power[1]}"
        return (
            vendor is not None
            and self.vendor is not None
            and self.vendor.lower() == vendor.lower()
            and self.family in (None, _number(machine.cpu_family))
            and (self.models is None or _number(model) in self.models)
            and (self.steppings is None or _number(stepping) in (None, *self.steppings))
        )


def processors(table: Table) -> Processors:
    """The header of a table. Raises ValueError or TlbcostError if it is wrong."""
    family = table.known("cpu_family")
    return Processors(
        vendor=table.known("cpu_vendor"),
        family=None if family is None else int(family, 0),
        models=_numbers(table.key("cpu_models")),
        steppings=_numbers(table.header.get("cpu_steppings", "NA")),
    )


def _number(text: str | None) -> int | None:
    """A decimal or 0x number as the kernel prints it, else None."""
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def _numbers(text: str) -> frozenset[int] | None:
    """Numbers and ranges such as `16-31`, separated by commas; None for NA."""
    return None if text == "NA" else frozenset(_ranges(text))


def _ranges(text: str) -> Iterator[int]:
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        yield from range(int(low, 0), int(high or low, 0) + 1)


_PREFIX = "core_"
_BETWEEN = ".."


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; its unit is in its name. `low` and `high` equal `value` if it is verified."""

    value: float
    source: str
    explanation: str
    verified: bool
    low: float
    high: float


def explanation_of(table: Table, source: str) -> str:
    """What a source is; several that agree are joined by +."""
    return "; ".join(table.key(f"source_{key}") for key in source.split("+"))


def plausible(text: str, value: float, *, verified: bool) -> tuple[float, float]:
    """A range `low..high` around a value. Raises ValueError; verified figures have none."""
    if verified:
        if text not in ("", "NA"):
            raise ValueError(f"a verified figure has no range: {text}")
        return value, value
    low, between, high = text.partition(_BETWEEN)
    if not between or not float(low) <= value <= float(high):
        raise ValueError(f"not a range around {value:g}: {text or 'none'}")
    return float(low), float(high)


def figures_in(table: Table) -> Mapping[str, Figure]:
    """The `core_...` lines of a machine file, without the prefix. Raises ValueError."""
    found = {}
    for key, text in table.header.items():
        name = key.removeprefix(_PREFIX)
        if name == key:
            continue
        try:
            value, source, verified, *between = text.split()
            if verified not in ("yes", "no") or len(between) > 1:
                raise ValueError(verified)
            number, sure = float(value.split(":")[0]), verified == "yes"
            low, high = plausible("".join(between), number, verified=sure)
        except ValueError as error:
            form = "'value source yes' or 'value source no low..high'"
            raise ValueError(f"not {form}: {key}: {text}: {error}") from error
        found[name] = Figure(number, source, explanation_of(table, source), sure, low, high)
    return found


@cache
def assumed() -> Mapping[str, Figure]:
    """Figures that hardly any vendor publishes, as assumed of a core whose file lacks them."""
    return figures_in(read_table(paths.data("assumed.tsv"), formats.MACHINE))


Level = Literal["dtlb", "dtlb_store", "itlb", "stlb"]
SourceKind = Literal["measured", "published", "assumed"]


@dataclass(frozen=True, slots=True)
class TlbLevel:
    """Geometry of one TLB level for one page size; fully associative if ways == entries."""

    entries: Annotated[int, doc("how many it holds", minimum=1)]
    ways: Annotated[int, doc("its associativity; as many as entries: fully", minimum=1)]


@dataclass(frozen=True, slots=True)
class PageSizeGeometry:
    """The TLBs that serve one page size. `None`: that level does not hold this page size.

    `entry_bytes` is what one entry covers where that is less than a page: under a hypervisor that
    backs its guest with smaller pages. Misses are then those of pages of `entry_bytes`.
    """

    page_size_bytes: int
    dtlb: TlbLevel
    itlb: TlbLevel
    stlb: TlbLevel | None
    entry_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LevelSource:
    """The source of a TLB level's figures; `confirmed`: published, and the measurement agrees."""

    kind: SourceKind
    sentence: str
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Geometry:
    """The TLBs to simulate, and for each level where its figures come from.

    `sources` is keyed by the level and its page size in bytes. `stlb_folded`: the set of an STLB
    entry is its page number xored with the number's next higher bits.
    """

    base: PageSizeGeometry
    huge: PageSizeGeometry
    sources: dict[tuple[Level, int], LevelSource] = field(default_factory=dict)
    stlb_folded: bool = False


LEVELS: tuple[Level, ...] = ("dtlb", "dtlb_store", "itlb", "stlb")

# A measured knee and the size that it confirms may differ by this share: the calibrator's
# footprints are some 10 % apart, and other pages (the stack, its own code) use entries too.
AGREEMENT_FRACTION = 0.15


@dataclass(frozen=True, slots=True)
class PublishedLevel:
    """A level for one page size; `None`: not published.

    `low` and `high`: its entries are between these; None as `entries`. `shared`: the arrays that
    its entries are in, where pages of other sizes compete for them. Several: a page may be in any.
    """

    entries: int | None
    ways: int | None
    source: str
    explanation: str
    verified: bool
    low: int | None = None
    high: int | None = None
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How much a core has in flight: instructions per cycle, entries of its buffers.

    `mispredict_cycles`: from a branch's outcome to the right path.
    """

    width: int
    reorder_buffer: int
    store_buffer: int
    mispredict_cycles: int


@dataclass(frozen=True, slots=True)
class PublishedCore:
    """The published TLBs of one core; `levels` is keyed by level and page size in bytes.

    `directories`: entries and ways of the cache of page directories, if known.
    """

    core: str
    name: str
    processors: Processors
    walkers: int | None
    notes: str | None
    levels: dict[tuple[Level, int], PublishedLevel]
    pipeline: Pipeline | None = None
    directories: TlbLevel | None = None
    stlb_folded: bool = False

    def shares(self, level: Level, page_size_bytes: int) -> tuple[int, ...]:
        """The other page sizes that compete for the same entries."""
        own = set(self.levels[level, page_size_bytes].shared)
        return tuple(
            size
            for (name, size), row in self.levels.items()
            if name == level and size != page_size_bytes and own & set(row.shared)
        )

    def lacks(self, level: Level, page_size_bytes: int) -> bool:
        """Whether the level is known not to hold pages of this size."""
        known = any(size == page_size_bytes for _, size in self.levels)
        return known and (level, page_size_bytes) not in self.levels


def read_core(path: Path) -> PublishedCore:
    """Read one machine file. Raises TlbcostError naming the file and the defect."""
    table = read_table(path, formats.MACHINE)
    try:
        figures = figures_in(table)
        walkers = figures.get("walkers")
        return PublishedCore(
            core=path.stem,
            name=table.key("name"),
            processors=processors(table),
            walkers=None if walkers is None else round(walkers.value),
            notes=table.known("notes"),
            levels=_levels(table),
            pipeline=_pipeline(figures),
            directories=_directories(figures),
            stlb_folded=table.header.get("stlb_index") == "folded",
        )
    except ValueError as error:
        raise TlbcostError(f"{path}: {error}") from error


def _levels(table: Table) -> dict[tuple[Level, int], PublishedLevel]:
    found: dict[tuple[Level, int], list[PublishedLevel]] = {}
    for row in table.records():
        level, source = str(row["level"]), str(row["source"])
        size, entries = count(row["page_size_bytes"]), count(row["entries"])
        if level not in LEVELS or size is None or row["verified"] not in ("yes", "no"):
            raise ValueError(f"not a level of a TLB: {row}")
        verified, low, high = row["verified"] == "yes", None, None
        if entries is not None:
            text = str(row["range"] or "")
            low, high = (round(end) for end in plausible(text, entries, verified=verified))
        shared = () if row["shared"] is None else (str(row["shared"]),)
        rows = found.setdefault((level, size), [])
        if any(not other.shared or other.shared == shared for other in rows) or (
            rows and not shared
        ):
            raise ValueError(f"{level} of {size} bytes is there twice")
        explanation, ways = explanation_of(table, source), count(row["ways"])
        rows.append(PublishedLevel(entries, ways, source, explanation, verified, low, high, shared))
    return {key: _together(rows) for key, rows in found.items()}


def _together(rows: list[PublishedLevel]) -> PublishedLevel:
    """Several arrays that may all hold a page, as one."""
    if len(rows) == 1:
        return rows[0]
    sets = {
        row.entries // row.ways if row.entries is not None and row.ways else None for row in rows
    }
    one = sets.pop() if len(sets) == 1 else None
    entries = _sum(row.entries for row in rows)
    sources = dict.fromkeys(key for row in rows for key in row.source.split("+"))
    return PublishedLevel(
        entries,
        entries // one if entries is not None and one else None,
        "+".join(sources),
        "; ".join(dict.fromkeys(row.explanation for row in rows)),
        all(row.verified for row in rows),
        _sum(row.low for row in rows),
        _sum(row.high for row in rows),
        tuple(key for row in rows for key in row.shared),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers]
    return None if None in known else sum(number for number in known if number is not None)


def _pipeline(figures: Mapping[str, Figure]) -> Pipeline | None:
    """The figures of the pipeline; None if any is missing."""
    keys = ("width", "reorder_buffer", "store_buffer", "mispredict_cycles")
    known = [round(figures[key].value) for key in keys if key in figures]
    return Pipeline(*known) if len(known) == len(keys) else None


def _directories(figures: Mapping[str, Figure]) -> TlbLevel | None:
    """The published figure that a calibration lacks too."""
    entries, ways = figures.get("page_directories"), figures.get("page_directory_ways")
    if entries is None or ways is None:
        return None
    return TlbLevel(round(entries.value), round(ways.value))


def cores() -> list[PublishedCore]:
    """All published cores, by name of their file."""
    return [read_core(path) for path in sorted(paths.data("machines").glob("*.tsv"))]


def published(machine: Machine) -> PublishedCore | None:
    """The published TLBs of this machine's core, or None if they are not on file."""
    return next((core for core in cores() if core.processors.include(machine)), None)
