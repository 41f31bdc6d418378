# SPDX-License-Identifier: GPL-2.0-or-later
"""Measuring the gain: by pairs of runs if these fit into the time budget, else in copies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tlbcost.answer.request import EstimateRequest
from tlbcost.attribution.backing import Seen
from tlbcost.common.causes import tool_error
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.common.progress import duration, say
from tlbcost.copies.process import note_end, run_tool
from tlbcost.copies.record import CopiedRun
from tlbcost.copies.run import arms_tool, unavailable
from tlbcost.measured.record import MeasuredGain
from tlbcost.measured.whole_runs import Asked, measure_runs
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run

# Of more than one run copies are made for so long.
_RUNS_S = 24.0
_COPIES = 8
# Copies of a large program wait for one another: for so long after its end.
_AFTER_S = 12.0
_SECONDS = 30.0
# Of a program that makes them all the time: while they are recorded, it takes ten times as long.
_RECORDED_CALLS = 10_000


def measure_program(
    request: EstimateRequest,
    launcher: Launcher,
    path: Path,
    native: Sequence[Outcome],
    seen: Seen,
    copied: CopiedRun | None,
) -> tuple[MeasuredGain | str | None, list[Run]]:
    """Measure a program that can be run again, or say why not; with its runs on base pages.

    None: it was not asked for. `seen`: its memory; `copied`: what copies that were followed showed
    of it. Raises TimeLimitPassed.
    """
    first = native[0]
    run = first.run
    if not request.measured or run is None:
        return None, []
    asked = Asked(
        launcher, request.argv, path, first, seen, request.time_budget, system=request.system
    )
    if (asked.fits() and not request.also) or request.region is not None:
        most = duration(asked.seconds)
        if asked.run_s > 1:
            say(
                f"one run takes {duration(asked.run_s)}: pairs of runs for up to {most}; Ctrl-C "
                "ends that with what is known"
            )
        found, base = measure_runs(asked)
        return _told(found), base
    if (why := unavailable()) is not None:
        return _told(why), []
    found = _copies_of_runs(request, launcher, first, run, _recorded_calls(copied))
    return _told(found), []


def measure_process(
    request: EstimateRequest, pid: int, folder: Path, run: Run, copied: CopiedRun | None
) -> MeasuredGain | str | None:
    """The same of a process that runs already; `run`: what it did while it was followed."""
    if not request.measured:
        return None
    calls = _recorded_calls(copied)
    found = _copies_of_process(request, pid, folder, run, calls)
    return _told(found)


def _copies_of_process(
    request: EstimateRequest, pid: int, folder: Path, run: Run, calls: int
) -> MeasuredGain | str:
    # Not at the top: pandas takes memory, which a program with a limit needs.
    from tlbcost.measured.arms import measured_in_arms

    seconds = _SECONDS if request.seconds is None else request.seconds
    say(
        f"measuring process {pid}: its copies do the same work on base and on huge pages"
        + ("; its system calls are recorded, 0.3 s at a time" if calls else "")
    )
    tables = _new_folder(folder)
    tool = arms_tool(tables, _COPIES, run.cpu_ns, calls, also=request.also)
    words = [*tool, "--pid", str(pid)]
    words += [
        "--seconds",
        str(max(1, round(seconds))),
        *(["--children"] if request.children else []),
    ]
    code, said = run_tool(words)
    note_end(pid)
    if code == CANNOT_MEASURE:
        return "the process may not be copied"
    if code != 0:
        say(said)
        raise tool_error(f"cannot measure process {pid}", words[0], code, folder)
    return measured_in_arms([tables], run.user_ns / (run.cpu_ns or 1), request.also)


def _copies_of_runs(
    request: EstimateRequest, launcher: Launcher, first: Outcome, run: Run, calls: int
) -> MeasuredGain | str:
    """Copies of one more run; of several, while there are few copies and that takes little time."""
    # Not at the top, as above.
    from tlbcost.measured.arms import copies_in, measured_in_arms

    say("measuring: copies of one more run do the same work on base and on huge pages")
    until = time.monotonic() + _RUNS_S
    folders: list[Path] = []
    while True:
        folders.append(_new_folder(launcher.folder))
        begun = time.monotonic()
        limit = max(until - begun, run.wall_ns / 1e9 + _AFTER_S)
        tool = arms_tool(folders[-1], _COPIES, run.cpu_ns, calls, limit, request.also)
        outcome = launcher.execute(request.argv, discard=True, tool=tool)
        if outcome.code != first.code or not (folders[-1] / "copies.tsv").exists():
            return f"the run that copies were made of {outcome.describe()}"
        now = time.monotonic()
        if copies_in(folders) >= _COPIES - 2 or 2 * now - begun > until:
            return measured_in_arms(folders, run.user_ns / (run.cpu_ns or 1), request.also)


def _recorded_calls(copied: CopiedRun | None) -> int:
    """0: copies can do a slice of the program's work between two calls that they must not make."""
    often = copied is not None and 2 * copied.record.calling > copied.record.windows
    return _RECORDED_CALLS if often else 0


def _new_folder(parent: Path) -> Path:
    """One for the tables of one attempt."""
    folder = parent / f"arms{len(list(parent.glob('arms*')))}"
    folder.mkdir()
    return folder


def _told(found: MeasuredGain | str) -> MeasuredGain | str:
    """Say why nothing was measured, if nothing was."""
    if isinstance(found, str):
        say(f"not measured: {found}")
    return found
