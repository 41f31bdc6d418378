# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the hardware counters say about a program? The runs around tlbcost-count.

The program runs once for each group of events that fits into the counters, with cycles counted in
each run, so that it shows whether the runs were alike.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.counters.counted import Counted, Mode
from tlbcost.counters.follow import Intervals
from tlbcost.counters.refusal import Refusal, diagnose
from tlbcost.counters.silent import mark_silent
from tlbcost.counters.target import Plan, watch
from tlbcost.counters.tool import (
    CYCLES,
    PROGRAM,
    Reading,
    Wanted,
    by_event,
    options,
    parse_readings,
)
from tlbcost.counters.totals import Readings, counted
from tlbcost.processors.events import Event, Pmu
from tlbcost.processors.formulas import names
from tlbcost.run import program
from tlbcost.run.launch import Launcher, Outcome
from tlbcost.system import hints

# Formulas whose events are counted unless others are named, the most telling first.
_DEFAULT_FORMULAS = (
    "share", "pending_share", "data_share", "code_share", "exposed_share", "ept_share",
    "walks", "data_walks", "code_walks", "hits", "data_hits", "walk_cycles",
    "tma_data_share", "tma_code_share",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Batch:
    """Events to count in one run, beside the leader unless they could not be counted so."""

    events: tuple[Wanted, ...]
    led: bool = True


@dataclass(slots=True)
class _Series:
    """The runs so far. `settled`: events that no further run can obtain."""

    launcher: Launcher
    argv: Sequence[str]
    path: Path
    plan: Plan
    go_on: Callable[[Outcome], bool]
    outcomes: list[Outcome] = field(default_factory=list)
    readings: Readings = field(default_factory=list)
    settled: set[str] = field(default_factory=set)
    stopped: bool = False


def default_events(pmu: Pmu, formulas: Sequence[str] = _DEFAULT_FORMULAS) -> tuple[Event, ...]:
    """Cycles, instructions, and what these formulas of this CPU need.

    Those of one formula follow each other, so that they tend to be counted in one run.
    """
    needed = [
        {CYCLES, "instructions"},
        *(names(pmu.formulas[name]) for name in formulas if name in pmu.formulas),
    ]
    chosen = {event.name: event for some in needed for event in pmu.events if event.name in some}
    return tuple(chosen.values())


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
) -> Counted:
    """Count `events` of the program, `runs` times, in as many runs each time as they need.

    `path` is the file that argv[0] starts. `go_on` is called after each run, and may end the
    series: what was not counted is then told. Raises TlbcostError: what diagnose() says, with
    exit code 4, if nothing could be counted; the program's own code if it cannot be repeated; 126
    or 127 if it cannot be started.
    """
    plan = Plan(pmu, tuple(Wanted.of(event) for event in events), mode, multiplex=multiplex)
    return count_series(launcher, argv, path, plan, runs, go_on)


def count_series(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    plan: Plan,
    runs: int,
    go_on: Callable[[Outcome], bool],
) -> Counted:
    """As count_program, for any plan."""
    series = _Series(launcher, argv, path, plan, go_on)
    groups = 0
    for _ in range(runs):
        if not series.stopped:
            groups = max(groups, _repetition(series))
    return counted(
        series.readings,
        plan,
        argv,
        [outcome.run for outcome in series.outcomes if outcome.run is not None],
        groups,
        stopped=series.stopped,
    )


def count_target(folder: Path, plan: Plan) -> Counted:
    """Count a process, a cgroup or the system until it ends or we are interrupted (SIGINT).

    Raises TlbcostError as count_program does.
    """

    def run(output: Path) -> None:
        code = watch([*plan.options(plan.wanted), "--quiet", "--output", str(output)])
        if code == CANNOT_MEASURE:
            raise TlbcostError("nothing could be counted", None, CANNOT_MEASURE)
        if code != 0:
            raise TlbcostError(f"cannot count: {PROGRAM} exited with {code}", None, TOOL_FAILED)

    found = _obtain(folder / "counters.tsv", plan, plan.wanted, run, first=True)
    readings = [(0, each, found[each.name]) for each in plan.wanted]
    return counted(readings, plan, (), [], 1, stopped=False)


def probe(pmu: Pmu, events: Sequence[Event], mode: Mode = "user") -> list[Refusal]:
    """Open each event on tlbcost-count itself, and run nothing: the state of each.

    Raises TlbcostError with exit code 125 if tlbcost-count is not there or talks nonsense.
    """
    wanted = tuple(Wanted.of(event) for event in events)
    tool = str(paths.libexec(PROGRAM))
    arguments = [*options(wanted, mode, pmu), "--probe", "--quiet"]
    try:
        done = subprocess.run(
            [tool, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise TlbcostError(
            f"cannot run {tool}: {error.strerror}", hints.rebuild(), TOOL_FAILED
        ) from error
    found = by_event(parse_readings(done.stdout, f"{PROGRAM} --probe"), wanted)
    return [found[each.name].refusal(each) for each in wanted]


def _repetition(series: _Series) -> int:
    """Count everything that can be, once; the number of runs that it took."""
    # Without cycles there is nothing to compare the runs by.
    leader = next((each for each in series.plan.wanted if each.role_name == CYCLES), None)
    rest = tuple(
        each
        for each in series.plan.wanted
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


def _run(series: _Series, events: Sequence[Wanted]) -> dict[str, Reading]:
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
    plan: Plan,
    events: Sequence[Wanted],
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
