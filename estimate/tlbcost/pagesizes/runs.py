# SPDX-License-Identifier: GPL-2.0-or-later
"""How long does an access of each pattern take on pages of each size, and what was not run?

A ratio is of two runs of the same round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.common.table import count, number, parse_table
from tlbcost.pagesizes.page_size import PageSupply, Shortage
from tlbcost.pagesizes.patterns import Pattern
from tlbcost.system import hints

# What a pattern without chunks has none of.
_DRAWN = ("chunks", "stride_bytes", "offset_bytes", "draws")


@dataclass(frozen=True, slots=True)
class PatternRun:
    """One run, as the program itself measured it; its pages were proven.

    `lines`, `pages_4k`, `pages_2m`, `pages_1g`: how many different ones the accesses were to.
    `chunks`, `stride_bytes`, `offset_bytes`, `draws` are None where all words are read at random.
    """

    round: int
    pattern: int
    page_size_bytes: int
    size_bytes: int
    chunks: int | None
    stride_bytes: int | None
    offset_bytes: int | None
    draws: int | None
    lines: int
    pages_4k: int
    pages_2m: int
    pages_1g: int
    resident_bytes: int
    proven_bytes: int
    accesses: int
    elapsed_ns: float
    cycles_per_ns: float

    @property
    def ns(self) -> float:
        """Per access."""
        return self.elapsed_ns / self.accesses

    @property
    def cycles(self) -> float:
        """Core cycles per access."""
        return self.ns * self.cycles_per_ns


@dataclass(frozen=True, slots=True)
class PageTimes:
    """All runs, and what there is no run of: `shortages` by pattern and bytes of a page.

    `sizes`: base pages first. `missing`: sizes that cannot be had at all. `gib`: memory of the
    patterns that are scaled.
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
        """The runs of one pattern on one size, by round."""
        key = pattern, page_size_bytes
        return [run for run in self.runs if (run.pattern, run.page_size_bytes) == key]

    def cost(
        self, pattern: int, page_size_bytes: int, value: Callable[[PatternRun], float]
    ) -> Interval | None:
        """Median of a value of the runs; None if there are fewer than three."""
        return _median([value(run) for run in self.runs_of(pattern, page_size_bytes)])

    def ratio(self, pattern: int, page_size_bytes: int) -> Interval | None:
        """Time on this size over that on base pages, run by run of a round; in core cycles."""
        base = {
            run.round: run.cycles for run in self.runs_of(pattern, self.sizes[0].page_size_bytes)
        }
        runs = self.runs_of(pattern, page_size_bytes)
        return _median([run.cycles / base[run.round] for run in runs if run.round in base])


def _median(values: Sequence[float]) -> Interval | None:
    import numpy as np

    from tlbcost.common import bootstrap

    return bootstrap.median(np.array(values, dtype=np.float64))


def read_run(round_: int, text: str) -> PatternRun:
    """What the program printed with --table 1. Raises TlbcostError if it is no such table."""
    # After the table comes the sum of what was read.
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
        round_, known["pattern"], known["page_size_bytes"], known["size_bytes"],
        cells["chunks"], cells["stride_bytes"], cells["offset_bytes"], cells["draws"],
        known["lines"], known["pages_4k"], known["pages_2m"], known["pages_1g"],
        known["resident_bytes"], known["proven_bytes"], known["accesses"], elapsed, rate,
    )  # fmt: skip
