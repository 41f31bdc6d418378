# SPDX-License-Identifier: GPL-2.0-or-later
"""How long does an access of each pattern take on pages of each size? Runs them in turn.

Each round runs a pattern on all sizes, one after the other, and begins with another size each time:
what drifts between runs does not favour one of them. A ratio is of two runs of the same round.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tlbcost.common import formats, paths
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.common.table import count, number, parse_table
from tlbcost.pagesizes.backing import Lack, PageSize, check_room, turned_on
from tlbcost.pagesizes.patterns import ARTICLE_GIB, GIB, LEAST_GIB, Pattern
from tlbcost.settings.change import Settings
from tlbcost.system import hints, hugetlb
from tlbcost.system.hugetlb import free_pages
from tlbcost.validation.suite import Listener

# Left to everything else beside the pages of one run: page tables, and the program's vector.
_BESIDE_BYTES = 512 << 20
# What a pattern without chunks has none of.
_DRAWN = ("chunks", "stride_bytes", "offset_bytes", "draws")


@dataclass(frozen=True, slots=True)
class Timed:
    """One run, as the program itself measured it; its pages were proven.

    `lines`, `pages_4k`, `pages_2m`, `pages_1g`: how many different ones the accesses were to.
    `chunks`, `stride_bytes`, `offset_bytes`, `draws` are None where all words are read at random.
    """

    round: int
    pattern: int
    page_bytes: int
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
    """All runs, and what there is no run of: `lacks` by pattern and bytes of a page.

    `sizes`: base pages first. `gib`: memory of the patterns that are scaled.
    """

    patterns: tuple[Pattern, ...]
    sizes: tuple[PageSize, ...]
    missing: Mapping[int, Lack]
    gib: int
    rounds: int
    accesses: int
    timed: tuple[Timed, ...]
    lacks: Mapping[tuple[int, int], Lack]

    def runs(self, pattern: int, page_bytes: int) -> list[Timed]:
        """The runs of one pattern on one size, by round."""
        return [t for t in self.timed if (t.pattern, t.page_bytes) == (pattern, page_bytes)]

    def cost(
        self, pattern: int, page_bytes: int, value: Callable[[Timed], float]
    ) -> Interval | None:
        """Median of a value of the runs; None if there are fewer than three."""
        return _median([value(run) for run in self.runs(pattern, page_bytes)])

    def ratio(self, pattern: int, page_bytes: int) -> Interval | None:
        """Time on this size over that on base pages, run by run of a round; in core cycles."""
        base = {run.round: run.cycles for run in self.runs(pattern, self.sizes[0].n_bytes)}
        runs = self.runs(pattern, page_bytes)
        return _median([run.cycles / base[run.round] for run in runs if run.round in base])


def _median(values: Sequence[float]) -> Interval | None:
    import numpy as np

    from tlbcost.common import bootstrap

    return bootstrap.median(np.array(values, dtype=np.float64))


@dataclass(slots=True)
class Runner:
    """Runs patterns on pages of several sizes; `settings` None: nothing is changed."""

    launcher: Listener
    settings: Settings | None
    announce: Callable[[str], None]
    accesses: int
    gib: int = field(default=ARTICLE_GIB, init=False)
    held: dict[int, int] = field(default_factory=dict, init=False)
    lacks: dict[tuple[int, int], Lack] = field(default_factory=dict, init=False)

    def run(
        self, patterns: Sequence[Pattern], sizes: Sequence[PageSize], rounds: int
    ) -> tuple[Timed, ...]:
        """All of it; what cannot be run is in `lacks`. Raises TlbcostError if the program fails."""
        timed: list[Timed] = []
        with self._held(patterns, sizes):
            for each in range(rounds):
                self.announce(f"round {each + 1} of {rounds}")
                for pattern in patterns:
                    first = (each + pattern.number) % len(sizes)
                    for size in (*sizes[first:], *sizes[:first]):
                        run = self._one(each, pattern, size)
                        timed += [run] if run is not None else []
        return tuple(timed)

    @contextlib.contextmanager
    def _held(self, patterns: Sequence[Pattern], sizes: Sequence[PageSize]) -> Iterator[None]:
        """Pools are filled before anything runs, the largest pages first: memory is in one piece.

        Smaller ones get what the patterns need, the largest what there is beside that.
        """
        pools = [size for size in reversed(sizes) if size.way == "pool"]
        with contextlib.ExitStack() as stack:
            if self.settings is not None and pools:
                stack.enter_context(self.settings.temporarily())
            for size in pools:
                others = [other for other in sizes if other.n_bytes < size.n_bytes]
                try:
                    self.held[size.n_bytes] = self._take(size, patterns, others)
                except TlbcostError as error:
                    self._lack_all(patterns, size, error)
                    continue
                gib = self.held[size.n_bytes] * size.n_bytes // GIB
                if size.n_bytes >= GIB and gib >= LEAST_GIB:
                    self.gib = min(self.gib, gib)
            yield

    def _take(self, size: PageSize, patterns: Sequence[Pattern], others: Sequence[PageSize]) -> int:
        """As many pages as the patterns need, or there are beside what smaller sizes need."""
        wanted = self._most(patterns, size)
        if self.settings is None:
            return min(wanted, free_pages(size.n_bytes))
        spare = hugetlb.spare_bytes()
        if spare is not None:
            pools = sum(self._most(patterns, o) * o.n_bytes for o in others if o.way == "pool")
            run = [self._most(patterns, o) * o.n_bytes for o in others if o.way != "pool"]
            beside = pools + max(run, default=0) + _BESIDE_BYTES
            wanted = min(wanted, max(1, (spare - beside) // size.n_bytes))
        return self.settings.reserve(size.n_bytes, wanted, 1)

    def _most(self, patterns: Sequence[Pattern], size: PageSize) -> int:
        """Pages of the pattern that needs most."""
        return max(each.pages(size.n_bytes, self.gib) for each in patterns)

    def _lack_all(self, patterns: Sequence[Pattern], size: PageSize, error: TlbcostError) -> None:
        self.announce(f"no pages of {size.name}: {error}")
        for pattern in patterns:
            self.lacks[pattern.number, size.n_bytes] = Lack(str(error), error.hint)

    def _one(self, round_: int, pattern: Pattern, size: PageSize) -> Timed | None:
        key = pattern.number, size.n_bytes
        if key in self.lacks:
            return None
        try:
            if size.way == "pool":
                self._check_held(size, pattern)
            else:
                check_room(size, pattern.pages(size.n_bytes, self.gib))
            with turned_on(size, self.settings):
                return self._execute(round_, pattern, size)
        except TlbcostError as error:
            if error.exit_code != CANNOT_MEASURE:
                raise
            self.announce(f"pattern {pattern.number} on {size.name} pages: {error}")
            self.lacks[key] = Lack(str(error), error.hint)
            return None

    def _check_held(self, size: PageSize, pattern: Pattern) -> None:
        held = self.held[size.n_bytes]
        if pattern.pages(size.n_bytes, self.gib) <= held:
            return
        # Were there so many, the pattern would be scaled to them.
        pages = pattern.pages(size.n_bytes, LEAST_GIB if size.n_bytes >= GIB else self.gib)
        name = hugetlb.size_name(size.n_bytes)
        command = f"tlbcost pool reserve --page-size {name} {pages - held}"
        raise TlbcostError(
            f"{hugetlb.describe(pages, size.n_bytes)} at least are needed, and there are {held}",
            "reserve them when the system starts: "
            f"hugepagesz={name} hugepages={pages} on the kernel's command line"
            if self.settings is not None
            else hints.as_root(command),
            CANNOT_MEASURE,
        )

    def _execute(self, round_: int, pattern: Pattern, size: PageSize) -> Timed:
        program = str(paths.workloads() / "page-patterns")
        options = {
            "pattern": pattern.number,
            "page": size.n_bytes,
            "madvise": int(size.way == "transparent"),
            "size": pattern.size(self.gib),
            "count": self.accesses,
            "table": 1,
        }
        words = [word for name, n in options.items() for word in (f"--{name}", str(n))]
        outcome = self.launcher.execute([program, *words], discard=True)
        _, text = self.launcher.heard.pop()
        if outcome.failed:
            said = outcome.last_words.strip().splitlines()
            raise TlbcostError(
                said[-1] if said else f"page-patterns {outcome.describe()}",
                None if outcome.exit_code == CANNOT_MEASURE else hints.rebuild(),
                CANNOT_MEASURE if outcome.exit_code == CANNOT_MEASURE else FAILED,
            )
        return read_run(round_, text)


def read_run(round_: int, text: str) -> Timed:
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
    return Timed(
        round_, known["pattern"], known["page_size_bytes"], known["size_bytes"],
        cells["chunks"], cells["stride_bytes"], cells["offset_bytes"], cells["draws"],
        known["lines"], known["pages_4k"], known["pages_2m"], known["pages_1g"],
        known["resident_bytes"], known["proven_bytes"], known["accesses"], elapsed, rate,
    )  # fmt: skip
