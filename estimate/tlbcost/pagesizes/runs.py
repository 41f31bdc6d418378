# SPDX-License-Identifier: GPL-2.0-or-later
"""How long does an access of each pattern take on pages of each size, and what was not run?

A ratio is of two runs of the same round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated

from tlbcost.common import formats
from tlbcost.common.document import doc
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import count, number, parse_table
from tlbcost.common.interval import Interval
from tlbcost.pagesizes.page_size import PageSupply, Shortage
from tlbcost.pagesizes.patterns import Pattern
from tlbcost.system import hints

# Keys that a pattern without chunks lacks.
_DRAWN = ("chunks", "stride_bytes", "offset_bytes", "draws")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What a pattern reads. None: it was not run, or it draws nothing and reads all at random."""

    chunks: Annotated[int | None, doc("places that are drawn from", minimum=0)] = None
    stride_bytes: Annotated[int | None, doc("between these", minimum=0)] = None
    offset_bytes: Annotated[int | None, doc("added to each, once more each time", minimum=0)] = None
    draws: Annotated[int | None, doc("number of draws", minimum=0)] = None
    lines: Annotated[int | None, doc("different ones that are read", minimum=0)] = None
    pages_4k: Annotated[int | None, doc("the same of pages of 4 KiB", minimum=0)] = None
    pages_2m: Annotated[int | None, doc("the same of pages of 2 MiB", minimum=0)] = None
    pages_1g: Annotated[int | None, doc("the same of pages of 1 GiB", minimum=0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """One run, as the program itself measured it."""

    round: Annotated[int, doc("its round, from 0", minimum=0)]
    elapsed_ns: Annotated[float, doc("of all accesses")]
    cycles_per_ns: Annotated[float, doc("rate of the core, measured alongside")]
    resident_bytes: Annotated[int, doc("memory of the pattern", minimum=0)]
    proven_bytes: Annotated[int, doc("of these, proven to be on such pages", minimum=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternRun:
    """One run of a pattern on proven pages of one size."""

    pattern: int
    page_size_bytes: int
    accesses: int
    places: Places
    time: RunTime

    @property
    def ns(self) -> float:
        return self.time.elapsed_ns / self.accesses

    @property
    def cycles(self) -> float:
        return self.ns * self.time.cycles_per_ns


@dataclass(frozen=True, slots=True)
class PageTimes:
    """All runs, and those missing: `shortages` by pattern and bytes of a page.

    `sizes`: base pages first. `missing`: sizes that are not available at all. `gib`: memory of the
    scaled patterns.
    """

    patterns: tuple[Pattern, ...]
    sizes: tuple[PageSupply, ...]
    missing: Mapping[int, Shortage]
    gib: int
    rounds: int
    accesses: int
    runs: tuple[PatternRun, ...]
    shortages: Mapping[tuple[int, int], Shortage]

    def runs_of(self, pattern: int, page_size_bytes: int) -> list[PatternRun]:
        key = pattern, page_size_bytes
        return [run for run in self.runs if (run.pattern, run.page_size_bytes) == key]

    def cost(
        self, pattern: int, page_size_bytes: int, value: Callable[[PatternRun], float]
    ) -> Interval | None:
        """Median of a value of the runs; None if there are fewer than three."""
        return _median([value(run) for run in self.runs_of(pattern, page_size_bytes)])

    def ratio(self, pattern: int, page_size_bytes: int) -> Interval | None:
        """Time on this size over that on base pages, run by run of a round; in core cycles."""
        on_base = self.runs_of(pattern, self.sizes[0].page_size_bytes)
        base = {run.time.round: run.cycles for run in on_base}
        runs = self.runs_of(pattern, page_size_bytes)
        return _median([r.cycles / base[r.time.round] for r in runs if r.time.round in base])


def _median(values: Sequence[float]) -> Interval | None:
    import numpy as np

    from tlbcost.common import bootstrap

    return bootstrap.median(np.array(values, dtype=np.float64))


def read_run(round_: int, text: str) -> PatternRun:
    """The program's output with --table 1. Raises TlbcostError if it is not such a table."""
    # After the table comes the sum of the bytes read.
    table_text = re.sub(r"^checksum [0-9a-f]+\n", "", text, flags=re.MULTILINE)
    rows = parse_table(table_text, "page-patterns", formats.PATTERN).records()
    if len(rows) != 1:
        raise TlbcostError(f"page-patterns: {len(rows)} rows, expected 1", hints.rebuild())
    row = rows[0]
    cells = {name: count(row[name]) for name in formats.PATTERN.columns[:-2]}
    known = {name: cell for name, cell in cells.items() if cell is not None}
    elapsed, rate = number(row["elapsed_ns"]), number(row["cycles_per_ns"])
    missing = [name for name in formats.PATTERN.columns if row[name] is None and name not in _DRAWN]
    if missing or elapsed is None or rate is None:
        raise TlbcostError(f"page-patterns: its table lacks {', '.join(missing)}", hints.rebuild())
    return PatternRun(
        pattern=known["pattern"],
        page_size_bytes=known["page_size_bytes"],
        accesses=known["accesses"],
        places=Places(**{field.name: cells[field.name] for field in fields(Places)}),
        time=RunTime(
            round=round_,
            elapsed_ns=elapsed,
            cycles_per_ns=rate,
            resident_bytes=known["resident_bytes"],
            proven_bytes=known["proven_bytes"],
        ),
    )
