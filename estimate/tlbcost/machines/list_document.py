# SPDX-License-Identifier: GPL-2.0-or-later
"""The machines of data/machines/: as a list, one whole, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from tlbcost.common import units
from tlbcost.common.console import print_whole, section, table
from tlbcost.common.document import Part, doc, part_of
from tlbcost.machines.plan import machine_size
from tlbcost.machines.unknowns import (
    TYPICAL,
    CoreFigures,
    Unknown,
    figures_of,
    published_core,
    ranked,
    unknowns_of,
)
from tlbcost.processors.published import Level, PublishedCore

if TYPE_CHECKING:
    from rich.console import Console


def listing(cores: Sequence[PublishedCore], file: TextIO) -> None:
    def fill(console: Console) -> None:
        rows = table("machine", "other names", "L1 dTLB", "STLB", "unverified", "timed")
        for core in cores:
            known = figures_of(core.core)
            verified = [row.verified for row in core.levels.values()]
            verified += [figure.verified for figure in known.figures.values()]
            rows.add_row(
                core.core,
                ", ".join(known.aliases) or "-",
                _entries(core, "dtlb"),
                _entries(core, "stlb"),
                f"{verified.count(False)} of {len(verified)}",
                "no" if published_core(known) is None else "yes",
            )
        console.print(rows)
        console.print()
        console.print(
            "Entries for base pages. Timed: enough is published to model times on it. "
            "'tlbcost machines NAME' shows all that is known, and its sources."
        )

    print_whole(fill, file)


def _entries(core: PublishedCore, level: str) -> str:
    size = min(size for _, size in core.levels)
    row = next(
        (row for (name, each), row in core.levels.items() if (name, each) == (level, size)), None
    )
    return units.known(None if row is None else row.entries)


def one(core: PublishedCore, file: TextIO) -> None:
    known = figures_of(core.core)

    def fill(console: Console) -> None:
        console.print(f"machine {core.core}: {core.name}")
        if known.aliases:
            console.print(f"also called {', '.join(known.aliases)}")
        if core.notes:
            console.print(f"note: {core.notes}")
        rows = table("TLB", "pages", "entries", "ways", "shared with", "source", "verified")
        for (level, size), row in core.levels.items():
            rows.add_row(
                level,
                units.size(size),
                *map(units.known, (row.entries, row.ways)),
                ", ".join(map(units.size, core.shares(level, size))) or "-",
                row.source,
                "yes" if row.verified else _range(row.low, row.high),
            )
        section(console, rows)
        if known.figures:
            figures = table("core", "value", "source", "verified")
            for name, figure in known.figures.items():
                figures.add_row(
                    name,
                    f"{figure.value:.10g}",
                    figure.source,
                    "yes" if figure.verified else _range(figure.low, figure.high),
                )
            section(console, figures)
            _unknowns(core, known, console)
        missing = known.missing()
        if missing:
            console.print()
            console.print(f"No times can be modelled on it; not written down: {', '.join(missing)}")
        console.print()
        for source, explanation in sorted(known.sources.items()):
            console.print(f"{source}: {explanation}")

    print_whole(fill, file)


_PAGES = (4 << 10, 2 << 20)
_MOST_RANKED = 8
# An effect on a time ratio that is worth a line.
_LEAST_EFFECT = 0.0005


def _range(low: float | None, high: float | None) -> str:
    return "no" if low is None or high is None else f"no: {low:.10g} to {high:.10g}"


def _unknowns(core: PublishedCore, known: CoreFigures, console: Console) -> None:
    order = ranking(core, known)
    shown = [(each, effect) for each, effect in order if max(effect) >= _LEAST_EFFECT]
    if not shown:
        return
    rows = table("not checked", "value", "plausible", *(f"({i})" for i in range(1, 4)))
    for each, effect in shown[:_MOST_RANKED]:
        rows.add_row(
            each.name,
            f"{each.value:.10g}",
            f"{each.low:.10g} to {each.high:.10g}",
            *(f"{change:.3f}" for change in effect),
        )
    section(console, rows)
    words = "; ".join(f"({i}) {pattern.words}" for i, pattern in enumerate(TYPICAL, 1))
    console.print(
        "By so much a guess changes the time on 2 MiB pages, in parts of that on 4 KiB pages, by a "
        f"formula: {words}. 'tlbcost calibrate --full --json FILE' on such a machine measures most."
    )


def ranking(core: PublishedCore, known: CoreFigures) -> list[tuple[Unknown, tuple[float, ...]]]:
    sizes = [machine_size(core, size) for size in _PAGES]
    base, huge = sizes
    if known.missing() or base is None or huge is None:
        return []
    value = {name: figure.value for name, figure in known.figures.items()}
    found = ranked(unknowns_of(core, known, _PAGES), value, base, huge)
    return [(each, tuple(effect[pattern] for pattern in TYPICAL)) for each, effect in found]


def comparison(one: PublishedCore, other: PublishedCore, file: TextIO) -> None:
    cores = (one, other)
    known = [figures_of(core.core) for core in cores]

    def fill(console: Console) -> None:
        rows = table("", one.core, other.core, "")
        for name in dict.fromkeys(key for core in cores for key in core.levels):
            level, size = name
            cells = [_geometry(core, level, size) for core in cores]
            rows.add_row(f"{level} {units.size(size)}", *cells, _marked(cells))
        for figure in dict.fromkeys(key for each in known for key in each.figures):
            cells = [_figure(each, figure) for each in known]
            rows.add_row(figure, *cells, _marked(cells))
        console.print(f"{one.core}: {one.name}")
        console.print(f"{other.core}: {other.name}")
        section(console, rows)
        console.print()
        console.print("? was not checked against a source: its plausible values follow.")

    print_whole(fill, file)


def _marked(cells: Sequence[str]) -> str:
    return "" if cells[0] == cells[1] else "differs"


def _geometry(core: PublishedCore, level: Level, size: int) -> str:
    row = core.levels.get((level, size))
    if row is None:
        return "none"
    text = ":".join(map(units.known, (row.entries, row.ways)))
    return text if row.verified else f"{text} ?"


def _figure(known: CoreFigures, name: str) -> str:
    figure = known.figures.get(name)
    if figure is None:
        return units.NOT_OBTAINED
    text = f"{figure.value:.10g}"
    return text if figure.verified else f"{text} ? {figure.low:.10g} to {figure.high:.10g}"


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
            part_of(
                ListedLevel,
                row,
                level=name,
                page_size_bytes=size,
                shared_with_bytes=core.shares(name, size),
            )
            for (name, size), row in core.levels.items()
        ],
        figures={name: part_of(CoreFigure, figure) for name, figure in known.figures.items()},
        missing_for_times=known.missing(),
        unknowns=[
            UnknownFigure(
                figure=each.name,
                effects=dict(zip((pattern.words for pattern in TYPICAL), effect, strict=True)),
            )
            for each, effect in ranking(core, known)
        ],
        sources=dict(known.sources),
    )
