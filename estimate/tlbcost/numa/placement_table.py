# SPDX-License-Identifier: GPL-2.0-or-later
"""Which thread accessed memory for which page, and which one touched it first.

The simulator's tables `placement` and `touches` (doc/format.md), and the options for them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from tlbcost.common import formats
from tlbcost.common.document import amount, doc
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.formats import Table, TableFormat, count, parse_table
from tlbcost.run.outcome import Run

TouchKind = Literal["huge", "anonymous", "other"]
KINDS: tuple[TouchKind, ...] = ("huge", "anonymous", "other")
LINE_BYTES = 64

# Every reference is followed if that takes at most a few minutes; of a longer program this part,
# whose first quarter only fills the caches.
_ALL_BELOW_NS = 5_000_000_000
_PERIOD, _WARM, _MEASURED = 4_000_000, 250_000, 750_000

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPlan:
    """What the simulator has to follow: the references of each thread, and its caches.

    Of each `period_references` of a thread `warm_references` fill its caches and
    `measured_references` are counted.
    """

    period_references: Annotated[int, amount("of each thread, in a period")] = 1
    warm_references: Annotated[int, amount("of these, only to fill the caches")] = 0
    measured_references: Annotated[int, amount("of these, followed")] = 1
    l2_bytes: Annotated[int, amount("L2 that a thread has")]
    l3_share_bytes: Annotated[int, amount("share of the L3 that a thread has")]
    caches_source: Annotated[str, doc("source of the caches' sizes")]

    @property
    def options(self) -> list[str]:
        l2, l3 = cache_within(self.l2_bytes), cache_within(self.l3_share_bytes)
        sample = (self.period_references, self.warm_references, self.measured_references)
        return [
            f"--placement={':'.join(map(str, sample))}",
            f"--placement-caches={l2[0]}:{l2[1]},{l3[0]}:{l3[1]}",
            # Valgrind runs one thread at a time; without this one may run for long.
            "--fair-sched=try",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSample(PlacementPlan):
    """Which references of each thread were followed, and its caches."""

    interval_references: Annotated[int, amount("of the run, in an interval")]


@dataclass(frozen=True, slots=True)
class ImagePlacement:
    """One process image. Rows of `accesses` belong to `pages` and `threads`, of `touched_kinds`
    and `touched_threads` to `touched_pages`, in the order of first touches.

    `written` has bit i if the page was written in interval i. Threads count from 1; accesses are
    those of the sample, `measured_references` of each `period_references`.
    """

    base_page_bytes: int
    huge_page_bytes: int
    period_references: int
    measured_references: int
    interval_references: int
    intervals: int
    l2_misses: int
    walk_l2_misses: int
    pages: Counts
    threads: Counts
    written: Counts
    accesses: Counts
    touched_pages: Counts
    touched_threads: Counts
    touched_kinds: Counts


def plan_for(run: Run, l2_bytes: int, l3_share_bytes: int, caches_source: str) -> PlacementPlan:
    """Every reference of a program like this run's, or a sample of them."""
    whole = run.user_ns + run.system_ns <= _ALL_BELOW_NS
    period, warm, measured = (1, 0, 1) if whole else (_PERIOD, _WARM, _MEASURED)
    return PlacementPlan(
        period_references=period,
        warm_references=warm,
        measured_references=measured,
        l2_bytes=l2_bytes,
        l3_share_bytes=l3_share_bytes,
        caches_source=caches_source,
    )


def cache_within(n_bytes: int) -> tuple[int, int]:
    """The largest cache of this size with a power of two of sets and 16 to 31 ways; else (0, 0)."""
    lines = n_bytes // LINE_BYTES
    if lines == 0:
        return 0, 0
    shift = max(lines.bit_length() - 5, 0)
    ways = lines >> shift
    return (ways << shift) * LINE_BYTES, ways


def read_placements(folder: Path) -> tuple[ImagePlacement, ...]:
    """Read what images that finished wrote. Raises TlbcostError, 125, naming the file."""
    images = []
    try:
        for path in sorted(folder.glob("placement.*.tsv")):
            touches = path.with_name(path.name.replace("placement.", "touches.", 1))
            image = _image(path, touches)
            if image is not None:
                images.append(image)
    except TlbcostError as error:
        hint = error.hint or "tlbcost doctor"
        raise TlbcostError(str(error), hint, error.exit_code or TOOL_FAILED) from error
    return tuple(images)


def _image(path: Path, touches_path: Path) -> ImagePlacement | None:
    table, cells = _read(path, formats.PLACEMENT)
    state = table.key("state")
    if state == "failed":
        raise TlbcostError(
            f"the simulation of {table.key('program')} could not note all its pages: "
            "there were too many of them, or memory ran out",
            "give the program less memory to work on, or fewer threads",
            TOOL_FAILED,
        )
    if state == "running" or cells is None:
        return None
    _, touched = _read(touches_path, formats.TOUCHES)
    if touched is None:
        raise TlbcostError(f"{touches_path}: truncated")
    try:
        return ImagePlacement(
            base_page_bytes=_key(table, "base_page_bytes"),
            huge_page_bytes=_key(table, "huge_page_bytes"),
            period_references=_key(table, "period"),
            measured_references=_key(table, "measured"),
            interval_references=_key(table, "interval"),
            intervals=_key(table, "intervals"),
            l2_misses=_key(table, "l2_misses"),
            walk_l2_misses=_key(table, "walk_l2_misses"),
            pages=cells[:, 0],
            threads=cells[:, 1],
            written=cells[:, 2],
            accesses=cells[:, 3:],
            touched_pages=touched[:, 0],
            touched_threads=touched[:, 1],
            touched_kinds=touched[:, 2],
        )
    except ValueError as error:
        raise TlbcostError(f"{path}: not a table of placement: {error}") from error


def _read(path: Path, expected: TableFormat) -> tuple[Table, Counts | None]:
    """Read a table in bulk; the rows are None if its writer did not finish. Raises TlbcostError."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except (OSError, UnicodeDecodeError) as error:
        raise TlbcostError(f"cannot read {path}: {error}") from error
    names = "\t".join(expected.columns)
    head, found, rest = text.partition(f"\n{names}\n")
    rows, end, n = rest.rpartition("# end: ")
    if not found or not end:
        return parse_table(text, str(path), expected, partial=True), None
    table = parse_table(f"{head}\n{names}\n# end: 0\n", str(path), expected)
    for number, word in enumerate(KINDS):
        rows = rows.replace(f"\t{word}\n", f"\t{number}\n")
    with warnings.catch_warnings():
        # NumPy only warns about invalid numbers.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            cells = np.fromstring(rows, dtype=np.int64, sep="\t")
        except (ValueError, DeprecationWarning) as error:
            raise TlbcostError(f"{path}: not a table of {expected.name}: {error}") from error
    width = len(expected.columns)
    # Numbers that are too large are read as the largest one.
    if n.strip() != str(rows.count("\n")) or len(cells) != width * rows.count("\n"):
        raise TlbcostError(f"{path}: not a table of {expected.name}: cells are missing")
    if len(cells) and (cells.min() < 0 or cells.max() == np.iinfo(np.int64).max):
        raise TlbcostError(f"{path}: not a table of {expected.name}: not a count")
    return table, cells.reshape(-1, width)


def _key(table: Table, key: str) -> int:
    text = table.key(key)
    found = count(None if text == "NA" else text)
    if found is None:
        raise ValueError(f"{key} is missing")
    return found
