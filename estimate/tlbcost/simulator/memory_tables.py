# SPDX-License-Identifier: GPL-2.0-or-later
"""The simulator's tables: memory, code, calls and phases that missed, and modelled windows.

`mappings`, `code`, `stacks`, `frames` and `phases` of doc/format.md, one of each for a process
image.

The simulator's `windows` tables (doc/format.md), and how many windows to request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

from tlbcost.common import formats
from tlbcost.common.document import amount, doc, portion
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.formats import Table, TableFormat, count, counts_in, read_table, required_count
from tlbcost.run.outcome import Run


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where memory was allocated, or where in the code it is accessed; None: not known.

    `variable`: the name of a static one of the object's, which has no function.
    """

    object: Annotated[str | None, doc("executable or library")]
    function: Annotated[str | None, doc("its function")]
    file: Annotated[str | None, doc("source file")]
    line: Annotated[int | None, amount("line in it")]
    variable: Annotated[str | None, doc("a static variable of the object")] = None


# Code and calls that miss are reported by line, including code unloaded before the end.
OPTIONS = "--attribute=yes --read-inline-info=yes --keep-debuginfo=yes --num-callers=40"


@dataclass(frozen=True, slots=True)
class Misses:
    """First-level misses that hit the second level (`hits`), or needed a walk."""

    hits: int = 0
    walks: int = 0

    def __add__(self, other: Misses) -> Misses:
        return Misses(self.hits + other.hits, self.walks + other.walks)


@dataclass(frozen=True, slots=True)
class SidedMisses:
    """Misses of data and of instruction fetches."""

    data: Misses = Misses()
    fetch: Misses = Misses()

    def __add__(self, other: SidedMisses) -> SidedMisses:
        return SidedMisses(self.data + other.data, self.fetch + other.fetch)

    @property
    def walks(self) -> int:
        return self.data.walks + self.fetch.walks


@dataclass(frozen=True, slots=True)
class ModelledMisses:
    """Its misses in windows, and the cycles that the core waited for translation."""

    misses: Misses = Misses()
    waited_cycles: int = 0


@dataclass(frozen=True, slots=True)
class RegionMisses:
    """One row of `mappings`: memory of one kind, name and origin.

    `touched_pages`, `touched_huge_pages`: None: not known. `stack`: frames of the call that mapped
    it, innermost first; empty: not known. `device`: major and minor number of its file system.
    `base`, `huge`: misses on pages of each size.
    """

    kind: str
    code: bool
    name: str | None
    variable: str | None
    stack: tuple[SourceLocation, ...]
    device: tuple[int, int] | None
    most_bytes: int
    touched_pages: int | None
    touched_huge_pages: int | None
    base: SidedMisses
    huge: SidedMisses
    modelled_base: ModelledMisses
    modelled_huge: ModelledMisses


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction that missed, of a program."""

    program: str
    address: int
    site: SourceLocation
    base: SidedMisses
    huge: SidedMisses


@dataclass(frozen=True, slots=True)
class Stack:
    """Calls, innermost first, and the walks that they stand for; no frames: not known."""

    frames: tuple[SourceLocation, ...]
    base_walks: int
    huge_walks: int


@dataclass(frozen=True, slots=True)
class Phase:
    """Misses from reference `start` of the process image on, up to the next phase."""

    start: int
    base: Misses
    huge: Misses


@dataclass(frozen=True, slots=True)
class Block:
    """A huge page's place in anonymous memory: its walks of data, and what of it is resident.

    `resident_bytes` None: the process had ended when its windows were counted.
    """

    resident_bytes: int | None
    base_walks: float
    huge_walks: float
    pid: int = 0
    address: int = 0


@dataclass(frozen=True, slots=True)
class SiteGain:
    """A call that allocated memory, by its part of what huge pages save in anonymous memory."""

    site: Annotated[SourceLocation, doc("where it is")]
    gain_fraction: Annotated[float, portion("its part of the gain")]
    allocated_bytes: Annotated[int, amount("the most at once")]
    growth_bytes: Annotated[
        int | None, amount("memory that huge pages would add there; null: not known")
    ]
    keys: Annotated[tuple[str, ...], doc("of its call stacks, for tlbcost run --plan")]


@dataclass(frozen=True, slots=True)
class ImageAttribution:
    """One process image by memory and code. `references`: all of it; `phase_references`: a phase's.

    `program`: as it was started; `executable`: its path, or None. `blocks`: of one run that copies
    followed, those with walks. `sites`: the code that allocated them, if that was recorded.
    """

    pid: int
    program: str
    regions: tuple[RegionMisses, ...]
    lines: tuple[Line, ...]
    stacks: tuple[Stack, ...]
    phases: tuple[Phase, ...]
    references: int
    phase_references: int
    executable: str | None = None
    blocks: tuple[Block, ...] = ()
    sites: tuple[SiteGain, ...] = ()


def read_attributions(folder: Path) -> tuple[ImageAttribution, ...]:
    """Images that have all their tables, unlike killed ones. Raises TlbcostError (125)."""
    try:
        found = [_image(path) for path in sorted(folder.glob("mappings.*.tsv"))]
    except TlbcostError as error:
        raise TlbcostError(str(error), "tlbcost doctor", TOOL_FAILED) from error
    return tuple(image for image in found if image is not None)


def _image(path: Path) -> ImageAttribution | None:
    tables: dict[str, Table] = {}
    for kind in (formats.MAPPINGS, formats.CODE, formats.STACKS, formats.FRAMES, formats.PHASES):
        table = _table(path.with_name(path.name.replace("mappings", kind.name, 1)), kind)
        if table is None:
            return None
        tables[kind.name] = table
    try:
        stacks = _frames(tables["frames"])
        return ImageAttribution(
            pid=int(tables["mappings"].key("pid")),
            program=tables["mappings"].key("program"),
            regions=tuple(
                _region(tables["mappings"], row, stacks) for row in tables["mappings"].records()
            ),
            lines=read_lines(tables["code"]),
            stacks=tuple(
                Stack(
                    stacks.get(_stack(row["stack"]), ()),
                    *counts_in(row, "base_stlb_misses", "huge_stlb_misses"),
                )
                for row in tables["stacks"].records()
            ),
            phases=tuple(
                Phase(required_count(row["start"]), _misses(row, "base"), _misses(row, "huge"))
                for row in tables["phases"].records()
            ),
            references=required_count(tables["phases"].key("references")),
            phase_references=required_count(tables["phases"].key("phase")),
            executable=tables["mappings"].known("executable"),
        )
    except (ValueError, KeyError) as error:
        raise TlbcostError(f"{path}: not a table of the simulator: {error}") from error


def _table(path: Path, expected: TableFormat) -> Table | None:
    # Empty: it was killed before the first line.
    if not path.exists() or not path.stat().st_size:
        return None
    table = read_table(path, expected, partial=True)
    return table if table.complete else None


def read_lines(table: Table) -> tuple[Line, ...]:
    """The rows of a table of `code`. Raises ValueError or TlbcostError."""
    return tuple(
        Line(
            _name(table, row["program"]) or "",
            required_count(row["address"]),
            _site(table, row),
            _sided(row, "base"),
            _sided(row, "huge"),
        )
        for row in table.records()
    )


def _region(
    table: Table, row: Mapping[str, str | None], stacks: Mapping[int, tuple[SourceLocation, ...]]
) -> RegionMisses:
    return RegionMisses(
        kind=row["kind"] or "unknown",
        code=row["code"] == "yes",
        name=_name(table, row["name"]),
        variable=_name(table, row["variable"]),
        stack=stacks.get(_stack(row["stack"]), ()),
        device=_device(row["device"]),
        most_bytes=required_count(row["most_bytes"]),
        touched_pages=required_count(row["touched_pages"]),
        touched_huge_pages=required_count(row["touched_huge_pages"]),
        base=_sided(row, "base"),
        huge=_sided(row, "huge"),
        modelled_base=ModelledMisses(
            _misses(row, "modelled_base"), required_count(row["waited_base_cycles"])
        ),
        modelled_huge=ModelledMisses(
            _misses(row, "modelled_huge"), required_count(row["waited_huge_cycles"])
        ),
    )


def _frames(table: Table) -> dict[int, tuple[SourceLocation, ...]]:
    found: dict[int, list[SourceLocation]] = {}
    for row in table.records():
        found.setdefault(required_count(row["stack"]), []).append(_site(table, row))
    return {stack: tuple(frames) for stack, frames in found.items()}


def _site(table: Table, row: Mapping[str, str | None]) -> SourceLocation:
    return SourceLocation(
        _name(table, row["object"]),
        _name(table, row["function"]),
        _name(table, row["file"]),
        count(row["line"]),
    )


def _sided(row: Mapping[str, str | None], size: str) -> SidedMisses:
    return SidedMisses(_misses(row, size), _misses(row, f"{size}_fetch"))


def _misses(row: Mapping[str, str | None], prefix: str) -> Misses:
    return Misses(*counts_in(row, f"{prefix}_stlb_hits", f"{prefix}_stlb_misses"))


def _name(table: Table, cell: str | None) -> str | None:
    return None if cell is None else table.key(f"name_{required_count(cell)}")


def _device(cell: str | None) -> tuple[int, int] | None:
    if cell is None:
        return None
    major, _, minor = cell.partition(":")
    return required_count(major), required_count(minor)


def _stack(cell: str | None) -> int:
    return -1 if cell is None else required_count(cell)


# References in each window, and before it to warm the core's and the caches' state.
MEASURED, WARM = 40_000, 40_000
# The initial period, in references; the simulator doubles it whenever there are MOST windows, and
# drops half of them. Few programs access memory less often than this, and those that stall every
# time: their windows are not dropped.
_FIRST_PERIOD = 2 * (MEASURED + WARM)
_FEW_REFERENCES_PER_NS = 0.03
# The model is some hundred times slower than the program: its time grows with the number of
# windows, which is limited to a few times the rest of the simulation.
_FEWEST, _MOST = 32, 96
_PER_SECOND = 64


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Where windows are, in references of a process: one in each `period`.

    `warm` references are modelled before each window of `measured` ones. The period doubles
    whenever there are `most` windows, so that the length of a run need not be known.
    """

    period: int = _FIRST_PERIOD
    warm: int = WARM
    measured: int = MEASURED
    most: int = _MOST

    @property
    def option(self) -> str:
        return f"{self.period}:{self.warm}:{self.measured}:{self.most}"


@dataclass(frozen=True, slots=True)
class Window:
    """Modelled core cycles of `references` references, on base and on huge pages.

    `start`: of the image's references, the one at which measuring began.
    """

    references: int
    base_cycles: int
    huge_cycles: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class ImageWindows:
    """The windows of one process image, and the references that they are a sample of.

    `references` None: the image did not finish, so it is unknown what its windows stand for, and
    they are left out. `core`: what was modelled, as given.
    """

    pid: int
    program: str
    references: int | None
    core: str
    windows: tuple[Window, ...]


def plan_for(runs: Sequence[Run]) -> WindowPlan:
    ns = median([run.user_ns for run in runs])
    most = min(max(round(_PER_SECOND * ns / 1e9), _FEWEST), _MOST)
    period = max(_FIRST_PERIOD, round(_FEW_REFERENCES_PER_NS * ns / most))
    return WindowPlan(period=period, most=most)


def read_windows(folder: Path) -> tuple[ImageWindows, ...]:
    """Windows of every image, sorted by name; empty if not modelled. Raises TlbcostError (125)."""
    try:
        found = sorted(folder.glob("windows.*.tsv"))
        return tuple(_image_windows(path) for path in found if path.stat().st_size)
    except TlbcostError as error:
        raise TlbcostError(str(error), "tlbcost doctor", TOOL_FAILED) from error


def _image_windows(path: Path) -> ImageWindows:
    table = read_table(path, formats.WINDOWS, partial=True)
    finished = table.complete and table.key("state") != "running"
    try:
        return ImageWindows(
            pid=int(table.key("pid")),
            program=table.key("program"),
            references=required_count(table.key("references")) if finished else None,
            core=table.key("core"),
            windows=_windows(table) if finished else (),
        )
    except ValueError as error:
        raise TlbcostError(f"{path}: not a table of windows: {error}") from error


def _windows(table: Table) -> tuple[Window, ...]:
    found = tuple(
        Window(*counts_in(row, "references", "base_cycles", "huge_cycles", "start"))
        for row in table.records()
    )
    # Only the few references of a truncated window can take less than a cycle.
    for cycles in ("base_cycles", "huge_cycles"):
        if any(window.references for window in found) and not any(
            getattr(window, cycles) for window in found
        ):
            raise ValueError(f"references that take no {cycles}")
    return found
