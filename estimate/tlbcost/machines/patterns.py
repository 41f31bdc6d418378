# SPDX-License-Identifier: GPL-2.0-or-later
"""How long does a core take for typical accesses, and which unknown figures matter for them?

A formula, not a simulation: random reads of a footprint, each waiting for the one before or none.
Caches and TLBs hold their share of what is read; data and page tables share the caches. It ranks
the figures of a core; times of a program come from the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tlbcost.processors.geometry import PageSizeGeometry, TlbLevel

_LINE, _ENTRY = 64, 8
_DIRECTORY_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Pattern:
    """Random reads of `bytes`; `dependent`: each waits for the one before."""

    words: str
    bytes: int
    dependent: bool


TYPICAL = (
    Pattern("reads one after the other in 64 MiB", 64 << 20, dependent=True),
    Pattern("reads one after the other in 4 GiB", 4 << 30, dependent=True),
    Pattern("independent reads in 4 GiB", 4 << 30, dependent=False),
)


def ratio(
    value: Mapping[str, float], base: PageSizeGeometry, huge: PageSizeGeometry, pattern: Pattern
) -> float:
    """Time on huge pages over that on base pages."""
    return _cycles(value, huge, pattern) / _cycles(value, base, pattern)


def _cycles(value: Mapping[str, float], pages: PageSizeGeometry, pattern: Pattern) -> float:
    """Core cycles of one read."""
    size, footprint = pages.page_size_bytes, pattern.bytes
    tables = max(footprint // size * _ENTRY, _LINE)
    missed = 1 - _held(pages.dtlb, size, footprint)
    walks = 1 - max(_held(pages.stlb, size, footprint), 1 - missed)
    data = _latency(value, footprint, footprint + tables)
    walk = _latency(value, tables, footprint + tables)
    if size < _DIRECTORY_BYTES:
        cached = min(1.0, value["page_directories"] * _DIRECTORY_BYTES / footprint)
        walk += (1 - cached) * value["l2_cycles"]
    looked_up = missed * value["stlb_hit_cycles"]
    if pattern.dependent:
        return data + looked_up + walks * (walk + value.get("walk_latency_cycles", 0))
    lines = 1 + walks
    return (
        max(
            4 / value["width"],
            data / min(value["fill_buffers"], value["reorder_buffer"] / 8),
            lines * value["memory_line_cycles"],
            (looked_up + walks * (walk + value["walk_cycles"])) / value["walkers"],
        )
        + value["l1d_cycles"] / 2
    )


def _held(level: TlbLevel | None, page_bytes: int, footprint: int) -> float:
    return 0.0 if level is None else min(1.0, level.entries * page_bytes / footprint)


def _latency(value: Mapping[str, float], part: int, all_bytes: int) -> float:
    """Mean latency of lines of `part` bytes, where all that is read has `all_bytes`.

    Tables that are small are read more often, line by line, than the data: half of each cache is
    theirs, and more of a last-level cache that keeps what is accessed again.
    """
    own = all_bytes if part > all_bytes // 2 else 2 * part
    kept = own if own == all_bytes else part * (2 - value.get("l3_adaptive", 0) / 100)
    shares = (
        (value["l1d_bytes"] / own, value["l1d_cycles"]),
        (value["l2_bytes"] / own, value["l2_cycles"]),
        (value["l3_bytes"] / kept, value["l3_cycles"]),
        (1.0, value["memory_ns"] * value["ghz"]),
    )
    total = before = 0.0
    for held, cycles in shares:
        share = min(1.0, held)
        total += max(share - before, 0.0) * cycles
        before = max(before, share)
    return total
