# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a first touch of memory takes now, on base and on huge pages (tlbcost-calibrate)."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Annotated

from tlbcost.common import formats, paths
from tlbcost.common.document import Part, amount, doc, portion
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
# A touch that takes this long is worth a line in the report.
SLOW_NS = 1_000_000


class TouchTimes(Part, frozen=True, kw_only=True):
    """Touches one after the other that the kernel had to find a page for."""

    page_size_bytes: Annotated[int, amount("size of the pages that were asked for")]
    touches: Annotated[int, doc("how many were timed", minimum=1)]
    median_ns: Annotated[int, amount("half of them were faster")]
    p99_ns: Annotated[int, amount("99 of 100 were faster")]
    p999_ns: Annotated[int, amount("999 of 1000 were faster; of fewer: the slowest")]
    worst_ns: Annotated[int, amount("the slowest")]
    total_ns: Annotated[int | None, amount("all of them; null: of an earlier tlbcost")] = None


class Stalls(Part, frozen=True, kw_only=True):
    """First touches of memory on this host, as it is at the end of the estimate."""

    base: Annotated[TouchTimes, doc("on base pages")]
    huge: Annotated[
        TouchTimes | None, doc("of memory that asks for huge pages; null: there are none")
    ]
    huge_fraction: Annotated[float | None, portion("what of that came onto huge pages")]
    base_forked: Annotated[
        TouchTimes | None,
        doc("a write to each base page while a child has the same memory; null: not obtained"),
    ] = None
    huge_forked: Annotated[
        TouchTimes | None, doc("the same, of memory that was on huge pages before")
    ] = None
    huge_forked_fraction: Annotated[
        float | None,
        portion(
            "huge pages that stayed, all of which was copied; the kernel splits the others and "
            "copies a base page for each write"
        ),
    ] = None
    base_faults: Annotated[
        TouchTimes | None,
        doc("page faults of the program on base pages, in a run of their own; null: not timed"),
    ] = None
    huge_faults: Annotated[
        TouchTimes | None, doc("the same, on huge pages by the method that was measured")
    ] = None
    huge_kernel: Annotated[
        dict[str, int] | None,
        doc("what the whole system's kernel counted during that run (/proc/vmstat); no zeros"),
    ] = None


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
    base, huge = rows[0], rows[1] if len(rows) > 1 else None
    return Stalls(
        base=_times(base),
        huge=None if huge is None else _times(huge),
        huge_fraction=(
            None
            if huge is None
            else huge["huge_bytes"] / (huge["touches"] * huge["page_size_bytes"])
        ),
        base_forked=_forked(base),
        huge_forked=_forked(huge),
        huge_forked_fraction=(
            None
            if huge is None or not huge["forked_huge_bytes"]
            else huge["kept_huge_bytes"] / huge["forked_huge_bytes"]
        ),
    )


def _forked(row: Mapping[str, int] | None) -> TouchTimes | None:
    return None if row is None or not row["forked_touches"] else _times(row, "forked_")


def _times(row: Mapping[str, int], which: str = "") -> TouchTimes:
    columns = ("touches", "median_ns", "p99_ns", "p999_ns", "worst_ns", "total_ns")
    times = {name: row[f"{which}{name}"] for name in columns}
    return TouchTimes(page_size_bytes=row["page_size_bytes"], **times)
