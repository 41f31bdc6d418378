# SPDX-License-Identifier: GPL-2.0-or-later
"""What is published about the TLBs and the pipeline of each core?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.table import Table, count, read_table
from tlbcost.processors.cpu_models import Processors, processors
from tlbcost.processors.figures import Figure, explanation_of, figures_in, plausible
from tlbcost.processors.geometry import Level, TlbLevel
from tlbcost.system.machine import Machine

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


def record_name(machine: Machine) -> str:
    """The folder in data/samples for records of such a machine: emerald-rapids-guest."""
    core = published(machine)
    name = core.name if core is not None else machine.cpu_name or "unknown"
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").removeprefix("intel-")
    guest = "-guest" if machine.hypervisor else ""
    return f"{words}{guest}"


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
