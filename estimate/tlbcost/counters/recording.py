# SPDX-License-Identifier: GPL-2.0-or-later
"""How are events of a program sampled? From the request of `tlbcost record` to the hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tlbcost.common.causes import tool_error
from tlbcost.common.cleanup import sigint_left_to_the_program
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.temporary import temporary_folder
from tlbcost.counters.diagnosis import diagnose
from tlbcost.counters.event_counts import Mode
from tlbcost.counters.event_selection import (
    SOFTWARE_SAMPLES,
    EventRequest,
    choose_events,
    choose_pmu,
    default_sample_names,
)
from tlbcost.counters.hits import Hits, read_hits
from tlbcost.counters.pmu import find_pmu
from tlbcost.counters.target import Target, watch
from tlbcost.processors.event_tables import generic_pmu, select
from tlbcost.run import program
from tlbcost.run.launch import Launcher, launcher_of

PROGRAM = "tlbcost-record"
# Events from sample to sample: some thousands of samples a second where translation hurts. Primes,
# so that sampling does not keep step with a loop of the program.
_PERIODS = {
    "cycles": 2_000_003,
    "instructions": 2_000_003,
    "task_clock_ns": 1_000_003,
    "page_faults": 1,
    "minor_faults": 1,
    "major_faults": 1,
    "context_switches": 1,
}
_CYCLES_PERIOD = 200_003
_MISSES_PERIOD = 10_007


@dataclass(frozen=True, slots=True)
class Pace:
    """How often samples are taken: each `period`th event, or `frequency` a second, or (both None)
    as suits the event."""

    period: int | None = None
    frequency: int | None = None


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """What is sampled, of what, and how."""

    requests: tuple[EventRequest, ...]
    mode: Mode
    pace: Pace
    target: Target
    addresses: bool

    def options(self) -> list[str]:
        """Of tlbcost-record."""
        chosen = ["--quiet", *self.target.options()]
        for each in self.requests:
            chosen += ["--event", f"{_word(each)}={each.spec}", *_pace(each, self.pace)]
        if self.mode != "both":
            chosen.append(f"--{self.mode}-only")
        if self.addresses:
            chosen.append("--addresses")
        return chosen


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """What is to be sampled. `argv` empty: no program of ours runs.

    `events` empty: cycles and misses. `pmu` None: this CPU's.
    """

    argv: tuple[str, ...]
    target: Target
    events: tuple[str, ...] = ()
    pmu: str | None = None
    mode: Mode = "user"
    pace: Pace = Pace()
    addresses: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """`table` is the text of the table of hits; `code` the program's exit code, 0: no program."""

    code: int
    table: str
    hits: Hits
    notes: tuple[str, ...]


def record(request: RecordRequest, warn: Callable[[str], None]) -> Recording:
    """Sample what is asked for; without counters, what the kernel knows, which `warn` then says.

    Raises TlbcostError: that of the choice of events, or those of take_samples().
    """
    path = program.resolve(request.argv[0]) if request.argv else None
    pmu, notes = choose_pmu(request.pmu)
    names = request.events or default_sample_names(pmu, addresses=request.addresses)
    plan = SamplingPlan(
        choose_events(pmu, names), request.mode, request.pace, request.target, request.addresses
    )
    try:
        return _record(plan, request.argv, path, notes)
    except TlbcostError as error:
        if error.exit_code != CANNOT_MEASURE or request.events or find_pmu().answer != "absent":
            raise
    warn(
        "no hardware counters here: the task's time and its page faults are recorded instead, "
        "no TLB misses"
    )
    software = tuple(map(EventRequest.of, select(generic_pmu(), SOFTWARE_SAMPLES)))
    return _record(replace(plan, requests=software), request.argv, path, ())


def take_samples(
    plan: SamplingPlan, folder: Path, launch: Callable[[Sequence[str]], int] | None
) -> tuple[int, str, Hits]:
    """Sample once; the program's exit code (0: there is none), the table's text, and what it says.

    `launch` runs the program with tlbcost-record, given its command line. Raises TlbcostError: what
    diagnose() says, with exit code 4, if nothing could be sampled, and then nothing has run.
    """
    table = folder / "hits.tsv"
    tool = [PROGRAM, *plan.options(), "--output", str(table)]
    try:
        code = launch(tool) if launch else watch(PROGRAM, tool[1:])
    except TlbcostError as error:
        if error.exit_code != CANNOT_MEASURE:
            raise
        code = CANNOT_MEASURE
        refused = True
    else:
        refused = launch is None and code == CANNOT_MEASURE
    if not table.exists():
        raise tool_error("cannot record", PROGRAM, code, folder)
    hits = read_hits(table)
    if refused:
        refusals = [event.refusal() for event in hits.events]
        raise diagnose(refusals, plan.target.scope, plan.mode, plan.target.pid)
    return code, table.read_text(encoding="utf-8", errors="surrogateescape"), hits


def sampled_runs(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    started: Callable[[int], None] | None = None,
) -> Callable[[Sequence[str]], int]:
    """A `launch` for take_samples(): raises what start_failure() says if it cannot start.

    `started`: as in Launcher.execute(). The program's output is that of the launcher's first run.
    """

    def launch(tool: Sequence[str]) -> int:
        outcome = launcher.execute(argv, discard=launcher.runs > 0, started=started, tool=tool)
        if outcome.exec_errno is not None:
            raise program.start_failure(argv[0], path, outcome.exec_errno)
        return outcome.code

    return launch


def _record(
    plan: SamplingPlan, argv: Sequence[str], path: Path | None, notes: tuple[str, ...]
) -> Recording:
    if path is None:
        with temporary_folder() as folder:
            return Recording(*take_samples(plan, folder, None), notes)
    # Ctrl-C is the program's; what it hit until it ends is reported.
    with launcher_of(None) as launcher, sigint_left_to_the_program():
        launch = sampled_runs(launcher, argv, path)
        return Recording(*take_samples(plan, launcher.folder, launch), notes)


def _word(request: EventRequest) -> str:
    """What the event is called in the table; a word without '=', which ends it."""
    return request.role_name or request.event.replace("=", "")


def _pace(request: EventRequest, pace: Pace) -> list[str]:
    if pace.frequency is not None:
        return ["--frequency", str(pace.frequency)]
    if pace.period is not None:
        return ["--period", str(pace.period)]
    role = _role(request)
    if role is None:
        return []
    # AMD's instruction-based sampling takes any operation, few of which miss.
    often = role.endswith(("_cycles", "_slots")) or "ibs_" in request.spec
    other = _CYCLES_PERIOD if often else _MISSES_PERIOD
    return ["--period", str(_PERIODS.get(role, other))]


def _role(request: EventRequest) -> str | None:
    if request.role_name is not None:
        return request.role_name.split(".")[0]
    return next((e.role for e in generic_pmu().events if e.string == request.event), None)
