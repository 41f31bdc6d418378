# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of a program around tlbcost-count, and the whole of `tlbcost count`.

The program runs once for each group of events that fits into the counters, with cycles counted in
each run, so that it shows whether the runs were alike.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.cleanup import sigint_left_to_the_program
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, SIGNAL_BASE, TOOL_FAILED, TlbcostError, tool_error
from tlbcost.common.files import temporary_folder
from tlbcost.common.paths import version
from tlbcost.counters.count_report import Readings, mark_silent, total_counts
from tlbcost.counters.count_tool import (
    CountFindings,
    CountPlan,
    Reading,
    Target,
    by_event,
    formula_values,
    intervals,
    parse_readings,
    relevant,
    watch,
)
from tlbcost.counters.event_counts import EventCounts, Mode, Refusal, diagnose, no_process
from tlbcost.counters.pmu import CYCLES, PROGRAM, EventRequest, choose_events, choose_pmu
from tlbcost.processors.events import Event, Pmu
from tlbcost.run import launch
from tlbcost.run.launch import Launcher, launcher_of, resolve
from tlbcost.run.outcome import Outcome
from tlbcost.system.machine import current_machine


@dataclass(frozen=True, slots=True)
class CountRequest:
    """What is to be counted. `argv` empty: no program of ours runs.

    `events` empty: what the formulas of the CPU need. `pmu` None: this CPU's. `prepare`: a shell
    command before each run. `show` gets the readings of each interval of `interval_ms`.
    """

    argv: tuple[str, ...]
    target: Target
    events: tuple[str, ...] = ()
    pmu: str | None = None
    mode: Mode = "user"
    multiplex: bool = False
    interval_ms: int | None = None
    runs: int = 1
    prepare: str | None = None
    show: Callable[[Sequence[Reading], Sequence[EventRequest]], None] = lambda _, __: None


# Events to be counted in one run, and whether the leader, cycles, is counted with them.
_Batch = tuple[tuple[EventRequest, ...], bool]


@dataclass(slots=True)
class _Series:
    launcher: Launcher
    argv: Sequence[str]
    path: Path
    plan: CountPlan
    go_on: Callable[[Outcome], bool]
    outcomes: list[Outcome] = field(default_factory=list)
    readings: Readings = field(default_factory=list)
    settled: set[str] = field(default_factory=set)
    stopped: bool = False


def count(request: CountRequest) -> tuple[int, CountFindings]:
    """Count; the program's exit code, 0 without one, and the findings. Raises TlbcostError."""
    target = request.target
    if target.pid is not None and not Path(f"/proc/{target.pid}").exists():
        raise no_process(target.pid)
    pmu, notes = choose_pmu(request.pmu)
    events = choose_events(pmu, request.events)
    plan = CountPlan(
        pmu,
        events,
        request.mode,
        target,
        request.multiplex,
        request.interval_ms,
        lambda readings: request.show(readings, events),
    )
    codes: list[int] = []
    if not request.argv:
        with temporary_folder() as folder:
            counts = count_target(folder, plan)
    else:
        path = resolve(request.argv[0])
        with launcher_of(request.prepare) as launcher, sigint_left_to_the_program() as interrupted:

            def go_on(outcome: Outcome) -> bool:
                codes.append(outcome.code)
                return not interrupted()

            counts = count_series(launcher, request.argv, path, plan, request.runs, go_on)
    return next(iter(codes), 0), CountFindings(
        version=version(),
        date=now(),
        machine=current_machine(),
        pmu=pmu,
        requests=events,
        counts=replace(counts, notes=(*notes, *counts.notes)),
        figures=formula_values(relevant(pmu, events), counts),
    )


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

    `path`: the file that argv[0] starts. `go_on` may end the series after each run. Raises
    TlbcostError: what diagnose() says, with exit code 4, if nothing could be counted; the program's
    own code if it cannot be repeated; 126 or 127 if it cannot be started.
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
    """Count a process, a cgroup or the system until it ends, or SIGINT. Raises TlbcostError."""

    def run(output: Path) -> None:
        options = [*plan.options(plan.requests), "--quiet", "--output", str(output)]
        code = watch([str(paths.libexec(PROGRAM)), *options])
        if code == -signal.SIGINT:
            why = "cannot count: interrupted before counting began"
            raise TlbcostError(why, None, SIGNAL_BASE + signal.SIGINT)
        if code == CANNOT_MEASURE:
            raise TlbcostError("nothing could be counted", None, CANNOT_MEASURE)
        if code != 0:
            raise tool_error("cannot count", PROGRAM, code, folder)

    found = _obtain(folder / "counters.tsv", plan, plan.requests, run, first=True)
    readings = [(0, each, found[each.name]) for each in plan.requests]
    return total_counts(readings, plan, (), [], 1, stopped=False)


def _repetition(series: _Series) -> int:
    # Without cycles there is nothing to compare the runs by.
    leader = next((each for each in series.plan.requests if each.role_name == CYCLES), None)
    rest = tuple(
        each
        for each in series.plan.requests
        if each is not leader and each.name not in series.settled
    )
    batches: list[_Batch] = [(rest, leader is not None)]
    first = len(series.outcomes)
    while batches and not series.stopped:
        events, led = batches.pop(0)
        found = _run(series, (leader, *events) if leader and led else events)
        if not series.plan.one_run:
            batches[:0] = _further(series, events, found, led=led)
    return len(series.outcomes) - first


def _further(
    series: _Series, batch: Sequence[EventRequest], found: Mapping[str, Reading], *, led: bool
) -> list[_Batch]:
    """What is to be tried in further runs, after one that counted `batch`.

    Each is smaller than `batch` or goes without the leader, so that there is an end to it.
    """
    further: list[_Batch] = []
    for state in ("left_over", "never_ran"):
        events = tuple(each for each in batch if found[each.name].state == state)
        if not events:
            continue
        if len(events) < len(batch) and state == "left_over":
            further.append((events, led))
        elif len(events) > 1:
            # A group that the kernel took, but never found counters for.
            half = (len(events) + 1) // 2
            further += [(events[:half], led), (events[half:], led)]
        elif led:
            # Some events of POWER need the very counter that cycles are counted in.
            further.append((events, False))
        else:
            series.settled.add(events[0].name)
    return further


def _run(series: _Series, events: Sequence[EventRequest]) -> dict[str, Reading]:
    number = len(series.outcomes)
    plan = series.plan
    outcome: Outcome | None = None

    def run(output: Path) -> None:
        nonlocal outcome
        tool = (PROGRAM, *plan.options(events), "--quiet", "--output", str(output))
        outcome = series.launcher.execute(series.argv, discard=series.launcher.runs > 0, tool=tool)
        if outcome.exec_errno is not None:
            raise launch.start_failure(series.argv[0], series.path, outcome.exec_errno)

    table = series.launcher.folder / f"counters{series.launcher.runs}.tsv"
    found = _obtain(table, plan, events, run, first=number == 0)
    for each in events:
        reading = found[each.name]
        series.readings.append((number, each, reading))
        if reading.state in ("unsupported", "forbidden", "failed", "silent"):
            series.settled.add(each.name)
    if outcome is not None:
        if series.outcomes and outcome.code != series.outcomes[0].code:
            raise TlbcostError(
                f"cannot count: {series.argv[0]} cannot be repeated: run 1 "
                f"{series.outcomes[0].describe()}, run {len(series.outcomes) + 1} "
                f"{outcome.describe()}",
                "--multiplex counts everything in one run; --prepare CMD restores before each run "
                "what the program changes",
                outcome.code or TOOL_FAILED,
            )
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
    refused: TlbcostError | None = None
    with (
        contextlib.nullcontext(list[str]())
        if plan.interval_ms is None
        else intervals(table, len(events), plan.show)
    ) as lines:
        try:
            run(table)
        except TlbcostError as error:
            if error.exit_code != CANNOT_MEASURE:
                raise
            refused = error
    if table.is_file():
        lines.append(table.read_text(encoding="utf-8", errors="replace"))
    text = "".join(lines)
    readings = parse_readings(text, table.name) if text or refused is None else []
    found = by_event(readings, events)
    target = plan.target
    if refused is not None and first:
        refusals = [found[each.name].refusal(each) for each in events]
        raise diagnose(refusals, target.scope, plan.mode, target.pid) from refused
    cycles = found.get(CYCLES)
    if cycles is not None and cycles.count == 0 and target.scope == "program":
        silent = Refusal(CYCLES, "silent", None)
        raise diagnose([silent], target.scope, plan.mode, target.pid)
    return mark_silent(found, plan.pmu)
