# SPDX-License-Identifier: GPL-2.0-or-later
"""How is the gain measured, besides being modelled, and by which of two ways?

A program that is over soon runs again, on base and on huge pages in turns. Of one that takes
long, or runs already, copies do the same work on both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tlbcost.answer.request import EstimateRequest
from tlbcost.common.causes import tool_error
from tlbcost.common.cleanup import check_time
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.progress import duration, say
from tlbcost.copies.process import note_end, run_tool
from tlbcost.copies.record import CopiedRun
from tlbcost.copies.run import arms_tool, unavailable
from tlbcost.measured.record import MeasuredGain, TooBusy
from tlbcost.measured.whole_runs import measure_runs, predicted_s
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run

# Rounds of whole runs may take this long; otherwise copies of one more run are measured.
_RUNS_S = 24.0
_COPIES = 8
# Copies of a large program wait for one another: for so long after its end.
_AFTER_S = 12.0
_SECONDS = 30.0
# Of a program that makes them all the time: while they are recorded, it takes ten times as long.
_RECORDED_CALLS = 10_000
# Between two attempts on a machine that is too busy.
_PAUSE_S = 20.0


def measure_program(
    request: EstimateRequest,
    launcher: Launcher,
    native: Sequence[Outcome],
    copied: CopiedRun | None,
) -> MeasuredGain | str | None:
    """Measure a program that can be run again; or why not. None: it was not asked for.

    `copied`: what copies that were followed showed of it. Raises TimeLimitPassed.
    """
    first = native[0]
    run = first.run
    if not request.measured or run is None:
        return None
    if request.region is not None:
        return _unmeasured("for a region the gain is modelled (tlbcost trial --region measures it)")
    # Whole runs have their own memory on huge pages, not what comes from files.
    if predicted_s(first) <= _RUNS_S and not request.also:
        return _patiently(
            request, lambda: measure_runs(launcher, request.argv, os.environ, first, _RUNS_S)
        )
    if (why := unavailable()) is not None:
        return _unmeasured(why)
    calls = _recorded_calls(copied)
    return _patiently(request, lambda: _copies_of_runs(request, launcher, first, run, calls))


def measure_process(
    request: EstimateRequest, pid: int, folder: Path, run: Run, copied: CopiedRun | None
) -> MeasuredGain | str | None:
    """The same of a process that runs already; `run`: what it did while it was followed."""
    if not request.measured:
        return None
    calls = _recorded_calls(copied)
    return _patiently(request, lambda: _copies_of_process(request, pid, folder, run, calls))


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


def _patiently(
    request: EstimateRequest, measure: Callable[[], MeasuredGain | str]
) -> MeasuredGain | str:
    """Measure; again while the machine is too busy, if an attempt begins within the patience."""
    until = time.monotonic() + (request.patience or 0.0)
    found = measure()
    while isinstance(found, TooBusy) and time.monotonic() + _PAUSE_S < until:
        say(f"{found}; again in {duration(_PAUSE_S)}")
        check_time()
        time.sleep(_PAUSE_S)
        try:
            found = measure()
        except TlbcostError as error:
            # The process is gone, say: what was found before stands.
            say(str(error))
            break
    return _unmeasured(found) if isinstance(found, str) else found


def _unmeasured(why: str) -> str:
    say(f"not measured: {why}")
    return str(why)
