# SPDX-License-Identifier: GPL-2.0-or-later
"""What did all processes of the program miss and touch together? Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tlbcost.simulator.counts import ProcessCounts, Side, SideCounts

DATA: tuple[Side, ...] = ("load", "store")
CODE: tuple[Side, ...] = ("fetch",)

Counts = Mapping[tuple[int, Side], SideCounts]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that was touched.

    Anonymous memory in base pages, in the huge pages that hold any of it, and in as many as would
    hold it if each process's lay dense; the base pages of files and shared memory; and the
    anonymous memory of the process with most of it.
    """

    anonymous_pages: int
    anonymous_huge_pages: int
    dense_huge_pages: int
    other_pages: int
    largest_anonymous_pages: int


def total_counts(processes: Iterable[ProcessCounts]) -> dict[tuple[int, Side], SideCounts]:
    """The sum over the processes that have counts."""
    total: dict[tuple[int, Side], SideCounts] = {}
    for process in processes:
        for key, side in (process.counts or {}).items():
            before = total.get(key, SideCounts(0, 0, 0))
            total[key] = SideCounts(
                before.l1_tlb_misses + side.l1_tlb_misses,
                before.stlb_hits + side.stlb_hits,
                before.stlb_misses + side.stlb_misses,
            )
    return total


def total_footprint(processes: Iterable[ProcessCounts], pages_per_huge: int) -> Footprint:
    """The memory of the processes that told theirs: each takes its own page faults."""
    anonymous = huge = dense = other = largest = 0
    for process in processes:
        if process.touched is not None:
            anonymous += process.touched.anonymous_pages
            huge += process.touched.anonymous_huge_pages
            dense += math.ceil(process.touched.anonymous_pages / pages_per_huge)
            other += process.touched.other_pages
            largest = max(largest, process.touched.anonymous_pages)
    return Footprint(anonymous, huge, dense, other, largest)


def footprint_pages(processes: Iterable[ProcessCounts]) -> int:
    """Base pages of the largest process: the footprint that walk costs are taken at.

    Raises ValueError if no process told its pages.
    """
    return max(each.touched.pages for each in processes if each.touched is not None)


def splintered(process: ProcessCounts, base_bytes: int, huge_bytes: int) -> ProcessCounts:
    """The process where a TLB entry holds a base page whatever the guest maps.

    Huge pages then miss as base pages do; only the walks are shorter.
    """
    if process.counts is None:
        return process
    counts = {key: seen for key, seen in process.counts.items() if key[0] == base_bytes}
    counts |= {(huge_bytes, side): seen for (_, side), seen in counts.items()}
    return replace(process, counts=counts)
