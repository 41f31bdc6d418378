# SPDX-License-Identifier: GPL-2.0-or-later
"""The document of `tlbcost machines --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from tlbcost.common.document import Part, doc
from tlbcost.machines.list_report import ranking
from tlbcost.machines.published_timing import figures_of
from tlbcost.machines.unknowns import TYPICAL
from tlbcost.processors.published import Level, PublishedCore


class ListedLevel(Part, frozen=True, kw_only=True):
    """One TLB level for one page size; fully associative if ways equals entries."""

    level: Annotated[Level, doc("which TLB")]
    page_size_bytes: Annotated[int, doc("size of the pages that it holds", minimum=1)]
    entries: Annotated[int | None, doc("how many it holds; null: not published")]
    ways: Annotated[int | None, doc("its associativity; null: not published")]
    shared_with_bytes: Annotated[
        tuple[int, ...], doc("other page sizes that compete for these entries")
    ]
    source: Annotated[str, doc("keys of `sources`, joined by +")]
    verified: Annotated[bool, doc("the figure was checked against its source")]
    low: Annotated[int | None, doc("plausible entries, from; null: not published")]
    high: Annotated[int | None, doc("to")]


class CoreFigure(Part, frozen=True, kw_only=True):
    """One figure of the core's timing."""

    value: Annotated[float, doc("the figure, in the unit of its name")]
    source: Annotated[str, doc("keys of `sources`, joined by +")]
    verified: Annotated[bool, doc("the figure was checked against its source")]
    low: Annotated[float, doc("plausible values, from; as value if it is verified")]
    high: Annotated[float, doc("to")]


class UnknownFigure(Part, frozen=True, kw_only=True):
    """A figure that was not checked, and what it does to the time on 2 MiB pages."""

    figure: Annotated[str, doc("name of a figure, or LEVEL_entries_BYTES")]
    effects: Annotated[
        dict[str, float],
        doc("by pattern: change of the time, in parts of that on 4 KiB pages, by a formula"),
    ]


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
    unknowns: Annotated[list[UnknownFigure], doc("what to measure there, most important first")]
    sources: Annotated[dict[str, str], doc("what each source is")]


class MachineList(Part, frozen=True, kw_only=True):
    """The cores of data/machines, with their sources. null: not published."""

    schema: Annotated[
        Literal["tlbcost-machines-2"], doc("form of this document and its version")
    ] = "tlbcost-machines-2"
    machines: Annotated[list[KnownMachine], doc("one for each core")]


def machine_list(cores: Sequence[PublishedCore]) -> MachineList:
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
                shared_with_bytes=core.shares(name, size),
                source=row.source,
                verified=row.verified,
                low=row.low,
                high=row.high,
            )
            for (name, size), row in core.levels.items()
        ],
        figures={
            name: CoreFigure(
                value=figure.value,
                source=figure.source,
                verified=figure.verified,
                low=figure.low,
                high=figure.high,
            )
            for name, figure in known.figures.items()
        },
        missing_for_times=known.missing(),
        unknowns=[
            UnknownFigure(
                figure=each.name,
                effects={
                    pattern.words: change for pattern, change in zip(TYPICAL, effect, strict=True)
                },
            )
            for each, effect in ranking(core, known)
        ],
        sources=dict(known.sources),
    )
