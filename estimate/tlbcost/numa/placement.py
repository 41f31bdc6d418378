# SPDX-License-Identifier: GPL-2.0-or-later
"""Locality and balance of a program's DRAM accesses on a NUMA machine.

Pure functions from what each node accessed to figures of placements. A placement gives each base
page its node; all base pages of a huge page have the same one. Definitions and their sources are in
doc/numa.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tlbcost.common.document import doc
from tlbcost.numa.locality import Score
from tlbcost.numa.nodes import Ints, NodePages

HOT_FRACTION = 0.06

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HotPages:
    """Pages with more than HOT_FRACTION of all accesses."""

    count: Annotated[int, doc("pages with more than 6 % of all accesses", minimum=0)]
    fraction: Annotated[float, doc("their share of the accesses", minimum=0, maximum=1)]
    largest_fraction: Annotated[
        float, doc("the share of the page with most accesses", minimum=0, maximum=1)
    ]


def first_touch(pages: NodePages, *, huge: bool) -> Ints:
    return pages.unit_first[pages.unit] if huge else pages.first_node


def interleaved(pages: NodePages, *, huge: bool) -> Ints:
    number = pages.unit_number[pages.unit] if huge else pages.number
    return np.asarray(number % pages.nodes)


def by_main_user(pages: NodePages, accesses: Ints, *, huge: bool) -> Ints:
    """The node that accesses a page most; of equals, or without any, the first to touch it."""
    before = pages.unit_first if huge else pages.first_node
    by = pages.by_unit(accesses) if huge else accesses
    index = np.arange(len(by))
    most = by.argmax(axis=1)
    stay = by[index, before] == by[index, most]
    home = np.where(stay, before, most)
    return home[pages.unit] if huge else home


def touched_by_users(pages: NodePages, *, huge: bool) -> Ints:
    """First touch in the same order, but of each base page by the node that accesses it most."""
    users = by_main_user(pages, pages.totals, huge=False)
    return users[pages.unit_page][pages.unit] if huge else users


def score(accesses: Ints, home: Ints) -> Score:
    everything = int(accesses.sum())
    if everything == 0:
        return Score(None, None)
    local = int(accesses[np.arange(len(home)), home].sum())
    served = np.bincount(home, weights=accesses.sum(axis=1), minlength=accesses.shape[1])
    return Score(local / everything, imbalance(np.asarray(served, dtype=np.float64)))


def replicated(accesses: Ints, home: Ints, copied: NDArray[np.bool_]) -> Score:
    """The same, but every node has its own copy of each page in `copied`."""
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
    """Sample standard deviation over mean, as in Carrefour's daemon; None for one node."""
    if len(served) < 2 or served.mean() == 0:
        return None
    return float(served.std(ddof=1) / served.mean())


def read_only(pages: NodePages) -> NDArray[np.bool_]:
    """Pages not written after the interval of their first access; of one interval, not at all."""
    if len(pages.accesses) < 2:
        return np.asarray(pages.written == 0)
    accessed = pages.accesses.sum(axis=2) > 0
    first = np.where(accessed.any(axis=0), accessed.argmax(axis=0), 0)
    return np.asarray(pages.written >> (first + 1) == 0)


def hot_shared(pages: NodePages, accesses: Ints) -> NDArray[np.bool_]:
    """For each unit, whether it is a hot huge page that several nodes access: one to split."""
    by = pages.by_unit(accesses)
    hot = by.sum(axis=1) > HOT_FRACTION * by.sum()
    return np.asarray(hot & pages.is_huge & ((by > 0).sum(axis=1) > 1))


def hot_pages(pages: NodePages, *, huge: bool) -> HotPages | None:
    by = pages.by_unit(pages.totals).sum(axis=1) if huge else pages.totals.sum(axis=1)
    everything = int(by.sum())
    if everything == 0:
        return None
    hot = by > HOT_FRACTION * everything
    return HotPages(int(hot.sum()), float(by[hot].sum() / everything), float(by.max() / everything))


def hot_split(pages: NodePages, accesses: Ints, home: Ints) -> Ints:
    """The placement, but hot huge pages are split, and their base pages interleaved."""
    hot = hot_shared(pages, accesses)
    return np.where(hot[pages.unit], pages.number % pages.nodes, home)


def false_sharing(pages: NodePages) -> float | None:
    """Share of the accesses to huge pages whose base pages belong to different nodes.

    A base page belongs to a node that makes more than half of its accesses; one that several use
    equally belongs to none. None without accesses.
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
