# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost count` do, from its request to its findings?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tlbcost.common.cleanup import sigint_left_to_the_program
from tlbcost.common.document import now
from tlbcost.common.paths import version
from tlbcost.common.temporary import temporary_folder
from tlbcost.counters.count_findings import CountFindings, formula_values, relevant
from tlbcost.counters.count_plan import CountPlan
from tlbcost.counters.count_runs import count_series, count_target
from tlbcost.counters.diagnosis import no_process
from tlbcost.counters.event_counts import EventCounts, Mode
from tlbcost.counters.event_selection import EventRequest, choose_events, choose_pmu
from tlbcost.counters.readings import Reading
from tlbcost.counters.target import Target
from tlbcost.run.launch import launcher_of
from tlbcost.run.outcome import Outcome
from tlbcost.run.program import resolve
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


def count(request: CountRequest) -> tuple[int, CountFindings]:
    """Count; the program's exit code (0: there is none), and the findings.

    Raises TlbcostError: that of the choice of events, or those of count_runs.
    """
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
    path = resolve(request.argv[0]) if request.argv else None
    if path is None:
        with temporary_folder() as folder:
            code, counts = 0, count_target(folder, plan)
    else:
        code, counts = _program(request, path, plan)
    return code, CountFindings(
        version=version(),
        date=now(),
        machine=current_machine(),
        pmu=pmu,
        requests=events,
        counts=replace(counts, notes=(*notes, *counts.notes)),
        figures=formula_values(relevant(pmu, events), counts),
    )


def _program(request: CountRequest, path: Path, plan: CountPlan) -> tuple[int, EventCounts]:
    """Run the program as often as it takes; its exit code, and the counts."""
    codes: list[int] = []
    with launcher_of(request.prepare) as launcher, sigint_left_to_the_program() as interrupted:

        def go_on(outcome: Outcome) -> bool:
            codes.append(outcome.code)
            return not interrupted()

        counts = count_series(launcher, request.argv, path, plan, request.runs, go_on)
    return codes[0], counts
