# SPDX-License-Identifier: GPL-2.0-or-later
"""What is published about the TLBs and the pipeline of each core?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.table import Table, count, read_table
from tlbcost.processors.cpu_models import Processors, processors
from tlbcost.processors.geometry import Level, TlbLevel
from tlbcost.system.machine import Machine

LEVELS: tuple[Level, ...] = ("dtlb", "dtlb_store", "itlb", "stlb")

# A measured knee and the size that it confirms may differ by this share: the calibrator's
# footprints are some 10 % apart, and other pages (the stack, its own code) use entries too.
AGREEMENT_FRACTION = 0.15


@dataclass(frozen=True, slots=True)
class PublishedLevel:
    """One row of a machine file; `None`: not published."""

    entries: int | None
    ways: int | None
    source: str
    explanation: str
    verified: bool


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

    def lacks(self, level: Level, page_size_bytes: int) -> bool:
        """Whether the level is known not to hold pages of this size."""
        known = any(size == page_size_bytes for _, size in self.levels)
        return known and (level, page_size_bytes) not in self.levels


def read_core(path: Path) -> PublishedCore:
    """Read one machine file. Raises TlbcostError naming the file and the defect."""
    table = read_table(path, formats.MACHINE)
    levels: dict[tuple[Level, int], PublishedLevel] = {}
    try:
        for row in table.records():
            level, source = str(row["level"]), str(row["source"])
            size = count(row["page_size_bytes"])
            if level not in LEVELS or size is None or row["verified"] not in ("yes", "no"):
                raise ValueError(f"not a level of a TLB: {row}")
            key = level, size
            if key in levels:
                raise ValueError(f"{level} of {size} bytes is there twice")
            levels[key] = PublishedLevel(
                entries=count(row["entries"]),
                ways=count(row["ways"]),
                source=source,
                explanation=table.key(f"source_{source}"),
                verified=row["verified"] == "yes",
            )
        return PublishedCore(
            core=path.stem,
            name=table.key("name"),
            processors=processors(table),
            walkers=count(table.known("walkers")),
            notes=table.known("notes"),
            levels=levels,
            pipeline=_pipeline(table),
            directories=_directories(table),
            stlb_folded=table.header.get("stlb_index") == "folded",
        )
    except ValueError as error:
        raise TlbcostError(f"{path}: {error}") from error


def record_name(machine: Machine) -> str:
    """The folder in data/samples for records of such a machine: emerald-rapids-guest."""
    core = published(machine)
    name = core.name if core is not None else machine.cpu_name or "unknown"
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").removeprefix("intel-")
    guest = "-guest" if machine.hypervisor else ""
    return f"{words}{guest}"


def _pipeline(table: Table) -> Pipeline | None:
    """The header's figures of the pipeline; None if any is missing."""
    keys = ("width", "reorder_buffer", "store_buffer", "mispredict_cycles")
    found = [count(table.known(key) if key in table.header else None) for key in keys]
    known = [number for number in found if number is not None]
    return Pipeline(*known) if len(known) == len(keys) else None


def _directories(table: Table) -> TlbLevel | None:
    """The published figure that a calibration lacks too."""
    found = [
        table.header.get(f"core_page_{name}", "").split()
        for name in ("directories", "directory_ways")
    ]
    if not all(found):
        return None
    entries, ways = (int(words[0]) for words in found)
    return TlbLevel(entries, ways)


def cores() -> list[PublishedCore]:
    """All published cores, by name of their file."""
    return [read_core(path) for path in sorted(paths.data("machines").glob("*.tsv"))]


def published(machine: Machine) -> PublishedCore | None:
    """The published TLBs of this machine's core, or None if they are not on file."""
    return next((core for core in cores() if core.processors.include(machine)), None)
