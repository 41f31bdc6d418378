# SPDX-License-Identifier: GPL-2.0-or-later
"""What do runs on pages of several sizes say? For people: the article's table, and its grounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.units import NOT_OBTAINED
from tlbcost.pagesizes.document import (
    PageSizesDocument,
    PatternOnPages,
    PatternResult,
    ratio_words,
)
from tlbcost.pagesizes.page_size import PageSupply, Shortage
from tlbcost.pagesizes.patterns import ARTICLE_GIB, GIB, PATTERNS
from tlbcost.pagesizes.published import ratio_of

if TYPE_CHECKING:
    from rich.console import Console

# What fits on a line.
_COSTS, _RATIOS = 3, 2
_WAYS = {"base": "", "pool": " from a pool", "transparent": " by madvise"}


def print_page_sizes(report: PageSizesDocument, file: TextIO, *, details: bool) -> None:
    print_whole(lambda console: _fill(console, report, details=details), file)


def _fill(console: Console, report: PageSizesDocument, *, details: bool) -> None:
    for words in (report.worst, report.best):
        if words is not None:
            console.print(words, style="bold")
    for sizes in _groups(report.page_sizes[1:], _RATIOS):
        _ratios(console, report, sizes)
    _missing(console, report)
    console.print()
    if not details:
        console.print(
            f"Time per access relative to {report.page_sizes[0].name} pages, {report.rounds} "
            "rounds; published: on other machines. Details: --details"
        )
        return
    _head(console, report)
    shown = table("places", "chunks", "stride", "draws", "lines", "4 KiB", "2 MiB", "1 GiB")
    for pattern in report.patterns:
        shown.add_row(_name(pattern), *_places(pattern))
    section(console, shown)
    for sizes in _groups(report.page_sizes, _COSTS):
        shown = table("core cycles (ns) per access", *(size.name for size in sizes))
        for pattern in report.patterns:
            costs = (_cost(pattern.on(size.page_size_bytes)) for size in sizes)
            shown.add_row(_name(pattern), *costs)
        section(console, shown)
    _sources(console, report)


def _groups(sizes: Sequence[PageSupply], n: int) -> Iterator[Sequence[PageSupply]]:
    return (sizes[at : at + n] for at in range(0, len(sizes), n))


def _head(console: Console, report: PageSizesDocument) -> None:
    machine = report.machine
    rows = grid()
    where = "bare metal" if machine.hypervisor is None else f"virtual ({machine.hypervisor})"
    rows.add_row("machine", f"{machine.cpu_name or 'unknown CPU'}, {where}")
    for n, tlb in enumerate(report.tlbs):
        rows.add_row("" if n else "TLBs", tlb)
    rows.add_row("pages", ", ".join(f"{s.name}{_WAYS[s.way]}" for s in report.page_sizes))
    rows.add_row(
        "runs",
        f"{report.rounds} rounds, the sizes in turn; {units.count(report.accesses)} accesses each",
    )
    rows.add_row(
        "time",
        "by the clock; core cycles by dependent additions, measured alongside each run",
    )
    if any(PATTERNS[each.pattern - 1].scaled for each in report.patterns):
        rows.add_row(
            "memory",
            f"patterns 1 to 6 in {report.scaled_bytes // GIB} GiB (the article: {ARTICLE_GIB} GiB)",
        )
    for note in report.notes:
        rows.add_row("note", f"{note}.")
    console.print(rows)


def _name(pattern: PatternResult) -> str:
    return f"{pattern.pattern:>2} {pattern.words}"


def _places(pattern: PatternResult) -> list[str]:
    if pattern.lines is None:
        return [NOT_OBTAINED] * 7
    drawn = (pattern.chunks, pattern.stride_bytes, pattern.draws)
    counts = (pattern.lines, pattern.pages_4k, pattern.pages_2m, pattern.pages_1g)
    writers = (units.count, units.size, units.count)
    return [
        *("-" if n is None else write(n) for n, write in zip(drawn, writers, strict=True)),
        *(NOT_OBTAINED if n is None else units.count(n) for n in counts),
    ]


def _cost(result: PatternOnPages) -> str:
    if result.cycles is None or result.time_ns is None:
        return NOT_OBTAINED
    return f"{units.nanoseconds(result.cycles.value)} ({units.nanoseconds(result.time_ns.value)})"


def _ratios(console: Console, report: PageSizesDocument, sizes: Sequence[PageSupply]) -> None:
    known = [s for s in sizes if any(p.page_bytes == s.page_size_bytes for p in report.published)]
    shown = table(
        f"time over {report.page_sizes[0].name}",
        *(size.name for size in sizes),
        *(f"published\n{size.name}" for size in known),
    )
    for pattern in report.patterns:
        ratios = [pattern.on(size.page_size_bytes).ratio for size in sizes]
        figures = [ratio_of(report.published, pattern.pattern, s.page_size_bytes) for s in known]
        shown.add_row(
            _name(pattern),
            *(NOT_OBTAINED if ratio is None else ratio_words(ratio) for ratio in ratios),
            *(f"{f.ratio:.2f}" if f is not None else NOT_OBTAINED for f in figures),
        )
    section(console, shown)


def _missing(console: Console, report: PageSizesDocument) -> None:
    rows = grid()
    for size in report.missing:
        rows.add_row("NA", f"{units.size(size.page_size_bytes)}: {size.reason}.")
        if size.hint:
            rows.add_row("", f"type: {size.hint}")
    by_reason: dict[tuple[int, Shortage], list[int]] = {}
    for pattern in report.patterns:
        for each in pattern.page_sizes:
            if each.missing is not None:
                key = each.page_size_bytes, each.missing
                by_reason.setdefault(key, []).append(pattern.pattern)
    for (page_size_bytes, shortage), patterns in by_reason.items():
        numbers = ", ".join(map(str, sorted(patterns)))
        rows.add_row("NA", f"{units.size(page_size_bytes)}, pattern {numbers}: {shortage.reason}.")
        if shortage.hint:
            rows.add_row("", f"type: {shortage.hint}")
    if rows.row_count:
        section(console, rows)


def _sources(console: Console, report: PageSizesDocument) -> None:
    console.print()
    numbers = {each.pattern for each in report.patterns}
    known = [p for p in report.published if p.pattern in numbers and p.ratio is not None]
    sources = []
    for name in dict.fromkeys(p.machine for p in known):
        found = sorted({p.pattern for p in known if p.machine == name})
        words = f" {found[0]}" if len(found) == 1 else f"s {found[0]} to {found[-1]}"
        sources.append(f"{name} (pattern{words})")
    console.print(
        f"Published: {', '.join(sources)}; data/published/page-sizes.tsv has the sources."
    )
