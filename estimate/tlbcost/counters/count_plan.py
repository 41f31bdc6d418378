# SPDX-License-Identifier: GPL-2.0-or-later
"""What is counted, of what, and how? And which of the events can be counted here?"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tlbcost.common import paths
from tlbcost.counters.diagnosis import Refusal
from tlbcost.counters.event_counts import Mode
from tlbcost.counters.event_selection import EventRequest
from tlbcost.counters.readings import PROGRAM, Reading, by_event, parse_readings
from tlbcost.counters.target import PROGRAM_ITSELF, Target
from tlbcost.processors.events import Pmu
from tlbcost.system import hints


@dataclass(frozen=True, slots=True)
class CountPlan:
    """What is counted, of what, and how.

    `multiplex`: in one run, in which the events take turns; anything but a program of ours is
    always counted so. `interval_ms`: `show` gets the readings of each interval as it ends.
    """

    pmu: Pmu
    requests: tuple[EventRequest, ...]
    mode: Mode = "user"
    target: Target = PROGRAM_ITSELF
    multiplex: bool = False
    interval_ms: int | None = None
    show: Callable[[Sequence[Reading]], None] = lambda _: None

    @property
    def one_run(self) -> bool:
        """Whether the events take turns in one run."""
        return self.multiplex or self.interval_ms is not None or self.target.scope != "program"

    def options(self, events: Sequence[EventRequest]) -> list[str]:
        """Of tlbcost-count, for a run that counts `events`."""
        chosen = _options(events, self.mode, self.pmu, multiplex=self.multiplex)
        chosen += self.target.options()
        if self.interval_ms is not None:
            chosen += ["--interval", str(self.interval_ms)]
        return chosen


def probe(pmu: Pmu, requests: Sequence[EventRequest], mode: Mode = "user") -> list[Refusal]:
    """Open each event on tlbcost-count itself, and run nothing: the state of each.

    Raises TlbcostError with exit code 125 if tlbcost-count is missing or its table has a defect.
    """
    tool = str(paths.libexec(PROGRAM))
    arguments = [*_options(requests, mode, pmu), "--probe", "--quiet"]
    try:
        done = subprocess.run(
            [tool, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise hints.cannot_run(tool, error) from error
    found = by_event(parse_readings(done.stdout, f"{PROGRAM} --probe"), requests)
    return [found[each.name].refusal(each) for each in requests]


def _options(
    requests: Sequence[EventRequest], mode: Mode, pmu: Pmu, *, multiplex: bool = False
) -> list[str]:
    """The options that say what to count, and how; the first of `requests` leads each group."""
    chosen: list[str] = []
    for each in requests:
        chosen += ["--event", f"{each.name}={each.spec}"]
    if pmu.counters is not None:
        chosen += ["--counters", str(pmu.counters)]
        # The kernel's own events take no counter either.
        free = [each.name for each in requests if each.software or each.role_name in pmu.fixed]
        if free:
            chosen += ["--fixed", ",".join(free)]
    if multiplex:
        chosen.append("--multiplex")
    if mode != "both":
        chosen.append(f"--{mode}-only")
    return chosen
