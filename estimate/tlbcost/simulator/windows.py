# SPDX-License-Identifier: GPL-2.0-or-later
"""Windows of a program that are modelled cycle by cycle.

The simulator's `windows` tables (doc/format.md), and how many windows to request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tlbcost.common import formats
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.formats import Table, counts_in, read_table, required_count
from tlbcost.run.outcome import Run

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
        return tuple(_image(path) for path in sorted(folder.glob("windows.*.tsv")))
    except TlbcostError as error:
        raise TlbcostError(str(error), "tlbcost doctor", TOOL_FAILED) from error


def _image(path: Path) -> ImageWindows:
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
