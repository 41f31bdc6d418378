# SPDX-License-Identifier: GPL-2.0-or-later
"""What are the results of runs on pages of several sizes, for people and for programs?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from tlbcost.calibration.records import Calibration
from tlbcost.common.document import Part, doc, now
from tlbcost.common.interval import Interval
from tlbcost.common.paths import version
from tlbcost.pagesizes.notes import notes, tlbs
from tlbcost.pagesizes.page_size import PageSupply, Shortage
from tlbcost.pagesizes.patterns import GIB, Pattern
from tlbcost.pagesizes.published import PublishedFigure, published
from tlbcost.pagesizes.runs import PageTimes, Places, RunTime
from tlbcost.system.machine import Machine


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
        """Its number and name."""
        return f"{self.pattern} {self.words}"

    def on(self, page_size_bytes: int) -> PatternOnPages:
        """The result on pages of this size."""
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
    """Everything in the report."""
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
            MissingSize(page_size_bytes=size, reason=shortage.reason, hint=shortage.hint)
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
        page_sizes=tuple(_on(times, pattern.number, size) for size in times.sizes),
        **({} if run is None else asdict(run.places)),
    )


def _on(times: PageTimes, pattern: int, size: PageSupply) -> PatternOnPages:
    key = pattern, size.page_size_bytes
    return PatternOnPages(
        page_size_bytes=size.page_size_bytes,
        cycles=times.cost(*key, lambda run: run.cycles),
        time_ns=times.cost(*key, lambda run: run.ns),
        ratio=None if size == times.sizes[0] else times.ratio(*key),
        missing=times.shortages.get(key),
        runs=tuple(run.time for run in times.runs_of(*key)),
    )


def _extremes(times: PageTimes) -> tuple[str | None, str | None]:
    """The largest loss and the largest gain, as sentences; None if no interval is beyond 1."""
    found = [
        (ratio, pattern, size)
        for pattern in times.patterns
        for size in times.sizes[1:]
        if (ratio := times.ratio(pattern.number, size.page_size_bytes)) is not None
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
            f"{name} here: pattern {pattern.number} on {size.name} pages takes "
            f"{ratio_words(ratio)} times what it takes on {base} pages."
        )
    return words[0], words[1]


def ratio_words(ratio: Interval) -> str:
    """A ratio with its interval: '2.82 (2.67-3.00)'."""
    return f"{ratio.value:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"
