# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost machines --json` write?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from tlbcost.common.document import Part, doc
from tlbcost.machines.list_report import sources
from tlbcost.machines.published_timing import figures_of
from tlbcost.processors.geometry import Level
from tlbcost.processors.published import PublishedCore


class ListedLevel(Part, frozen=True, kw_only=True):
    """One TLB level for one page size; fully associative if ways equals entries."""

    level: Annotated[Level, doc("which TLB")]
    page_size_bytes: Annotated[int, doc("size of the pages that it holds", minimum=1)]
    entries: Annotated[int | None, doc("how many it holds; null: not published")]
    ways: Annotated[int | None, doc("its associativity; null: not published")]
    source: Annotated[str, doc("key of `sources`")]
    verified: Annotated[bool, doc("the figure was checked against its source")]


class CoreFigure(Part, frozen=True, kw_only=True):
    """One figure of the core's timing."""

    value: Annotated[float, doc("the figure, in the unit of its name")]
    source: Annotated[str, doc("key of `sources`")]
    verified: Annotated[bool, doc("the figure was checked against its source")]


class KnownMachine(Part, frozen=True, kw_only=True):
    """Everything published about one core."""

    name: Annotated[str, doc("the core's name for --machine")]
    title: Annotated[str, doc("its full name")]
    aliases: Annotated[tuple[str, ...], doc("other names that --machine takes")]
    walkers: Annotated[int | None, doc("page walks at once; null: not published")]
    notes: Annotated[str | None, doc("other remarks")]
    levels: Annotated[list[ListedLevel], doc("its TLBs, by level and page size")]
    figures: Annotated[dict[str, CoreFigure], doc("its timing")]
    missing_for_times: Annotated[
        tuple[str, ...], doc("what is missing for timing it; empty: nothing")
    ]
    sources: Annotated[dict[str, str], doc("what each source is")]


class MachineList(Part, frozen=True, kw_only=True):
    """The cores of data/machines, with their sources. null: not published."""

    schema: Annotated[
        Literal["tlbcost-machines-1"], doc("form of this document and its version")
    ] = "tlbcost-machines-1"
    machines: Annotated[list[KnownMachine], doc("one for each core")]


def machine_list(cores: Sequence[PublishedCore]) -> MachineList:
    """The document for these cores."""
    return MachineList(machines=[_machine(core) for core in cores])


def _machine(core: PublishedCore) -> KnownMachine:
    known = figures_of(core.core)
    return KnownMachine(
        name=core.core,
        title=core.name,
        aliases=known.aliases,
        walkers=core.walkers,
        notes=core.notes,
        levels=[
            ListedLevel(
                level=name,
                page_size_bytes=size,
                entries=row.entries,
                ways=row.ways,
                source=row.source,
                verified=row.verified,
            )
            for (name, size), row in core.levels.items()
        ],
        figures={
            name: CoreFigure(value=figure.value, source=figure.source, verified=figure.verified)
            for name, figure in known.figures.items()
        },
        missing_for_times=known.missing(),
        sources=sources(core, known),
    )
