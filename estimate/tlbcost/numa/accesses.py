# SPDX-License-Identifier: GPL-2.0-or-later
"""How local and how even would a program's DRAM accesses be on a NUMA machine?

Pure functions from what each thread accessed to figures of placements. A placement gives each base
page the node that it lies on; on huge pages all base pages of one have the same. Definitions and
their sources are in doc/numa.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tlbcost.numa.locality import Score
from tlbcost.numa.nodes import Spread, spread_threads
from tlbcost.numa.placement_table import KINDS, ImagePlacement

HOT_FRACTION = 0.06
# User addresses end below 2^57: pages of another process image are told apart above that.
_IMAGE_SHIFT = 46

Ints = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pages:
    """What nodes accessed, base page by base page, of all process images together.

    `accesses` is indexed by interval, page and node. `unit`: the page that a base page belongs to
    where there are huge pages, from 0; those with `is_huge` are huge. `first_node`: of the thread
    that touched it first; `unit_first` the same of the unit, and `unit_page` its base page that
    was. `number`: of the base page, for interleaving. `written`: bit i if it was in interval i.
    `faults` and `huge_faults`: anonymous pages first touched by each thread on base pages, and
    (base, huge) pages where there are huge ones.
    """

    nodes: int
    accesses: Ints
    number: Ints
    written: Ints
    first_node: Ints
    unit: Ints
    is_huge: NDArray[np.bool_]
    unit_number: Ints
    unit_first: Ints
    unit_page: Ints
    faults: Ints
    huge_faults: tuple[Ints, Ints]

    @property
    def totals(self) -> Ints:
        """Accesses to each page by each node, over all intervals."""
        return np.asarray(self.accesses.sum(axis=0))


@dataclass(frozen=True, slots=True)
class HotPages:
    """Pages with more than HOT_FRACTION of all accesses; `largest_fraction` of any page."""

    count: int
    fraction: float
    largest_fraction: float


def gather(images: Sequence[ImagePlacement], nodes: int, spread: Spread = "round-robin") -> Pages:
    """Put all process images together: their threads spread over so many nodes.

    Raises ValueError if there is none.
    """
    if not images:
        raise ValueError("no process image")
    started = np.cumsum([0, *(_thread_count(image) for image in images)])
    node_of = spread_threads(int(started[-1]), nodes, spread)
    rows = [np.concatenate([_tagged(i, image.pages) for i, image in enumerate(images)])]
    threads = np.concatenate([image.threads - 1 + started[i] for i, image in enumerate(images)])
    touched = np.concatenate([_tagged(i, image.touched_pages) for i, image in enumerate(images)])
    toucher = np.concatenate(
        [image.touched_threads - 1 + started[i] for i, image in enumerate(images)]
    )
    kinds = np.concatenate([image.touched_kinds for image in images])
    number, index = np.unique(np.concatenate([touched, rows[0]]), return_inverse=True)
    index = index.reshape(-1)
    at_touch, at_row = index[: len(touched)], index[len(touched) :]
    # A page without a first touch of its own is of no anonymous memory: it stays a base page.
    order = np.full(len(number), len(touched), dtype=np.int64)
    order[at_touch[::-1]] = np.arange(len(touched))[::-1]
    kind = np.full(len(number), KINDS.index("other"), dtype=np.int64)
    kind[at_touch[::-1]] = kinds[::-1]
    first = np.zeros(len(number), dtype=np.int64)
    first[at_row[::-1]] = threads[::-1]
    first[at_touch[::-1]] = toucher[::-1]
    # All intervals of all pages: this is what takes memory.
    used = max(image.intervals for image in images)
    accesses = np.zeros((used, len(number), nodes), dtype=np.int32)
    counted = np.concatenate([image.accesses for image in images])
    for interval in range(used):
        np.add.at(accesses[interval], (at_row, node_of[threads]), counted[:, interval])
    written = np.zeros(len(number), dtype=np.int64)
    np.bitwise_or.at(written, at_row, np.concatenate([image.written for image in images]))
    per_huge = images[0].huge_page_bytes // images[0].base_page_bytes
    unit, is_huge, unit_number, unit_page = _units(number, order, kind, per_huge)
    faults, huge_faults = _faults(first, kind, is_huge, unit_page, int(started[-1]))
    return Pages(
        nodes=nodes,
        accesses=accesses,
        number=number,
        written=written,
        first_node=node_of[first],
        unit=unit,
        is_huge=is_huge,
        unit_number=unit_number,
        unit_first=node_of[first[unit_page]],
        unit_page=unit_page,
        faults=faults,
        huge_faults=huge_faults,
    )


def _thread_count(image: ImagePlacement) -> int:
    seen = [int(array.max()) for array in (image.threads, image.touched_threads) if len(array)]
    return max(seen, default=0)


def _tagged(image: int, pages: Ints) -> Ints:
    return pages | (np.int64(image) << _IMAGE_SHIFT)


def _units(
    number: Ints, order: Ints, kind: Ints, per_huge: int
) -> tuple[Ints, NDArray[np.bool_], Ints, Ints]:
    """The pages that there are with huge pages: of each base page, its unit.

    A region gets a huge page if one fitted when it was touched first; else it, and what is not
    anonymous, stays on base pages.
    """
    region = number // per_huge
    anonymous = kind != KINDS.index("other")
    ids = np.where(anonymous, region, -1)
    huge = np.zeros(len(number), dtype=np.bool_)
    first = np.lexsort((order, ids))
    begins = np.flatnonzero(np.diff(ids[first], prepend=-2) != 0)
    for begin, end in zip(begins, [*begins[1:], len(first)], strict=True):
        members = first[begin:end]
        if ids[members[0]] >= 0 and kind[members[0]] == KINDS.index("huge"):
            huge[members] = True
    # Regions are told from base pages by a number that no page has.
    key = np.where(huge, -1 - region, number)
    unique, unit = np.unique(key, return_inverse=True)
    unit = unit.reshape(-1)
    page = np.zeros(len(unique), dtype=np.int64)
    latest_first = np.argsort(-order, kind="stable")
    page[unit[latest_first]] = latest_first
    is_huge = unique < 0
    return unit, is_huge, np.where(is_huge, -1 - unique, unique), page


def _faults(
    first: Ints, kind: Ints, is_huge: NDArray[np.bool_], unit_page: Ints, threads: int
) -> tuple[Ints, tuple[Ints, Ints]]:
    anonymous = kind != KINDS.index("other")
    units = anonymous[unit_page]
    by = first[unit_page]
    return (
        np.bincount(first[anonymous], minlength=threads),
        (
            np.bincount(by[units & ~is_huge], minlength=threads),
            np.bincount(by[units & is_huge], minlength=threads),
        ),
    )


def first_touch(pages: Pages, *, huge: bool) -> Ints:
    """Each page is on the node of the thread that touches it first."""
    return pages.unit_first[pages.unit] if huge else pages.first_node


def interleaved(pages: Pages, *, huge: bool) -> Ints:
    """Each page is on the node after that of the page before."""
    number = pages.unit_number[pages.unit] if huge else pages.number
    return np.asarray(number % pages.nodes)


def by_main_user(pages: Pages, accesses: Ints, *, huge: bool) -> Ints:
    """Each page is on the node that accesses it most; without accesses, where it was.

    Of nodes that access it equally, the one that touched it first is taken, else the first.
    """
    before = pages.unit_first if huge else pages.first_node
    by = _by_unit(pages, accesses) if huge else accesses
    index = np.arange(len(by))
    most = by.argmax(axis=1)
    stay = by[index, before] == by[index, most]
    home = np.where(stay, before, most)
    return home[pages.unit] if huge else home


def touched_by_users(pages: Pages, *, huge: bool) -> Ints:
    """First touch in the same order, but of each base page by the node that accesses it most."""
    users = by_main_user(pages, pages.totals, huge=False)
    return users[pages.unit_page][pages.unit] if huge else users


def _by_unit(pages: Pages, accesses: Ints) -> Ints:
    summed = np.zeros((len(pages.is_huge), pages.nodes), dtype=np.int64)
    np.add.at(summed, pages.unit, accesses)
    return summed


def score(accesses: Ints, home: Ints) -> Score:
    """The figures of a placement: of each page, its accesses by node and the node it is on."""
    everything = int(accesses.sum())
    if everything == 0:
        return Score(None, None)
    local = int(accesses[np.arange(len(home)), home].sum())
    served = np.bincount(home, weights=accesses.sum(axis=1), minlength=accesses.shape[1])
    return Score(local / everything, imbalance(np.asarray(served, dtype=np.float64)))


def replicated(accesses: Ints, home: Ints, copied: NDArray[np.bool_]) -> Score:
    """The same, but of each page in `copied` every node has a copy of its own."""
    everything = int(accesses.sum())
    if everything == 0:
        return Score(None, None)
    local = int(accesses[np.arange(len(home)), home][~copied].sum())
    own = accesses[copied].sum(axis=0)
    nodes = accesses.shape[1]
    others = np.bincount(home[~copied], accesses[~copied].sum(axis=1), minlength=nodes)
    served = np.asarray(others + own, dtype=np.float64)
    return Score((local + int(own.sum())) / everything, imbalance(served))


def imbalance(served: Floats) -> float | None:
    """Sample standard deviation over mean, as Carrefour's daemon has it; None of one node."""
    if len(served) < 2 or served.mean() == 0:
        return None
    return float(served.std(ddof=1) / served.mean())


def read_only(pages: Pages) -> NDArray[np.bool_]:
    """Pages that are not written after the first interval in which they are accessed.

    Of a run of one interval, pages that are not written at all.
    """
    if len(pages.accesses) < 2:
        return np.asarray(pages.written == 0)
    accessed = pages.accesses.sum(axis=2) > 0
    first = np.where(accessed.any(axis=0), accessed.argmax(axis=0), 0)
    return np.asarray(pages.written >> (first + 1) == 0)


def hot_shared(pages: Pages, accesses: Ints) -> NDArray[np.bool_]:
    """Of each unit, whether it is a hot huge page that several nodes access: one to be split."""
    by = _by_unit(pages, accesses)
    hot = by.sum(axis=1) > HOT_FRACTION * by.sum()
    return np.asarray(hot & pages.is_huge & ((by > 0).sum(axis=1) > 1))


def hot_pages(pages: Pages, *, huge: bool) -> HotPages | None:
    """The hot pages of the whole run; None without accesses."""
    by = _by_unit(pages, pages.totals).sum(axis=1) if huge else pages.totals.sum(axis=1)
    everything = int(by.sum())
    if everything == 0:
        return None
    hot = by > HOT_FRACTION * everything
    return HotPages(int(hot.sum()), float(by[hot].sum() / everything), float(by.max() / everything))


def hot_split(pages: Pages, accesses: Ints, home: Ints) -> Ints:
    """The placement, but hot huge pages are split, and their base pages interleaved."""
    hot = hot_shared(pages, accesses)
    return np.where(hot[pages.unit], pages.number % pages.nodes, home)


def false_sharing(pages: Pages) -> float | None:
    """Share of the accesses that go to huge pages whose base pages belong on different nodes.

    A base page belongs on a node that makes more than half of its accesses; one that several use
    alike belongs nowhere. None without accesses.
    """
    by = pages.totals
    each = by.sum(axis=1)
    if each.sum() == 0:
        return None
    user = by.argmax(axis=1)
    owned = 2 * by.max(axis=1) > each
    least = np.full(len(pages.is_huge), pages.nodes)
    most = np.full(len(pages.is_huge), -1)
    np.minimum.at(least, pages.unit[owned], user[owned])
    np.maximum.at(most, pages.unit[owned], user[owned])
    shared = (most > least) & pages.is_huge
    return float(each[shared[pages.unit]].sum() / each.sum())
