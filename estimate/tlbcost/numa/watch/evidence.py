# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a process's accesses go by few samples, and how sure that is.

A page that was seen once looks as if it belonged to whoever was seen: the fewer the samples, the
better splitting seems to be. So the node of each page is chosen by one half of the samples, and
what that gains is counted in the other half. Samples of one window come from one thread within
milliseconds and are not independent: limits are those of a mean over windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tlbcost.numa import placement
from tlbcost.numa.locality import Score
from tlbcost.numa.placement import Ints, NodePages

# Student's t: 5 % lie above it, by degrees of freedom.
_T95 = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81)
_T95_MORE = 1.81

# A node with less of the CPU time may remain without a window.
LEAST_CPU = 0.1
# Weights are whole numbers, as counts are: this is 1.
_SCALE = 100

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# From accesses by page and node to a node for each page.
_Choice = Callable[[Ints], Ints]


@dataclass(frozen=True, slots=True)
class ThreadWindow:
    """Accesses of one thread in a moment: base pages, and how often DRAM was reached there.

    `node`: of the CPU that the thread ran on; -1: not known yet. `walk_misses` of `l2_misses` are
    those of page walks on base pages; None: the source does not report it.
    """

    at_s: float
    thread: int
    node: int
    pages: Ints
    counts: Ints
    l2_misses: int | None = None
    walk_misses: int | None = None


@dataclass(frozen=True, slots=True)
class Lar:
    """Local accesses as a share: the value, and the lower 95 % limit of a gain over another."""

    value: float
    gain: float
    least_gain: float


class PageEvidence:
    """The windows of the last seconds, and where their pages are now.

    `page`: base pages seen, sorted; `node` of each, -1: it is not in memory; `huge`: whether it is
    part of a huge page. Pages without a node do not count. `cpu_share`: of the process's CPU time
    on each node, which windows of that node stand for, however few there are. `fold`: base pages of
    a huge page.
    """

    def __init__(
        self,
        windows: Sequence[ThreadWindow],
        page: Ints,
        node: Ints,
        huge: Bools,
        cpu_share: Sequence[float],
        fold: int,
    ) -> None:
        self.nodes, self.fold = len(cpu_share), fold
        present = node >= 0
        windows = sorted(windows, key=lambda each: each.at_s)
        self._window, self._page, self._count = _rows(windows, page, present)
        self.page, self.node, self.huge = page[present], node[present], huge[present]
        self.window_node = np.array([each.node for each in windows], dtype=np.int64)
        self.windows = len(np.unique(self._window))
        self.samples = int(self._count.sum())
        of_node = np.bincount(self.window_node, minlength=self.nodes)
        self.unseen_nodes = tuple(
            int(at) for at in np.flatnonzero((np.array(cpu_share) >= LEAST_CPU) & (of_node == 0))
        )
        weight = _SCALE * len(windows) * np.array(cpu_share) / np.maximum(of_node, 1)
        self._weight = np.maximum(np.rint(weight), 1).astype(np.int64)[self.window_node]
        self.pages = self._as_pages()
        self.accesses = self._by_node(self._count)
        # Of each window's accesses to each page; of an odd one, now this, now that.
        first = (self._count + ((self._page + self._window) & 1)) // 2
        self._halves = first, self._count - first

    def _as_pages(self) -> NodePages:
        """The same in the form that the functions of placements take."""
        region = self.page // self.fold
        key = np.where(self.huge, -1 - region, self.page)
        unique, first, unit = np.unique(key, return_index=True, return_inverse=True)
        empty = np.zeros(0, dtype=np.int64)
        return NodePages(
            nodes=self.nodes,
            accesses=np.zeros((0, len(self.page), self.nodes), dtype=np.int64),
            number=self.page,
            written=np.zeros(len(self.page), dtype=np.int64),
            first_node=self.node,
            unit=unit.reshape(-1),
            is_huge=unique < 0,
            unit_number=np.where(unique < 0, -1 - unique, unique),
            unit_first=self.node[first],
            unit_page=first,
            faults=empty,
            huge_faults=(empty, empty),
        )

    def _by_node(self, count: Ints) -> Ints:
        accesses = np.zeros((len(self.page), self.nodes), dtype=np.int64)
        weighed = count * self._weight[self._window]
        np.add.at(accesses, (self._page, self.window_node[self._window]), weighed)
        return accesses

    def score(self, home: Ints | None = None) -> Score:
        return placement.score(self.accesses, self.node if home is None else home)

    def seen(self) -> Ints:
        return np.asarray(np.bincount(self._page, self._count, minlength=len(self.page)))

    def moved(self, by: Ints | None = None) -> Ints:
        """The main user's node of each page, by all accesses or by these."""
        by = self.accesses if by is None else by
        return placement.by_main_user(self.pages, by, huge=True)

    def lar_moved(self) -> Lar:
        """Local accesses with each page on its main user's node, against now."""
        return self._compare(self.moved, None)

    def lar_split(self) -> Lar:
        """The same with huge pages split first, against moving them whole."""

        def split(by: Ints) -> Ints:
            # A piece that was not seen goes with the rest of its huge page.
            pieces = placement.by_main_user(self.pages, by, huge=False)
            return np.where(by.sum(axis=1) > 0, pieces, self.moved(by))

        return self._compare(split, self.moved)

    def _compare(self, choose: _Choice, other: _Choice | None) -> Lar:
        size = np.zeros(len(self.window_node))
        hits, before = size.copy(), size.copy()
        for fit, test in (self._halves, self._halves[::-1]):
            by = self._by_node(fit)
            size += self._per_window(test)
            hits += self._per_window(test, choose(by))
            before += self._per_window(test, self.node if other is None else other(by))
        if not size.sum():
            return Lar(0.0, 0.0, -1.0)
        gain, least = _least_ratio(hits - before, size)
        return Lar(float(hits.sum() / size.sum()), gain, least)

    def _per_window(self, count: Ints, home: Ints | None = None) -> Floats:
        """Accesses of each window; with `home`, the local ones if pages are there."""
        if home is not None:
            count = np.where(home[self._page] == self.window_node[self._window], count, 0)
        weighed = count * self._weight[self._window]
        summed = np.bincount(self._window, weighed, minlength=len(self.window_node))
        return np.asarray(summed, dtype=np.float64)

    def hot_units(self, above: float) -> Ints:
        """Huge pages that several nodes access, and that surely have more than this share."""
        by = self.pages.by_unit(self.accesses).sum(axis=1)
        whole = self._per_window(self._count)
        found = []
        for unit in np.flatnonzero(self._shared() & (by > above * by.sum())):
            own = np.where(self.pages.unit[self._page] == unit, self._count, 0)
            if _least_ratio(self._per_window(own), whole)[1] > above:
                found.append(unit)
        return np.array(found, dtype=np.int64)

    def perhaps_hot(self, above: float) -> bool:
        """Whether a huge page that several nodes access may have more than this share."""
        by = self.pages.by_unit(self.accesses)
        several = self.pages.is_huge & ((by > 0).sum(axis=1) > 1)
        return bool((several & (by.sum(axis=1) > above * by.sum())).any())

    def shared_units(self) -> Ints:
        """Huge pages whose accesses come from several nodes."""
        return np.flatnonzero(self._shared())

    def _shared(self) -> Bools:
        """In the older half of the windows, and in the newer one.

        A page that one node used, and then another, is not shared: it only has to move.
        """
        older = self._window < len(self.window_node) / 2
        shared = self.pages.is_huge.copy()
        for chosen in (older, ~older):
            by = self.pages.by_unit(self._by_node(np.where(chosen, self._count, 0)))
            shared &= (by > 0).sum(axis=1) > 1
        return shared


def _rows(windows: Sequence[ThreadWindow], page: Ints, present: Bools) -> tuple[Ints, Ints, Ints]:
    """Window, index of the page among those present, count."""
    index = np.cumsum(present) - 1
    parts: list[tuple[Ints, Ints, Ints]] = []
    for number, window in enumerate(windows):
        at = np.searchsorted(page, window.pages)
        at = np.minimum(at, max(len(page) - 1, 0))
        known = (page[at] == window.pages) & present[at] if len(page) else at < 0
        chosen = index[at[known]] if len(page) else at[known]
        parts.append((np.full(len(chosen), number), chosen, window.counts[known]))
    empty = np.zeros(0, dtype=np.int64)
    window_of, page_of, count = zip((empty, empty, empty), *parts, strict=True)
    return np.concatenate(window_of), np.concatenate(page_of), np.concatenate(count)


def _least_ratio(part: Floats, size: Floats) -> tuple[float, float]:
    """A ratio of sums over windows, and its lower 95 % limit.

    The ratio estimator's linearised variance (Cochran, Sampling Techniques, 1977, section 6.3),
    with Student's t. Fewer than two windows have no limit: -1.
    """
    used = size > 0
    n, total = int(used.sum()), float(size.sum())
    ratio = float(part.sum()) / total
    if n < 2:
        return ratio, -1.0
    rest = part[used] - ratio * size[used]
    error = math.sqrt(n / (n - 1) * float((rest**2).sum())) / total
    t = _T95[n - 2] if n - 2 < len(_T95) else _T95_MORE
    return ratio, ratio - t * error


def walk_fraction(windows: Collection[ThreadWindow]) -> float | None:
    """The share of the L2 misses that page walks on base pages cause; None: not known."""
    known = [w for w in windows if w.l2_misses is not None and w.walk_misses is not None]
    misses = sum(w.l2_misses or 0 for w in known)
    return sum(w.walk_misses or 0 for w in known) / misses if misses else None


def pages_of(windows: Sequence[ThreadWindow]) -> Ints:
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(w.pages for w in windows)]))


def least_walk_fraction(windows: Collection[ThreadWindow]) -> float | None:
    """The lower 95 % limit of the same; None: not known."""
    known = [w for w in windows if w.l2_misses and w.walk_misses is not None]
    if len(known) < 2:
        return None
    walks = np.array([w.walk_misses for w in known], dtype=np.float64)
    return max(_least_ratio(walks, np.array([w.l2_misses for w in known], dtype=np.float64))[1], 0)
