# SPDX-License-Identifier: GPL-2.0-or-later
"""How are the machines of data/machines/ shown: as a list, and one whole?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import print_whole, section, table
from tlbcost.machines.published_timing import CoreFigures, figures_of, published_core
from tlbcost.processors.published import PublishedCore

if TYPE_CHECKING:
    from rich.console import Console


def listing(cores: Sequence[PublishedCore], file: TextIO) -> None:
    """One line for each machine."""

    def fill(console: Console) -> None:
        rows = table("machine", "other names", "L1 dTLB", "STLB", "unverified", "timed")
        for core in cores:
            known = figures_of(core.core)
            rows.add_row(
                core.core,
                ", ".join(known.aliases) or "-",
                _entries(core, "dtlb"),
                _entries(core, "stlb"),
                f"{len(_unverified(core, known))} of {len(core.levels) + len(known.figures)}",
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
    return units.NOT_OBTAINED if row is None or row.entries is None else str(row.entries)


def _unverified(core: PublishedCore, known: CoreFigures) -> list[str]:
    levels = [
        f"{name} for {units.size(size)} pages"
        for (name, size), row in core.levels.items()
        if not row.verified
    ]
    return levels + [name for name, figure in known.figures.items() if not figure.verified]


def one(core: PublishedCore, file: TextIO) -> None:
    """All that is known of one machine."""
    known = figures_of(core.core)

    def fill(console: Console) -> None:
        console.print(f"machine {core.core}: {core.name}")
        if known.aliases:
            console.print(f"also called {', '.join(known.aliases)}")
        if core.notes:
            console.print(f"note: {core.notes}")
        rows = table("TLB", "pages", "entries", "ways", "source", "verified")
        for (level, size), row in core.levels.items():
            rows.add_row(
                level,
                units.size(size),
                *(units.NOT_OBTAINED if n is None else str(n) for n in (row.entries, row.ways)),
                row.source,
                "yes" if row.verified else "no",
            )
        section(console, rows)
        if known.figures:
            figures = table("core", "value", "source", "verified")
            for name, figure in known.figures.items():
                figures.add_row(
                    name, f"{figure.value:.10g}", figure.source, "yes" if figure.verified else "no"
                )
            section(console, figures)
        missing = known.missing()
        if missing:
            console.print()
            console.print(f"No times can be modelled on it; not written down: {', '.join(missing)}")
        console.print()
        for source, explanation in sorted(sources(core, known).items()):
            console.print(f"{source}: {explanation}")

    print_whole(fill, file)


def sources(core: PublishedCore, known: CoreFigures) -> dict[str, str]:
    """What each source named in a core's rows is."""
    found = {row.source: row.explanation for row in core.levels.values()}
    return found | {figure.source: figure.explanation for figure in known.figures.values()}
