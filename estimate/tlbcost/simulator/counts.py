# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of the simulator, in each process image and in all, and of other machines and page sizes.

The simulator's views: their options, and its tables "views" and "timings" (doc/format.md).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from tlbcost.common import formats
from tlbcost.common.document import amount
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.formats import Table, count, counts_in, read_table, required_count
from tlbcost.processors.published import PageSizeGeometry, TlbLevel

Side = Literal["load", "store", "fetch"]
SIDES: Mapping[str, Side] = {"load": "load", "store": "store", "fetch": "fetch"}
DATA: tuple[Side, ...] = ("load", "store")
CODE: tuple[Side, ...] = ("fetch",)


@dataclass(frozen=True, slots=True)
class SideCounts:
    """Misses of one kind of access on one page size."""

    l1_tlb_misses: Annotated[int, amount("missed the first level")]
    stlb_hits: Annotated[int, amount("of these, found in the second level")]
    stlb_misses: Annotated[int, amount("page walks")]

    def __add__(self, other: SideCounts) -> SideCounts:
        return SideCounts(*map(operator.add, astuple(self), astuple(other)))


NO_MISSES = SideCounts(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Touched:
    """The memory that a process touched.

    Base pages of anonymous memory, the huge-page-sized regions that contain them, and base pages of
    files and shared memory.
    """

    anonymous_pages: Annotated[int, amount("base pages of anonymous memory")]
    anonymous_huge_pages: Annotated[int, amount("huge pages that hold any of them")]
    other_pages: Annotated[int, amount("base pages of files and shared memory")]

    @property
    def pages(self) -> int:
        return self.anonymous_pages + self.other_pages


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """What the simulator counted in one process image.

    `counts` maps (page size in bytes, side) to the misses. The last three are None if the process
    was killed before it could report; `touched` alone if its pages could not be noted.
    """

    pid: int
    parent_pid: int
    program: str
    threads: int | None
    counts: dict[tuple[int, Side], SideCounts] | None
    touched: Touched | None


# By page size in bytes and side.
Counts = Mapping[tuple[int, Side], SideCounts]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that was touched.

    Anonymous memory in base pages, in the huge pages that hold any of it, and in as many as would
    hold each process's densely; the base pages of files and shared memory; and the anonymous memory
    of the process with most of it. `faulted`: its page faults were counted when it was touched
    first; not those of a process that ran before.
    """

    anonymous_pages: int
    anonymous_huge_pages: int
    dense_huge_pages: int
    other_pages: int
    largest_anonymous_pages: int
    faulted: bool = True


def read_counts(folder: Path) -> tuple[ProcessCounts, ...]:
    """Every process image's counts, in the order of their pids and images."""

    def order(path: Path) -> tuple[int, ...]:
        return tuple(int(part) for part in path.name.split(".") if part.isdigit())

    return tuple(_process(path) for path in sorted(folder.glob("counts.*.tsv"), key=order))


def _process(path: Path) -> ProcessCounts:
    if not path.stat().st_size:
        # Killed before its first line; its number is in the name.
        return ProcessCounts(int(path.name.split(".")[1]), 0, "[unknown]", None, None, None)
    table = read_table(path, formats.COUNTS, partial=True)
    finished = table.complete and table.header.get("state") != "running"
    return ProcessCounts(
        pid=int(table.key("pid")),
        parent_pid=int(table.key("parent_pid")),
        program=table.key("program"),
        threads=_header_count(table, "threads") if finished else None,
        counts=_sides(table) if finished else None,
        touched=_touched(table) if finished else None,
    )


def _touched(table: Table) -> Touched | None:
    names = ("anonymous_pages", "anonymous_huge_pages", "other_pages")
    pages = [_header_count(table, f"touched_{name}") for name in names]
    known = [n for n in pages if n is not None]
    return Touched(*known) if len(known) == len(pages) else None


def _header_count(table: Table, key: str) -> int | None:
    try:
        return count(table.known(key))
    except ValueError as error:
        raise TlbcostError(f"{table.name}: {key}: {error}") from error


def side_counts(row: Mapping[str, str | None]) -> SideCounts:
    """The misses in a row of `counts` or `views`. Raises ValueError."""
    return SideCounts(*counts_in(row, "l1_tlb_misses", "stlb_hits", "stlb_misses"))


def _sides(table: Table) -> dict[tuple[int, Side], SideCounts]:
    counts: dict[tuple[int, Side], SideCounts] = {}
    for row in table.records():
        try:
            key = required_count(row["page_size_bytes"]), SIDES[str(row["access"])]
            counts[key] = side_counts(row)
        except (KeyError, ValueError) as error:
            raise TlbcostError(f"{table.name}: not a row of counts: {row}") from error
    return counts


def total_counts(processes: Iterable[ProcessCounts]) -> dict[tuple[int, Side], SideCounts]:
    total: dict[tuple[int, Side], SideCounts] = {}
    for process in processes:
        for key, side in (process.counts or {}).items():
            total[key] = total.get(key, NO_MISSES) + side
    return total


def total_footprint(processes: Iterable[ProcessCounts], pages_per_huge: int) -> Footprint:
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
    """Base pages of the largest process: the footprint for walk costs.

    Raises ValueError if no process reported its pages.
    """
    return max(each.touched.pages for each in processes if each.touched is not None)


def splintered(process: ProcessCounts, base_bytes: int, huge_bytes: int) -> ProcessCounts:
    """The process if huge pages miss like base pages, since TLB entries hold base pages."""
    if process.counts is None:
        return process
    counts = {key: seen for key, seen in process.counts.items() if key[0] == base_bytes}
    counts |= {(huge_bytes, side): seen for (_, side), seen in counts.items()}
    return replace(process, counts=counts)


# The simulator's maximum.
MOST_VIEWS = 96


@dataclass(frozen=True, slots=True)
class View:
    """The TLBs of one machine with its memory on pages of one size, and the core to time them on.

    `rest`: number of the view that has this machine on base pages, for memory that no such page can
    span; -1: the machine at hand; None: all memory is on these pages.
    """

    geometry: PageSizeGeometry
    folded: bool
    code_stlb: TlbLevel | None
    core: str | None
    rest: int | None = None

    def options(self) -> list[str]:
        levels = {"l1d": self.geometry.dtlb, "l1i": self.geometry.itlb, "stlb": self.geometry.stlb}
        if self.code_stlb is not None:
            levels["code-stlb"] = self.code_stlb
        words = [f"page={self.geometry.page_size_bytes}"]
        for name, level in levels.items():
            words.append(f"{name}=" + ("0:0" if level is None else f"{level.entries}:{level.ways}"))
        if self.folded:
            words.append("folded=1")
        if self.rest is not None:
            words.append(f"rest={'b' if self.rest < 0 else self.rest}")
        timed = [] if self.core is None else [f"--view-core={self.core}"]
        return [f"--view={','.join(words)}", *timed]


@dataclass(frozen=True, slots=True)
class ImageViews:
    """What the views of one process image counted, by number and side, and how long they took.

    `windows`: of each, its references and the modelled core cycles of each view; `references`: of
    the whole image, which they are a sample of.
    """

    counts: Mapping[int, Mapping[Side, SideCounts]]
    references: int
    windows: tuple[tuple[int, Mapping[int, int]], ...]


def read_views(folder: Path) -> tuple[ImageViews, ...]:
    """Views of every image that finished, sorted by name. Raises TlbcostError (125)."""
    try:
        return tuple(_image(path) for path in sorted(folder.glob("views.*.tsv")))
    except (TlbcostError, ValueError, KeyError) as error:
        raise TlbcostError(
            f"not a table of the simulator: {error}", "tlbcost doctor", TOOL_FAILED
        ) from error


def _image(path: Path) -> ImageViews:
    counts: dict[int, dict[Side, SideCounts]] = {}
    for row in read_table(path, formats.VIEWS).records():
        view = counts.setdefault(required_count(row["view"]), {})
        view[SIDES[str(row["access"])]] = side_counts(row)
    timings = path.with_name(path.name.replace("views.", "timings.", 1))
    if not timings.exists():
        return ImageViews(counts, 0, ())
    table = read_table(timings, formats.TIMINGS)
    return ImageViews(counts, required_count(table.key("references")), _windows(table))


def _windows(table: Table) -> tuple[tuple[int, Mapping[int, int]], ...]:
    found: dict[int, tuple[int, dict[int, int]]] = {}
    for row in table.records():
        window, view, references, cycles = counts_in(row, *table.columns)
        known, by_view = found.setdefault(window, (references, {}))
        by_view[view] = cycles
        if known != references:
            raise ValueError(f"{table.name}: a window has two numbers of references")
    return tuple(found[window] for window in sorted(found))


def options(views: Sequence[View]) -> list[str]:
    return [word for view in views for word in view.options()]
