# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of the same references on other machines and page sizes.

The simulator's views: their options, and its tables "views" and "timings" (doc/format.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import formats
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.formats import Table, counts_in, read_table, required_count
from tlbcost.processors.published import PageSizeGeometry, TlbLevel
from tlbcost.simulator.counts import SIDES, Side, SideCounts, side_counts

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
