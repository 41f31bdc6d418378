# SPDX-License-Identifier: GPL-2.0-or-later
"""What do runs on pages of several sizes say? For people: the article's table, and its grounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.interval import Interval
from tlbcost.common.units import NOT_OBTAINED
from tlbcost.pagesizes.backing import PageSize
from tlbcost.pagesizes.patterns import ARTICLE_GIB, Pattern
from tlbcost.pagesizes.published import Published, ratio_of
from tlbcost.pagesizes.run import PageTimes, Timed
from tlbcost.system.machine import Machine

if TYPE_CHECKING:
    from rich.console import Console

# As many as fit beside each other.
_COSTS, _RATIOS = 3, 2
_WAYS = {"base": "", "pool": " from a pool", "transparent": " by madvise"}


@dataclass(frozen=True, slots=True)
class PageReport:
    """Everything that the report says. `notes`: sentences without their full stop."""

    version: str
    date: str
    machine: Machine
    times: PageTimes
    published: tuple[Published, ...]
    tlbs: tuple[str, ...]
    notes: tuple[str, ...]


def print_page_sizes(report: PageReport, file: TextIO) -> None:
    """Print the report, whole."""
    print_whole(lambda console: _fill(console, report), file)


def extremes(times: PageTimes) -> tuple[str | None, str | None]:
    """The largest loss and the largest gain, as sentences; None where no interval is beyond 1."""
    found = [
        (ratio, pattern, size)
        for pattern in times.patterns
        for size in times.sizes[1:]
        if (ratio := times.ratio(pattern.number, size.n_bytes)) is not None
    ]
    base = times.sizes[0].name
    bad = [each for each in found if each[0].low > 1]
    good = [each for each in found if each[0].high < 1]
    words: list[str | None] = []
    for name, chosen, sign in (("Worst", bad, 1), ("Best", good, -1)):
        if not chosen:
            words.append(None)
            continue
        ratio, pattern, size = max(chosen, key=lambda each: sign * each[0].value)
        words.append(
            f"{name} here: pattern {pattern.number} on {size.name} pages takes {_ratio(ratio)} "
            f"times what it takes on {base} pages."
        )
    return words[0], words[1]


def _fill(console: Console, report: PageReport) -> None:
    times = report.times
    console.print(
        f"tlbcost {report.version}: access patterns on pages of "
        + ", ".join(size.name for size in times.sizes),
        style="bold",
    )
    console.print()
    _head(console, report)
    _structure(console, times)
    for sizes in _groups(times.sizes, _COSTS):
        _costs(console, times, sizes)
    for sizes in _groups(times.sizes[1:], _RATIOS):
        _ratios(console, report, sizes)
    _missing(console, times)
    _ending(console, report)


def _groups(sizes: Sequence[PageSize], n: int) -> Iterator[Sequence[PageSize]]:
    return (sizes[at : at + n] for at in range(0, len(sizes), n))


def _head(console: Console, report: PageReport) -> None:
    machine, times = report.machine, report.times
    rows = grid()
    where = "bare metal" if machine.hypervisor is None else f"virtual ({machine.hypervisor})"
    rows.add_row("machine", f"{machine.cpu_name or 'unknown CPU'}, {where}")
    for n, tlb in enumerate(report.tlbs):
        rows.add_row("" if n else "TLBs", tlb)
    rows.add_row("pages", ", ".join(f"{s.name}{_WAYS[s.way]}" for s in times.sizes))
    rows.add_row(
        "runs",
        f"{times.rounds} rounds, the sizes in turn; {units.count(times.accesses)} accesses each",
    )
    rows.add_row(
        "time", "by the clock; core cycles by additions that wait for each other, beside each run"
    )
    if any(pattern.scaled for pattern in times.patterns):
        rows.add_row(
            "memory",
            f"patterns 1 to 6 in {times.gib} GiB (the article: {ARTICLE_GIB} GiB)",
        )
    for note in report.notes:
        rows.add_row("note", f"{note}.")
    console.print(rows)


def _name(pattern: Pattern) -> str:
    return f"{pattern.number:>2} {pattern.words}"


def _structure(console: Console, times: PageTimes) -> None:
    shown = table("places", "chunks", "stride", "draws", "lines", "4 KiB", "2 MiB", "1 GiB")
    for pattern in times.patterns:
        run = next((t for t in times.timed if t.pattern == pattern.number), None)
        shown.add_row(_name(pattern), *_places(run))
    section(console, shown)


def _places(run: Timed | None) -> list[str]:
    if run is None:
        return [NOT_OBTAINED] * 7
    counts = (run.lines, run.pages_4k, run.pages_2m, run.pages_1g)
    drawn = (run.chunks, run.stride_bytes, run.draws)
    return [
        *("-" if n is None else write(n) for n, write in zip(
            drawn, (units.count, units.size, units.count), strict=True)),
        *map(units.count, counts),
    ]  # fmt: skip


def _costs(console: Console, times: PageTimes, sizes: Sequence[PageSize]) -> None:
    shown = table("core cycles (ns) per access", *(size.name for size in sizes))
    for pattern in times.patterns:
        shown.add_row(_name(pattern), *(_cost(times, pattern, size) for size in sizes))
    section(console, shown)


def _cost(times: PageTimes, pattern: Pattern, size: PageSize) -> str:
    cycles = times.cost(pattern.number, size.n_bytes, lambda run: run.cycles)
    ns = times.cost(pattern.number, size.n_bytes, lambda run: run.ns)
    if cycles is None or ns is None:
        return NOT_OBTAINED
    return f"{units.nanoseconds(cycles.value)} ({units.nanoseconds(ns.value)})"


def _ratios(console: Console, report: PageReport, sizes: Sequence[PageSize]) -> None:
    times = report.times
    base = times.sizes[0].name
    told = [s for s in sizes if any(p.page_bytes == s.n_bytes for p in report.published)]
    shown = table(
        f"time over {base}",
        *(size.name for size in sizes),
        *(f"published\n{size.name}" for size in told),
    )
    for pattern in times.patterns:
        figures = [ratio_of(list(report.published), pattern.number, s.n_bytes) for s in told]
        shown.add_row(
            _name(pattern),
            *(_ratio(times.ratio(pattern.number, size.n_bytes)) for size in sizes),
            *(f"{f.ratio:.2f}" if f is not None else NOT_OBTAINED for f in figures),
        )
    section(console, shown)


def _ratio(ratio: Interval | None) -> str:
    if ratio is None:
        return NOT_OBTAINED
    return f"{ratio.value:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def _missing(console: Console, times: PageTimes) -> None:
    """Why there is an NA, each reason once, with the sizes and patterns that it is true of."""
    rows = grid()
    for size, lack in times.missing.items():
        rows.add_row("NA", f"{units.size(size)}: {lack.reason}.")
        if lack.hint:
            rows.add_row("", f"type: {lack.hint}")
    by_reason: dict[tuple[int, str, str | None], list[int]] = {}
    for (pattern, size), lack in times.lacks.items():
        by_reason.setdefault((size, lack.reason, lack.hint), []).append(pattern)
    for (size, reason, hint), patterns in by_reason.items():
        numbers = ", ".join(map(str, sorted(patterns)))
        rows.add_row("NA", f"{units.size(size)}, pattern {numbers}: {reason}.")
        if hint:
            rows.add_row("", f"type: {hint}")
    if rows.row_count:
        section(console, rows)


def _ending(console: Console, report: PageReport) -> None:
    console.print()
    numbers = {pattern.number for pattern in report.times.patterns}
    told = [p for p in report.published if p.pattern in numbers and p.ratio is not None]
    sources = [
        f"{name} (pattern{_numbers(told, name)})" for name in dict.fromkeys(p.machine for p in told)
    ]
    console.print(
        f"Published: {', '.join(sources)}; data/published/page-sizes.tsv has the sources."
    )
    for words in extremes(report.times):
        if words is not None:
            console.print(words)


def _numbers(figures: Sequence[Published], machine: str) -> str:
    found = sorted({each.pattern for each in figures if each.machine == machine})
    return f" {found[0]}" if len(found) == 1 else f"s {found[0]} to {found[-1]}"
