# SPDX-License-Identifier: GPL-2.0-or-later
"""How are runs copied from, and what do their copies say?"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.answer.request import EstimateRequest
from tlbcost.attribution.backing import Seen
from tlbcost.copies.record import CopiedRun
from tlbcost.copies.run import CopyPlan, copies_tool, more_may_do, too_few
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, check_outcome
from tlbcost.simulator.conditions import Conditions
from tlbcost.simulator.run import Simulation

# Short programs are run again for more copies of them: so often, and for so long in all.
_MOST_RUNS = 20
_REPEATED_S = 7.0
_MOST_LONG_RUNS = 4


@dataclass(frozen=True, slots=True)
class Copying:
    """What each run is launched with."""

    plan: CopyPlan
    launcher: Launcher
    conditions: Conditions

    def tool(self, run: int) -> Sequence[str]:
        """The program is timed on the core as the machine was found up to now."""
        core = self.conditions.core_then(None)
        folder = self.launcher.folder / f"copies{run}"
        folder.mkdir()
        option = None if core is None else core.option
        return copies_tool(dataclasses.replace(self.plan, core=option), folder)


def repeat(request: EstimateRequest, copying: Copying, runs: list[Outcome]) -> None:
    """A short program has room for few copies: run it again while that may be enough."""
    # Not at the top: pandas takes memory, which a program with a limit needs.
    from tlbcost.copies.tables import read_tables

    until = time.monotonic() + _REPEATED_S
    while len(runs) < _MOST_RUNS:
        tables = read_tables(run_folders(copying.launcher, runs))
        if not more_may_do(tables, measured=request.measured):
            return
        late = time.monotonic() + _wall_s(runs[-1]) > until
        # Without enough copies Valgrind comes next, which takes ten times as long.
        if late and (too_few(tables) is None or len(runs) >= _MOST_LONG_RUNS):
            return
        copying.conditions.measure()
        tool = copying.tool(len(runs))
        outcome = copying.launcher.execute(request.argv, discard=True, tool=tool)
        check_outcome(request.argv[0], outcome, runs, ignore_failure=request.ignore_failure)
        runs.append(outcome)


def _wall_s(outcome: Outcome) -> float:
    return 0.0 if outcome.run is None else outcome.run.wall_ns / 1e9


def run_folders(launcher: Launcher, runs: Sequence[Outcome]) -> list[Path]:
    """Where the tables of each run's copies are, if it had any."""
    return [launcher.folder / f"copies{i}" for i in range(len(runs))]


def without_copies_of(folders: Sequence[Path], native: Sequence[Outcome]) -> list[Outcome]:
    """Runs, each with the tables of its folder, less what their copies cost."""
    # Not at the top, as in repeat().
    from tlbcost.copies.estimator import without_copies
    from tlbcost.copies.tables import read_tables

    found = []
    for folder, outcome in zip(folders, native, strict=True):
        run = outcome.run
        if run is not None and (folder / "copies.tsv").exists():
            run = without_copies(read_tables([folder]), run)
        found.append(dataclasses.replace(outcome, run=run))
    return found


def said_by_copies(
    plan: CopyPlan,
    folders: list[Path],
    native: list[Outcome],
    path: Path,
    seen: Seen,
    executable: str | None = None,
) -> tuple[Simulation | None, CopiedRun | None, str | None]:
    """What copies say, or why they say nothing. `executable`: `path` as the kernel names it."""
    # Not at the top, as in repeat().
    from tlbcost.attribution.copies import copied_attributions
    from tlbcost.copies.estimator import copied_run, simulation_of, touched_of, weigh
    from tlbcost.copies.tables import read_tables

    tables = read_tables([folder for folder in folders if (folder / "copies.tsv").exists()])
    runs = [outcome.run for outcome in native if outcome.run is not None]
    if not runs or (why := too_few(tables)) is not None:
        return None, None, why if runs else "the program did not run"
    weighed = weigh(tables, runs, plan.cycles_per_ns)
    base, huge = plan.geometry.base, plan.geometry.huge
    touched = touched_of(seen, base.page_size_bytes, huge.page_size_bytes)
    simulation = simulation_of(tables, weighed, str(path), native[0], touched)
    executable = executable or os.path.realpath(path)
    attributions = copied_attributions(tables, weighed, str(path), executable, seen)
    return (
        dataclasses.replace(simulation, attributions=attributions),
        copied_run(tables, weighed, runs),
        None,
    )
