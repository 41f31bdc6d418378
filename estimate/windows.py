# SPDX-License-Identifier: GPL-2.0-or-later
"""Which windows of a program were modelled cycle by cycle, and with what result?

The simulator's `windows` tables (doc/format.md), and how many windows to ask it for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost import kinds
from tlbcost.errors import TOOL_FAILED, TlbcostError
from tlbcost.records import Run
from tlbcost.stats import median
from tlbcost.table import Table, count, read_table

# References in each window, and before it to warm the core's and the caches' state.
MEASURED, WARM = 100_000, 300_000
WINDOWS = 200
# What the model may take: it is some hundred times slower than the program.
_MOST_FRACTION = 0.04
_SHORT_NS = 1_000_000_000
# References of a program that computes; those that wait for memory make down to a hundredth.
_REFERENCES_PER_NS = 1.2


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Where windows lie, in references of a process: one in each `period`.

    `warm` references are modelled before each window of `measured` ones.
    """

    period: int
    warm: int = WARM
    measured: int = MEASURED

    @property
    def option(self) -> str:
        """As the simulator takes it."""
        return f"{self.period}:{self.warm}:{self.measured}"


@dataclass(frozen=True, slots=True)
class Window:
    """Modelled core cycles of `references` references, on base and on huge pages."""

    references: int
    base_cycles: int
    huge_cycles: int


@dataclass(frozen=True, slots=True)
class ImageWindows:
    """The windows of one process image, and the references that they are a sample of.

    `references` None: the image did not finish, so that what its windows stand for is not known;
    they are left out then. `core`: what was modelled, as it was given.
    """

    pid: int
    program: str
    references: int | None
    core: str
    windows: tuple[Window, ...]


def plan_for(runs: Sequence[Run]) -> WindowPlan:
    """The windows for a program that ran so long natively; how much it refers to is not known."""
    user_ns = median([run.user_ns for run in runs])
    plan = plan_of(user_ns * _REFERENCES_PER_NS)
    if user_ns <= _SHORT_NS:
        return plan
    return WindowPlan(max(plan.period, round((WARM + MEASURED) / _MOST_FRACTION)))


def plan_of(references: float, windows: int = WINDOWS) -> WindowPlan:
    """About so many windows for so many references.

    A period that warming and measuring fill leaves nothing out: short programs are modelled whole.
    """
    return WindowPlan(max(int(references / windows), WARM + MEASURED))


def read_windows(folder: Path) -> tuple[ImageWindows, ...]:
    """The windows of every process image, in the order of their names; () if none were modelled.

    Raises TlbcostError with exit code 125 naming the file and its defect.
    """
    try:
        return tuple(_image(path) for path in sorted(folder.glob("windows.*.tsv")))
    except TlbcostError as error:
        raise TlbcostError(str(error), "tlbcost doctor", TOOL_FAILED) from error


def _image(path: Path) -> ImageWindows:
    table = read_table(path, kinds.WINDOWS, partial=True)
    finished = table.complete and table.key("state") != "running"
    try:
        return ImageWindows(
            pid=int(table.key("pid")),
            program=table.key("program"),
            references=_count(table.key("references")) if finished else None,
            core=table.key("core"),
            windows=_windows(table) if finished else (),
        )
    except ValueError as error:
        raise TlbcostError(f"{path}: not a table of windows: {error}") from error


def _windows(table: Table) -> tuple[Window, ...]:
    found = tuple(
        Window(_count(row["references"]), _count(row["base_cycles"]), _count(row["huge_cycles"]))
        for row in table.records()
    )
    # Only the few references of a window cut short can take less than a cycle.
    for cycles in ("base_cycles", "huge_cycles"):
        if any(window.references for window in found) and not any(
            getattr(window, cycles) for window in found
        ):
            raise ValueError(f"references that take no {cycles}")
    return found


def _count(cell: str | None) -> int:
    found = count(None if cell == "NA" else cell)
    if found is None:
        raise ValueError("a count is missing")
    return found
