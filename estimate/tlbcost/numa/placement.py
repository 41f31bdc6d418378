# SPDX-License-Identifier: GPL-2.0-or-later
"""What each NUMA node accesses of a program's memory, and how local and balanced placements are.

A placement gives each base page its node; all base pages of a huge page have the same one.
Definitions and their sources are in doc/numa.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tlbcost.calibration.records import sysfs_caches
from tlbcost.common.document import amount, doc, portion
from tlbcost.common.paths import sys_path
from tlbcost.numa.locality import Score
from tlbcost.numa.placement_table import KINDS, ImagePlacement
from tlbcost.system.machine import current_machine, read_line

Spread = Literal["round-robin", "blocks"]
SPREADS: tuple[Spread, ...] = ("round-robin", "blocks")

# The machine of the slides has four.
ASSUMED_NODES = 4
MOST_NODES = 64
HOT_FRACTION = 0.06


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that placements are for."""

    count: Annotated[int, doc("how many nodes", minimum=2)]
    source: Annotated[
        Literal["asked", "machine", "assumed"],
        doc("source of that number; machine: this machine's"),
    ]

    @property
    def sentence(self) -> str:
        return {
            "asked": "as asked for",
            "machine": "of this machine",
            "assumed": "assumed: this machine has one",
        }[self.source]


def parse_count(text: str) -> int:
    """A number of nodes, as the type of an option. Raises argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit()) or not 2 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"not a number of nodes from 2 to {MOST_NODES}: {text}")
    return int(text)


def machine_nodes() -> list[int]:
    """Numbers of this machine's nodes with CPUs; [] if the kernel reports none."""
    numbers = []
    for path in sys_path("/sys/devices/system/node").glob("node*"):
        number = path.name.removeprefix("node")
        if number.isdigit() and read_line(f"/sys/devices/system/node/{path.name}/cpulist"):
            numbers.append(int(number))
    return sorted(numbers)


def choose_nodes(asked: int | None) -> Nodes:
    """The requested number; else this machine's, if it has several; else ASSUMED_NODES."""
    if asked is not None:
        return Nodes(asked, "asked")
    here = len(machine_nodes())
    return Nodes(here, "machine") if here > 1 else Nodes(ASSUMED_NODES, "assumed")


def cache_sizes() -> tuple[int, int, str]:
    """Bytes of one thread's L2 cache, of its share of the L3, and their source.

    The share is the L3's size over the CPUs that use it. A hypervisor reports the L3 of the host's
    CPUs, not of the guest's: then the share is assumed to be as large as the L2.
    """
    level = {
        cache.level: cache.size_bytes // cache.cpus
        for cache in sysfs_caches()
        if cache.kind != "instruction"
    }
    if 2 not in level:
        return 1 << 20, 1 << 20, "assumed, since this machine does not report its caches"
    l2 = level[2]
    if 3 not in level:
        return l2, 0, "of this machine, which has no L3"
    if current_machine().hypervisor is not None:
        return l2, l2, "L2 as reported by the hypervisor, the share of the L3 assumed"
    return l2, level[3], "of this machine"


# User addresses end below 2^57: the bits above distinguish process images.
_IMAGE_SHIFT = 46

Floats = NDArray[np.float64]
Ints = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class NodePages:
    """The nodes' accesses by base page, for all process images together.

    `accesses` is indexed by interval, page and node. `unit`: the page that a base page belongs to
    with huge pages, from 0; those with `is_huge` are huge. `first_node`: of the thread that touched
    it first; `unit_first` the same of the unit, and `unit_page` its first touched base page.
    `number`: of the base page, for interleaving. `written`: bit i if it was in interval i. `faults`
    and `huge_faults`: anonymous pages first touched by each thread on base pages, and (base, huge)
    pages with huge ones.
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
        return np.asarray(self.accesses.sum(axis=0))

    def by_unit(self, accesses: Ints) -> Ints:
        summed = np.zeros((len(self.is_huge), self.nodes), dtype=np.int64)
        np.add.at(summed, self.unit, accesses)
        return summed


def gather(
    images: Sequence[ImagePlacement], nodes: int, spread: Spread = "round-robin"
) -> NodePages:
    """Combine process images, their threads spread over nodes. Raises ValueError without any."""
    if not images:
        raise ValueError("no process image")
    counts = [
        max(
            (int(seen.max()) for seen in (image.threads, image.touched_threads) if len(seen)),
            default=0,
        )
        for image in images
    ]
    started = np.cumsum([0, *counts])
    node_of = spread_threads(int(started[-1]), nodes, spread)
    rows = np.concatenate([_tagged(i, image.pages) for i, image in enumerate(images)])
    threads = np.concatenate([image.threads - 1 + started[i] for i, image in enumerate(images)])
    touched = np.concatenate([_tagged(i, image.touched_pages) for i, image in enumerate(images)])
    toucher = np.concatenate(
        [image.touched_threads - 1 + started[i] for i, image in enumerate(images)]
    )
    kinds = np.concatenate([image.touched_kinds for image in images])
    number, index = np.unique(np.concatenate([touched, rows]), return_inverse=True)
    index = index.reshape(-1)
    at_touch, at_row = index[: len(touched)], index[len(touched) :]
    # A page without its own first touch is not anonymous memory: it remains a base page.
    order = np.full(len(number), len(touched), dtype=np.int64)
    order[at_touch[::-1]] = np.arange(len(touched))[::-1]
    kind = np.full(len(number), KINDS.index("other"), dtype=np.int64)
    kind[at_touch[::-1]] = kinds[::-1]
    first = np.zeros(len(number), dtype=np.int64)
    first[at_row[::-1]] = threads[::-1]
    first[at_touch[::-1]] = toucher[::-1]
    # All intervals of all pages: this uses most memory.
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
    return NodePages(
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


def _tagged(image: int, pages: Ints) -> Ints:
    return pages | (np.int64(image) << _IMAGE_SHIFT)


def _units(
    number: Ints, order: Ints, kind: Ints, per_huge: int
) -> tuple[Ints, NDArray[np.bool_], Ints, Ints]:
    """The pages that exist with huge pages: for each base page, its unit.

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
    # Regions are distinguished from base pages by a number that no page has.
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


def spread_threads(threads: int, nodes: int, spread: Spread) -> NDArray[np.int64]:
    """The node of each thread, in the order of their start: in turn, or in `blocks`."""
    numbers = np.arange(threads, dtype=np.int64)
    if spread == "round-robin":
        return numbers % nodes
    return numbers * nodes // max(threads, 1)


@dataclass(frozen=True, slots=True)
class HotPages:
    """Pages with more than HOT_FRACTION of all accesses."""

    count: Annotated[int, amount("pages with more than 6 % of all accesses")]
    fraction: Annotated[float, portion("their share of the accesses")]
    largest_fraction: Annotated[float, portion("the share of the page with most accesses")]


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


def score(accesses: Ints, home: Ints, copied: NDArray[np.bool_] | None = None) -> Score:
    """`copied`: pages of which every node has its own copy; None: there are none."""
    everything = int(accesses.sum())
    if everything == 0:
        return Score(None, None)
    one = np.ones(len(home), dtype=bool) if copied is None else ~copied
    local = int(accesses[np.arange(len(home)), home][one].sum())
    own = accesses[~one].sum(axis=0)
    others = np.bincount(home, accesses.sum(axis=1) * one, minlength=accesses.shape[1])
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
