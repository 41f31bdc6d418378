# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the hardware counters say about a program? The runs around tlbcost-count.

The program runs once for each group of events that fits into the counters, with cycles counted in
each run, so that it shows whether the runs were alike.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.causes import tool_error
from tlbcost.common.errors import CANNOT_MEASURE, SIGNAL_BASE, TOOL_FAILED, TlbcostError
from tlbcost.counters.count_plan import CountPlan
from tlbcost.counters.diagnosis import Refusal, diagnose
from tlbcost.counters.event_counts import EventCounts, Mode
from tlbcost.counters.event_selection import CYCLES, EventRequest
from tlbcost.counters.readings import PROGRAM, Intervals, Reading, by_event, parse_readings
from tlbcost.counters.target import watch
from tlbcost.counters.totals import Readings, mark_silent, total_counts
from tlbcost.processors.events import Event, Pmu
from tlbcost.run import program
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome


@dataclass(frozen=True, slots=True)
class _Batch:
    """Events to count in one run, with the leader unless they could not be counted so."""

    events: tuple[EventRequest, ...]
    led: bool = True


@dataclass(slots=True)
class _Series:
    """The runs so far. `settled`: events that no further run can obtain."""

    launcher: Launcher
    argv: Sequence[str]
    path: Path
    plan: CountPlan
    go_on: Callable[[Outcome], bool]
    outcomes: list[Outcome] = field(default_factory=list)
    readings: Readings = field(default_factory=list)
    settled: set[str] = field(default_factory=set)
    stopped: bool = False


def count_program(
    launcher: Launcher,
    argv: Sequence[str],
    pmu: Pmu,
    events: Sequence[Event],
    mode: Mode = "user",
    *,
    path: Path,
    runs: int = 1,
    multiplex: bool = False,
    go_on: Callable[[Outcome], bool] = lambda _: True,
) -> EventCounts:
    """Count `events` of the program, `runs` times, in as many runs each time as they need.

    `path` is the file that argv[0] starts. `go_on` is called after each run, and may end the
    series: what was not counted is then reported. Raises TlbcostError: what diagnose() says, with
    exit code 4, if nothing could be counted; the program's own code if it cannot be repeated; 126
    or 127 if it cannot be started.
    """
    plan = CountPlan(pmu, tuple(map(EventRequest.of, events)), mode, multiplex=multiplex)
    return count_series(launcher, argv, path, plan, runs, go_on)


def count_series(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    plan: CountPlan,
    runs: int,
    go_on: Callable[[Outcome], bool],
) -> EventCounts:
    """As count_program, for any plan."""
    series = _Series(launcher, argv, path, plan, go_on)
    groups = 0
    for _ in range(runs):
        if not series.stopped:
            groups = max(groups, _repetition(series))
    return total_counts(
        series.readings,
        plan,
        argv,
        [outcome.run for outcome in series.outcomes if outcome.run is not None],
        groups,
        stopped=series.stopped,
    )


def count_target(folder: Path, plan: CountPlan) -> EventCounts:
    """Count a process, a cgroup or the system until it ends or we are interrupted (SIGINT).

    Raises TlbcostError as count_program does.
    """

    def run(output: Path) -> None:
        options = [*plan.options(plan.requests), "--quiet", "--output", str(output)]
        code = watch([str(paths.libexec(PROGRAM)), *options])
        if code == -signal.SIGINT:
            raise TlbcostError(
                "cannot count: interrupted before counting began", None, SIGNAL_BASE + signal.SIGINT
            )
        if code == CANNOT_MEASURE:
            raise TlbcostError("nothing could be counted", None, CANNOT_MEASURE)
        if code != 0:
            raise tool_error("cannot count", PROGRAM, code, folder)

    found = _obtain(folder / "counters.tsv", plan, plan.requests, run, first=True)
    readings = [(0, each, found[each.name]) for each in plan.requests]
    return total_counts(readings, plan, (), [], 1, stopped=False)


def _repetition(series: _Series) -> int:
    """Count everything that can be, once; the number of runs that it took."""
    # Without cycles there is nothing to compare the runs by.
    leader = next((each for each in series.plan.requests if each.role_name == CYCLES), None)
    rest = tuple(
        each
        for each in series.plan.requests
        if each is not leader and each.name not in series.settled
    )
    batches = [_Batch(rest)]
    first = len(series.outcomes)
    while batches and not series.stopped:
        batch = batches.pop(0)
        events = (leader, *batch.events) if leader and batch.led else batch.events
        found = _run(series, events)
        if not series.plan.one_run:
            batches[:0] = _further(series, batch, found, has_leader=leader is not None)
    return len(series.outcomes) - first


def _further(
    series: _Series, batch: _Batch, found: Mapping[str, Reading], *, has_leader: bool
) -> list[_Batch]:
    """What is to be tried in further runs, after one that counted `batch`.

    Each is smaller than `batch` or goes without the leader, so that there is an end to it.
    """
    further: list[_Batch] = []
    for state in ("left_over", "never_ran"):
        events = tuple(each for each in batch.events if found[each.name].state == state)
        if not events:
            continue
        if len(events) < len(batch.events) and state == "left_over":
            further.append(_Batch(events, batch.led))
        elif len(events) > 1:
            # A group that the kernel took, but never found counters for.
            half = (len(events) + 1) // 2
            further += [_Batch(events[:half], batch.led), _Batch(events[half:], batch.led)]
        elif batch.led and has_leader:
            # Some events of POWER need the very counter that cycles are counted in.
            further.append(_Batch(events, led=False))
        else:
            series.settled.add(events[0].name)
    return further


def _run(series: _Series, events: Sequence[EventRequest]) -> dict[str, Reading]:
    """One run of the program; what each event's counter said."""
    number = len(series.outcomes)
    plan = series.plan
    outcome: Outcome | None = None

    def run(output: Path) -> None:
        nonlocal outcome
        tool = (PROGRAM, *plan.options(events), "--quiet", "--output", str(output))
        outcome = series.launcher.execute(series.argv, discard=series.launcher.runs > 0, tool=tool)
        if outcome.exec_errno is not None:
            raise program.start_failure(series.argv[0], series.path, outcome.exec_errno)

    table = series.launcher.folder / f"counters{series.launcher.runs}.tsv"
    found = _obtain(table, plan, events, run, first=number == 0)
    for each in events:
        reading = found[each.name]
        series.readings.append((number, each, reading))
        if reading.state in ("unsupported", "forbidden", "failed", "silent"):
            series.settled.add(each.name)
    if outcome is not None:
        _check_repeated(series.argv[0], outcome, series.outcomes)
        series.outcomes.append(outcome)
        series.stopped = not series.go_on(outcome)
    return found


def _obtain(
    table: Path,
    plan: CountPlan,
    events: Sequence[EventRequest],
    run: Callable[[Path], None],
    *,
    first: bool,
) -> dict[str, Reading]:
    """Call `run`, which has tlbcost-count write `table`; what it says of each event.

    In the first run it is an error if nothing could be counted; in later ones it is a finding.
    """
    intervals = Intervals(len(events), plan.show) if plan.interval_ms is not None else None
    refused: TlbcostError | None = None
    with intervals.followed(table) if intervals else contextlib.nullcontext():
        try:
            run(table)
        except TlbcostError as error:
            if error.exit_code != CANNOT_MEASURE:
                raise
            refused = error
    try:
        text = intervals.text if intervals else table.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""
    readings = parse_readings(text, table.name) if text or refused is None else []
    found = by_event(readings, events)
    if refused is not None and first:
        refusals = [found[each.name].refusal(each) for each in events]
        target = plan.target
        raise diagnose(refusals, target.scope, plan.mode, target.pid) from refused
    cycles = found.get(CYCLES)
    if cycles is not None and cycles.count == 0 and plan.target.scope == "program":
        silent = Refusal(CYCLES, "silent", None)
        raise diagnose([silent], plan.target.scope, plan.mode, plan.target.pid)
    return mark_silent(found, plan.pmu)


def _check_repeated(name: str, outcome: Outcome, before: Sequence[Outcome]) -> None:
    """Counts of runs that ended differently do not belong together."""
    if before and outcome.code != before[0].code:
        raise TlbcostError(
            f"cannot count: {name} cannot be repeated: run 1 {before[0].describe()}, run "
            f"{len(before) + 1} {outcome.describe()}",
            "--multiplex counts everything in one run; --prepare CMD restores before each run "
            "what the program changes",
            outcome.code or TOOL_FAILED,
        )
