# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of each pattern on pages of each size, in turns.

Each round runs a pattern on all sizes, one after the other, starting with a different size each
time: drift between runs favours none of them.

A ratio is of two runs of the same round.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

from tlbcost.common import formats, paths, units
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.document import amount, doc
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError
from tlbcost.common.formats import count, number, parse_table
from tlbcost.common.progress import Progress
from tlbcost.common.units import Interval
from tlbcost.pagesizes.published import ARTICLE_GIB, GIB, LEAST_GIB, PATTERNS, Pattern
from tlbcost.run.launch import Listener, listener
from tlbcost.settings.change import Settings, system_settings
from tlbcost.settings.journal import undisturbed
from tlbcost.system import hints, huge_pages
from tlbcost.system.huge_pages import free_pages
from tlbcost.system.machine import (
    THP,
    current_machine,
    huge_page_bytes,
    huge_page_or_assumed,
    thp_mode,
    thp_sizes,
)

# base: the kernel's smallest; pool: reserved hugetlb pages; transparent: by madvise(2).
Way = Literal["base", "pool", "transparent"]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a page size is not available, or not for one pattern, and what fixes it."""

    reason: Annotated[str, doc("why there are no such pages")]
    hint: Annotated[str | None, doc("what to type; null: nothing helps")]


@dataclass(frozen=True, slots=True)
class PageSupply:
    """A page size, and how a program gets it."""

    page_size_bytes: Annotated[int, doc("size of the pages", minimum=1)]
    way: Annotated[Way, doc("base pages, a hugetlb pool, or madvise(2)")]

    @property
    def name(self) -> str:
        return units.size(self.page_size_bytes)


def supply_of(n_bytes: int, base_bytes: int) -> PageSupply | Shortage:
    """How to get pages of this size here: from a pool if possible, else by madvise(2)."""
    if n_bytes == base_bytes:
        return PageSupply(n_bytes, "base")
    pool = n_bytes in huge_pages.sizes()
    if pool and (hints.is_root() or huge_pages.free_pages(n_bytes)):
        return PageSupply(n_bytes, "pool")
    # Root can turn them on; others find huge ones on, if any.
    allowed = hints.is_root()
    if n_bytes == huge_page_bytes() and thp_mode() is not None:
        transparent = allowed or thp_mode() in ("always", "madvise")
    else:
        transparent = allowed and n_bytes in thp_sizes()
    if transparent:
        return PageSupply(n_bytes, "transparent")
    name = units.size(n_bytes)
    why = f"transparent pages of {name} are off, and only root can turn them on and prove them"
    if pool:
        why = f"the pool of {name} pages is empty, and only root can fill it"
    if pool or n_bytes in thp_sizes():
        return Shortage(why, hints.again_as_root())
    known = map(huge_pages.size_name, [base_bytes, *sorted({*huge_pages.sizes(), *thp_sizes()})])
    return Shortage(f"this kernel has no pages of {name}", f"--size with some of {','.join(known)}")


@contextlib.contextmanager
def turned_on(size: PageSupply, settings: Settings | None) -> Iterator[None]:
    """Transparent pages of this size are on within it, for programs that request them."""
    if settings is None or size.way != "transparent":
        yield
        return
    with settings.temporarily():
        if not thp_sizes():
            settings.write(f"{THP}/enabled", "madvise")
        # Of the enabled sizes a page fault takes the largest.
        for each in thp_sizes():
            if each >= size.page_size_bytes:
                mode = "madvise" if each == size.page_size_bytes else "never"
                settings.write(f"{THP}/hugepages-{each >> 10}kB/enabled", mode)
        yield


# Keys that a pattern without chunks lacks.
_DRAWN = ("chunks", "stride_bytes", "offset_bytes", "draws")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What a pattern reads. None: it was not run, or it draws nothing and reads all at random."""

    chunks: Annotated[int | None, amount("places that are drawn from")] = None
    stride_bytes: Annotated[int | None, amount("between these")] = None
    offset_bytes: Annotated[int | None, amount("added to each, once more each time")] = None
    draws: Annotated[int | None, amount("number of draws")] = None
    lines: Annotated[int | None, amount("different ones that are read")] = None
    pages_4k: Annotated[int | None, amount("the same of pages of 4 KiB")] = None
    pages_2m: Annotated[int | None, amount("the same of pages of 2 MiB")] = None
    pages_1g: Annotated[int | None, amount("the same of pages of 1 GiB")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """One run, as the program itself measured it."""

    round: Annotated[int, amount("its round, from 0")]
    elapsed_ns: Annotated[float, doc("of all accesses")]
    cycles_per_ns: Annotated[float, doc("rate of the core, measured alongside")]
    resident_bytes: Annotated[int, amount("memory of the pattern")]
    proven_bytes: Annotated[int, amount("of these, proven to be on such pages")]


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


# For another tlbcost to restore the settings.
_WAIT_S = 60.0
# Fewer ratios have no interval.
FEWEST_ROUNDS = 3
# Reserved for everything but the pages of one run: page tables, and the program's vector.
_EXTRA_BYTES = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSizesRequest:
    """What to measure. `patterns`: their numbers; empty: all. `sizes`: in bytes, besides base
    pages; empty: the huge page and 1 GiB. `multi_size`: those of smaller transparent pages, too.
    """

    accesses: int
    rounds: int
    patterns: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    multi_size: bool = False


def measure(request: PageSizesRequest, announce: Callable[[str], None]) -> PageTimes:
    """Run the patterns on all sizes available to this user here. Raises TlbcostError."""
    patterns = [p for p in PATTERNS if not request.patterns or p.number in request.patterns]
    sizes, missing = _sizes(request, announce)
    if len(sizes) == 1:
        why = next(iter(missing.values()), Shortage("none requested", None))
        what = f"no larger page size to measure: {why.reason}"
        raise TlbcostError(what, why.hint, CANNOT_MEASURE)
    settings: Settings | None = None
    with contextlib.ExitStack() as stack:
        launcher = stack.enter_context(listener())
        # Our own program: as root it may look up the frames that prove small transparent pages.
        launcher.user = None
        launcher.transparent = None
        if hints.is_root():
            settings = stack.enter_context(system_settings(announce))
        else:
            stack.enter_context(undisturbed(announce, _WAIT_S))
        runner = Runner(launcher, settings, announce, request.accesses)
        runs = runner.run(patterns, sizes, request.rounds)
    rounds = len({run.time.round for run in runs})
    return PageTimes(
        tuple(patterns), tuple(sizes), missing, runner.gib, rounds, request.accesses, runs,
        runner.shortages,
    )  # fmt: skip


def _sizes(
    request: PageSizesRequest, announce: Callable[[str], None]
) -> tuple[list[PageSupply], Mapping[int, Shortage]]:
    """Base pages and the available larger sizes, ascending; and why others are not."""
    base, huge = current_machine().base_page_bytes, huge_page_bytes()
    assumed, _ = huge_page_or_assumed(current_machine())
    asked = {base, *(request.sizes or (assumed, 1 << 30))}
    if request.multi_size:
        asked |= {size for size in thp_sizes() if size < (huge or 0)}
    sizes, missing = [], {}
    for size in sorted(asked):
        found = supply_of(size, base)
        if isinstance(found, Shortage):
            announce(f"no pages of {units.size(size)}: {found.reason}")
            missing[size] = found
        else:
            sizes.append(found)
    return sizes, missing


@dataclass(slots=True)
class Runner:
    """Runs patterns on pages of several sizes; `settings` None: nothing is changed."""

    launcher: Listener
    settings: Settings | None
    announce: Callable[[str], None]
    accesses: int
    gib: int = field(default=ARTICLE_GIB, init=False)
    held: dict[int, int] = field(default_factory=dict, init=False)
    shortages: dict[tuple[int, int], Shortage] = field(default_factory=dict, init=False)

    def run(
        self, patterns: Sequence[Pattern], sizes: Sequence[PageSupply], rounds: int
    ) -> tuple[PatternRun, ...]:
        """What cannot be run is in `shortages`. Raises TlbcostError if the program fails."""
        found: list[PatternRun] = []
        each = 0
        try:
            with self._held(patterns, sizes), Progress(f"{rounds} rounds") as progress:
                for each in range(rounds):
                    self.announce(f"round {each + 1} of {rounds}")
                    for n, pattern in enumerate(patterns):
                        progress.part(each * len(patterns) + n, rounds * len(patterns))
                        first = (each + pattern.number) % len(sizes)
                        for size in (*sizes[first:], *sizes[:first]):
                            run = self._one(each, pattern, size)
                            found += [run] if run is not None else []
        except TimeLimitPassed:
            if each < FEWEST_ROUNDS:
                raise
            self.announce(f"the time limit passed: {each} of {rounds} rounds were run")
            return tuple(run for run in found if run.time.round < each)
        return tuple(found)

    @contextlib.contextmanager
    def _held(self, patterns: Sequence[Pattern], sizes: Sequence[PageSupply]) -> Iterator[None]:
        """Pools are filled before anything runs, the largest pages first, while memory is
        unfragmented.

        Smaller ones get what the patterns need, the largest the rest.
        """
        pools = [size for size in reversed(sizes) if size.way == "pool"]
        with contextlib.ExitStack() as stack:
            if self.settings is not None and pools:
                stack.enter_context(self.settings.temporarily())
            for size in pools:
                others = [other for other in sizes if other.page_size_bytes < size.page_size_bytes]
                try:
                    self.held[size.page_size_bytes] = self._take(size, patterns, others)
                except TlbcostError as error:
                    self.announce(f"no pages of {size.name}: {error}")
                    shortage = Shortage(str(error), error.hint)
                    for pattern in patterns:
                        self.shortages[pattern.number, size.page_size_bytes] = shortage
                    continue
                gib = self.held[size.page_size_bytes] * size.page_size_bytes // GIB
                if size.page_size_bytes >= GIB and gib >= LEAST_GIB:
                    self.gib = min(self.gib, gib)
            yield

    def _take(
        self, size: PageSupply, patterns: Sequence[Pattern], others: Sequence[PageSupply]
    ) -> int:
        """As many pages as the patterns need, or as the needs of smaller sizes leave."""
        wanted = self._most(patterns, size)
        if self.settings is None:
            return min(wanted, free_pages(size.page_size_bytes))
        spare = huge_pages.spare_bytes()
        if spare is not None:
            pools = sum(
                self._most(patterns, o) * o.page_size_bytes for o in others if o.way == "pool"
            )
            run = [self._most(patterns, o) * o.page_size_bytes for o in others if o.way != "pool"]
            extra = pools + max(run, default=0) + _EXTRA_BYTES
            wanted = min(wanted, max(1, (spare - extra) // size.page_size_bytes))
        return self.settings.reserve(size.page_size_bytes, wanted, 1)

    def _most(self, patterns: Sequence[Pattern], size: PageSupply) -> int:
        return max(each.pages(size.page_size_bytes, self.gib) for each in patterns)

    def _one(self, round_: int, pattern: Pattern, size: PageSupply) -> PatternRun | None:
        key = pattern.number, size.page_size_bytes
        if key in self.shortages:
            return None
        try:
            self._check_room(size, pattern)
            with turned_on(size, self.settings):
                return self._execute(round_, pattern, size)
        except TlbcostError as error:
            if error.exit_code != CANNOT_MEASURE:
                raise
            self.announce(f"pattern {pattern.number} on {size.name} pages: {error}")
            self.shortages[key] = Shortage(str(error), error.hint)
            return None

    def _check_room(self, size: PageSupply, pattern: Pattern) -> None:
        """Refuse pages that the pool, or the machine, lacks: TlbcostError, exit code 4."""
        n_bytes = size.page_size_bytes
        pages = pattern.pages(n_bytes, self.gib)
        if size.way != "pool":
            spare, needed = huge_pages.spare_bytes(), units.size(pages * n_bytes)
            if spare is not None and pages * n_bytes > spare:
                why = f"{needed} are needed, and this machine can spare {units.size(spare)}"
                raise TlbcostError(why, None, CANNOT_MEASURE)
            return
        held = self.held[n_bytes]
        if pages <= held:
            return
        # With that many, the pattern would be scaled to them.
        pages = pattern.pages(n_bytes, LEAST_GIB if n_bytes >= GIB else self.gib)
        name = huge_pages.size_name(n_bytes)
        command = f"tlbcost pool reserve --page-size {name} {pages - held}"
        raise TlbcostError(
            f"{huge_pages.describe(pages, n_bytes)} are needed at least, and there are {held}",
            "reserve them when the system starts: "
            f"hugepagesz={name} hugepages={pages} on the kernel's command line"
            if self.settings is not None
            else hints.as_root(command),
            CANNOT_MEASURE,
        )

    def _execute(self, round_: int, pattern: Pattern, size: PageSupply) -> PatternRun:
        program = str(paths.workloads() / "page-patterns")
        options = {
            "pattern": pattern.number,
            "page": size.page_size_bytes,
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
