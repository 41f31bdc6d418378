# SPDX-License-Identifier: GPL-2.0-or-later
"""How long does an access of each pattern take on pages of each size? Runs them in turn.

Each round runs a pattern on all sizes, one after the other, starting with a different size each
time: drift between runs favours none of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tlbcost.common import paths, units
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError
from tlbcost.common.progress import Progress
from tlbcost.pagesizes.page_size import PageSupply, Shortage, check_room, supply_of, turned_on
from tlbcost.pagesizes.patterns import ARTICLE_GIB, GIB, LEAST_GIB, PATTERNS, Pattern
from tlbcost.pagesizes.runs import PageTimes, PatternRun, read_run
from tlbcost.settings.change import Settings, system_settings
from tlbcost.settings.journal import undisturbed
from tlbcost.system import hints, huge_pages
from tlbcost.system.huge_pages import free_pages
from tlbcost.system.machine import (
    current_machine,
    huge_page_bytes,
    huge_page_or_assumed,
    thp_sizes,
)
from tlbcost.validation.listener import Listener, listener

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
        reason, hint = next(
            ((each.reason, each.hint) for each in missing.values()), ("none requested", None)
        )
        raise TlbcostError(f"no larger page size to measure: {reason}", hint, CANNOT_MEASURE)
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
            if size.way == "pool":
                self._check_held(size, pattern)
            else:
                check_room(size, pattern.pages(size.page_size_bytes, self.gib))
            with turned_on(size, self.settings):
                return self._execute(round_, pattern, size)
        except TlbcostError as error:
            if error.exit_code != CANNOT_MEASURE:
                raise
            self.announce(f"pattern {pattern.number} on {size.name} pages: {error}")
            self.shortages[key] = Shortage(str(error), error.hint)
            return None

    def _check_held(self, size: PageSupply, pattern: Pattern) -> None:
        n_bytes = size.page_size_bytes
        held = self.held[n_bytes]
        if pattern.pages(n_bytes, self.gib) <= held:
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
