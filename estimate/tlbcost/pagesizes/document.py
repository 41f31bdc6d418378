# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of runs on pages of several sizes, with what limits them, as text, JSON and a figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from tlbcost.calibration.records import Calibration, cost_at
from tlbcost.common import units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.document import Part, doc, now
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.gnuplot import draw_by, word_list
from tlbcost.common.paths import version
from tlbcost.common.units import NOT_OBTAINED, Interval
from tlbcost.pagesizes.published import (
    ARTICLE_GIB,
    GIB,
    PATTERNS,
    Pattern,
    PublishedFigure,
    published,
    ratio_of,
)
from tlbcost.pagesizes.runner import PageSupply, PageTimes, Places, RunTime, Shortage
from tlbcost.processors.published import Geometry, Level, TlbLevel
from tlbcost.simulator.geometry import geometry_for
from tlbcost.system.machine import Machine

if TYPE_CHECKING:
    from rich.console import Console


class MissingSize(Part, frozen=True, kw_only=True):
    """A requested page size that is not available."""

    page_size_bytes: Annotated[int, doc("size of the pages", minimum=1)]
    reason: Annotated[str, doc("why there are no such pages")]
    hint: Annotated[str | None, doc("what to type; null: nothing helps")]


class PatternOnPages(Part, frozen=True, kw_only=True):
    """One pattern on one page size. Intervals: median of the rounds, 95 % interval."""

    page_size_bytes: Annotated[int, doc("size of the pages", minimum=1)]
    cycles: Annotated[Interval | None, doc("core cycles per access")]
    time_ns: Annotated[Interval | None, doc("per access")]
    ratio: Annotated[
        Interval | None, doc("time over that on base pages, in core cycles; null on these")
    ]
    missing: Annotated[Shortage | None, doc("why it was not run; null: it was")]
    runs: Annotated[tuple[RunTime, ...], doc("by round")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternResult(Places):
    """One pattern, and what it reads; null: it was not run, or draws nothing."""

    pattern: Annotated[int, doc("its number", minimum=1, maximum=11)]
    words: Annotated[str, doc("its name")]
    size_bytes: Annotated[int, doc("of its memory", minimum=1)]
    page_sizes: Annotated[tuple[PatternOnPages, ...], doc("base pages first")]

    @property
    def label(self) -> str:
        return f"{self.pattern} {self.words}"

    def on(self, page_size_bytes: int) -> PatternOnPages:
        return next(each for each in self.page_sizes if each.page_size_bytes == page_size_bytes)


class PageSizesDocument(Part, frozen=True, kw_only=True):
    """What `tlbcost pagesizes --json FILE` writes. The unit of a figure is the suffix of its key;
    null means that a figure was not obtained.
    """

    schema: Annotated[
        Literal["tlbcost-pagesizes-1"], doc("form of this document and its version")
    ] = "tlbcost-pagesizes-1"
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    machine: Annotated[Machine, doc("where it was measured")]
    rounds: Annotated[int, doc("runs of each pattern on each size", minimum=1)]
    accesses: Annotated[int, doc("of each run", minimum=1)]
    scaled_bytes: Annotated[
        int, doc("memory of patterns 1 to 6, which is 24 GiB in the article", minimum=1)
    ]
    page_sizes: Annotated[tuple[PageSupply, ...], doc("base pages first")]
    missing: Annotated[tuple[MissingSize, ...], doc("requested sizes that are not available")]
    patterns: Annotated[tuple[PatternResult, ...], doc("one for each requested pattern")]
    published: Annotated[tuple[PublishedFigure, ...], doc("published figures")]
    tlbs: Annotated[tuple[str, ...], doc("entries of the data TLBs by page size")]
    notes: Annotated[tuple[str, ...], doc("what limits the figures; without a full stop")]
    worst: Annotated[
        str | None,
        doc("the pattern and size whose ratio is largest, where its interval is beyond 1"),
    ]
    best: Annotated[str | None, doc("the same for the smallest")]


def document_of(
    times: PageTimes, machine: Machine, calibration: Calibration | None
) -> PageSizesDocument:
    worst, best = _extremes(times)
    return PageSizesDocument(
        tlbcost_version=version(),
        date=now(),
        machine=machine,
        rounds=times.rounds,
        accesses=times.accesses,
        scaled_bytes=times.gib * GIB,
        page_sizes=times.sizes,
        missing=tuple(
            MissingSize(page_size_bytes=size, **asdict(shortage))
            for size, shortage in times.missing.items()
        ),
        patterns=tuple(_pattern(times, pattern) for pattern in times.patterns),
        published=tuple(published()),
        tlbs=tlbs(machine, calibration, times),
        notes=notes(machine, calibration, times),
        worst=worst,
        best=best,
    )


def _pattern(times: PageTimes, pattern: Pattern) -> PatternResult:
    run = next((run for run in times.runs if run.pattern == pattern.number), None)
    return PatternResult(
        pattern=pattern.number,
        words=pattern.words,
        size_bytes=pattern.size(times.gib),
        page_sizes=tuple(
            PatternOnPages(
                page_size_bytes=n_bytes,
                cycles=times.cost(pattern.number, n_bytes, lambda run: run.cycles),
                time_ns=times.cost(pattern.number, n_bytes, lambda run: run.ns),
                ratio=None if n == 0 else times.ratio(pattern.number, n_bytes),
                missing=times.shortages.get((pattern.number, n_bytes)),
                runs=tuple(run.time for run in times.runs_of(pattern.number, n_bytes)),
            )
            for n, n_bytes in enumerate(size.page_size_bytes for size in times.sizes)
        ),
        **({} if run is None else asdict(run.places)),
    )


def _extremes(times: PageTimes) -> tuple[str | None, str | None]:
    """The largest loss and the largest gain, as sentences; None if no interval is beyond 1."""
    found = [
        (ratio, pattern, size)
        for pattern in times.patterns
        for size in times.sizes[1:]
        if (ratio := times.ratio(pattern.number, size.page_size_bytes)) is not None
    ]

    def words(name: str, chosen: tuple[Interval, Pattern, PageSupply] | None) -> str | None:
        if chosen is None:
            return None
        ratio, pattern, size = chosen
        return (
            f"{name} here: pattern {pattern.number} on {size.name} pages takes "
            f"{ratio_words(ratio)} times what it takes on {times.sizes[0].name} pages."
        )

    bad = [each for each in found if each[0].low > 1]
    good = [each for each in found if each[0].high < 1]
    worst = max(bad, key=lambda each: each[0].value, default=None)
    best = min(good, key=lambda each: each[0].value, default=None)
    return words("Worst", worst), words("Best", best)


def ratio_words(ratio: Interval) -> str:
    """A ratio with its interval: '2.82 (2.67-3.00)'."""
    return f"{ratio.value:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def tlbs(machine: Machine, calibration: Calibration | None, times: PageTimes) -> tuple[str, ...]:
    """Entries of the data TLBs by page size, where measured or published."""
    words = []
    pieces = None
    for size in times.sizes:
        geometry = geometry_for(calibration, machine, size.page_size_bytes)
        served = geometry.base if size.way == "base" else geometry.huge
        # What a host holds in 4 KiB pieces is in such pieces on larger pages, too.
        pieces = served.entry_bytes or pieces
        if pieces is not None:
            words.append(f"{size.name}: as for {units.size(pieces)} pages, split into these")
            continue
        first = _entries(geometry, "dtlb", size.page_size_bytes, served.dtlb)
        second = _entries(geometry, "stlb", size.page_size_bytes, served.stlb)
        if (first, second) != (NOT_OBTAINED, NOT_OBTAINED):
            words.append(f"{size.name}: {first} entries, and {second} in the second level")
    return tuple(words)


def _entries(geometry: Geometry, level: Level, size: int, tlb: TlbLevel | None) -> str:
    source = geometry.sources.get((level, size))
    if source is None or source.kind == "assumed":
        return NOT_OBTAINED
    return "none" if tlb is None else str(tlb.entries)


def notes(machine: Machine, calibration: Calibration | None, times: PageTimes) -> tuple[str, ...]:
    """Sentences, without their full stop, on what limits the figures."""
    found = []
    if any(pattern.scaled for pattern in times.patterns):
        found.append(
            "only the pages that are read are resident, whereas the article fills all "
            f"{ARTICLE_GIB} GiB; their frames are closer together on small pages"
        )
        if times.gib < ARTICLE_GIB:
            found.append(
                f"patterns 1 to 6 have {times.gib} pages of 1 GiB, all that this machine provided: "
                "the strides of 2 to 6 are the article's, that of pattern 1 is "
                f"{units.size(times.gib * GIB // 512)} instead of 48 MiB"
            )
    if machine.hypervisor is None:
        return tuple(found)
    # The host's pages for the guest's; T21 of doc/caveats.md.
    larger = [size.page_size_bytes for size in times.sizes[1:]]
    covered = {
        size: entry.value
        for size in larger
        if calibration and (entry := cost_at(calibration, "tlb_entry_bytes", size)) is not None
    }
    pieces = next((size for size, n_bytes in covered.items() if n_bytes < size), None)
    if pieces is not None:
        found.append(
            "the host holds this guest's memory in pieces: the calibration found that one TLB "
            f"entry covers {units.size(machine.base_page_bytes)} of a page of "
            f"{units.size(pieces)}. Larger pages then save no misses here, nor have fewer "
            "entries; they make each walk shorter (T21)"
        )
    elif not covered:
        found.append(
            "whether the host holds this guest's memory in pieces of its own, so that larger pages "
            "have no TLB entries of their size, is not known: 'tlbcost calibrate' finds out (T21)"
        )
    return tuple(found)


# What fits on a line.
_COSTS, _RATIOS = 3, 2
_WAYS = {"base": "", "pool": " from a pool", "transparent": " by madvise"}


def print_page_sizes(report: PageSizesDocument, file: TextIO, *, details: bool) -> None:
    print_whole(lambda console: _fill(console, report, details=details), file)


def _fill(console: Console, report: PageSizesDocument, *, details: bool) -> None:
    for sentence in (report.worst, report.best):
        if sentence is not None:
            console.print(sentence, style="bold")
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
    numbers = {each.pattern for each in report.patterns}
    known = [p for p in report.published if p.pattern in numbers and p.ratio is not None]
    sources = []
    for name in dict.fromkeys(p.machine for p in known):
        found = sorted({p.pattern for p in known if p.machine == name})
        words = f" {found[0]}" if len(found) == 1 else f"s {found[0]} to {found[-1]}"
        sources.append(f"{name} (pattern{words})")
    of = ", ".join(sources)
    console.print(f"\nPublished: {of}; data/published/page-sizes.tsv has the sources.")


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
    accesses = units.count(report.accesses)
    rows.add_row("runs", f"{report.rounds} rounds, the sizes in turn; {accesses} accesses each")
    clock = "by the clock; core cycles by dependent additions, measured alongside each run"
    rows.add_row("time", clock)
    if any(PATTERNS[each.pattern - 1].scaled for each in report.patterns):
        gib = report.scaled_bytes // GIB
        rows.add_row("memory", f"patterns 1 to 6 in {gib} GiB (the article: {ARTICLE_GIB} GiB)")
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


# The axis covers at least this range, and a margin beyond the outermost point.
_LEAST, _MOST, _ROOM = 0.5, 2.0, 1.2


def draw_page_sizes(report: PageSizesDocument, picture: Path) -> None:
    """Draw the ratios. Raises TlbcostError; then no file is left."""
    if not any(size.ratio for pattern in report.patterns for size in pattern.page_sizes):
        raise TlbcostError(f"cannot draw {picture}: no ratio was measured", None, CANNOT_MEASURE)
    sizes = report.page_sizes[1:]
    columns = ["pattern", "position"]
    for i in range(1, len(sizes) + 1):
        columns += [f"ratio_{i}", f"low_{i}", f"high_{i}", f"published_{i}"]
    rows: list[list[float | None]] = []
    for position, pattern in enumerate(report.patterns, start=1):
        row: list[float | None] = [pattern.pattern, position]
        for size in sizes:
            ratio = pattern.on(size.page_size_bytes).ratio
            known = ratio_of(report.published, pattern.pattern, size.page_size_bytes)
            row += [None] * 3 if ratio is None else [ratio.value, ratio.low, ratio.high]
            row.append(None if known is None else known.ratio)
        rows.append(row)
    ratios = [cell for row in rows for cell in row[2:] if cell is not None and cell > 0]
    settings = {
        "title_words": f"Access patterns on larger pages: {report.machine.cpu_name or 'NA'}",
        "base_words": report.page_sizes[0].name,
        "size_words": word_list(size.name for size in sizes),
        "names": word_list(p.label for p in report.patterns),
        "least": _number(min(_LEAST, min(ratios) / _ROOM)),
        "most": _number(max(_MOST, max(ratios) * _ROOM)),
    }
    draw_by("pagesizes.gp", picture, settings, {"ratios": [columns, *rows]})


def _number(end: float) -> str:
    """For gnuplot, which reads quoted numbers, with two digits."""
    return f"{end:.{max(2 - math.floor(math.log10(end)), 0)}f}"
