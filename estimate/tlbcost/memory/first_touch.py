# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a first touch of memory takes now, on base and on huge pages (tlbcost-calibrate)."""

from __future__ import annotations

import subprocess
from typing import Annotated

from tlbcost.common import formats, paths
from tlbcost.common.document import Part, doc
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import parse_table, required_count
from tlbcost.system.machine import meminfo_bytes, reports_free_pages
from tlbcost.system.process import memory_limit

# Enough for the 99.9th percentile of base pages, and touched in a second on most machines.
_MOST_BYTES, _LEAST_BYTES = 128 << 20, 16 << 20
_MOST_PART = 8  # of the memory that is free, or that the cgroup may have
# What a program that has ended had may be taken again.
_MOST_BYTES_ENDED, _MOST_PART_ENDED = 1 << 30, 2
_LIMIT_S = 30


class TouchTimes(Part, frozen=True, kw_only=True):
    """First touches of pages of one size, each with the fault, the page and its zeros."""

    page_size_bytes: Annotated[int, doc("size of the pages that were asked for", minimum=0)]
    touches: Annotated[int, doc("how many were timed", minimum=1)]
    median_ns: Annotated[int, doc("half of them were faster", minimum=0)]
    p99_ns: Annotated[int, doc("99 of 100 were faster", minimum=0)]
    p999_ns: Annotated[int, doc("999 of 1000 were faster; of fewer: the slowest", minimum=0)]
    worst_ns: Annotated[int, doc("the slowest", minimum=0)]


class Stalls(Part, frozen=True, kw_only=True):
    """First touches of memory on this host, as it is at the end of the estimate."""

    base: Annotated[TouchTimes, doc("on base pages")]
    huge: Annotated[
        TouchTimes | None, doc("of memory that asks for huge pages; null: there are none")
    ]
    huge_fraction: Annotated[
        float | None, doc("what of that came onto huge pages", minimum=0, maximum=1)
    ]


def first_touches(anonymous_bytes: int, *, ended: bool) -> Stalls | None:
    """Time them on as much memory as the program has, or had when it `ended`, within limits.

    None: not obtained.
    """
    most, part = (_MOST_BYTES_ENDED, _MOST_PART_ENDED) if ended else (_MOST_BYTES, _MOST_PART)
    room = [meminfo_bytes("MemAvailable"), memory_limit().limit_bytes]
    known = [each // part for each in room if each is not None]
    n_bytes = min([max(anonymous_bytes, _LEAST_BYTES), most, *known])
    if n_bytes < _LEAST_BYTES:
        return None
    tool = [str(paths.libexec("tlbcost-calibrate")), "--first-touches", str(n_bytes)]
    at_hand = ["--at-hand"] if reports_free_pages() else []
    try:
        done = subprocess.run(
            [*tool, *at_hand], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=True, timeout=_LIMIT_S,
        )  # fmt: skip
        return stalls_of(done.stdout)
    except (OSError, subprocess.SubprocessError, TlbcostError, ValueError):
        # An estimate without it says nothing of stalls.
        return None


def stalls_of(text: str) -> Stalls:
    """Of a table first_touches. Raises TlbcostError or ValueError for a defect."""
    table = parse_table(text, "first touches", formats.FIRST_TOUCHES)
    rows = [{name: required_count(cell) for name, cell in row.items()} for row in table.records()]
    if not rows:
        raise ValueError("no touches")
    huge_bytes = [row.pop("huge_bytes") for row in rows]
    times = [TouchTimes(**row) for row in rows]
    huge = times[1] if len(times) > 1 else None
    return Stalls(
        base=times[0],
        huge=huge,
        huge_fraction=(
            None if huge is None else huge_bytes[1] / (huge.touches * huge.page_size_bytes)
        ),
    )
