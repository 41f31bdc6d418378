# SPDX-License-Identifier: GPL-2.0-or-later
"""What did hardware counters say about a program, wherever they were read?

The common form of what `tlbcost count` reads here and of what is imported from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tlbcost.system.machine import Machine

# Cycles of two runs of one program differ by less where the runs were alike; those of the article
# that the rule is from (doc/method.md) differ by 2.8 %.
AGREE_FRACTION = 0.04

State = Literal[
    "counted",
    "multiplexed",
    "never_ran",
    "left_over",
    "unsupported",
    "forbidden",
    "failed",
    "silent",
]
Mode = Literal["user", "kernel", "both"]


@dataclass(frozen=True, slots=True)
class Count:
    """One event's count. `name`: `role[.access[.size]]` of data/events; None: it has no role.

    `event` is what was counted, in its own words. `value` is scaled where it was multiplexed and
    None where it was not obtained; `running_fraction` None: not known. `run`: the run it is from.
    """

    name: str | None
    event: str
    value: float | None
    running_fraction: float | None
    state: State
    run: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of one program.

    `source` says in words where they are from; `pmu` is the key of the table in data/events they
    were understood with; `machine` is the one that counted. Times in ns; None: not told. `notes`
    are sentences for the report.
    """

    source: str
    pmu: str | None
    mode: Mode | None
    counts: tuple[Count, ...]
    wall_ns: float | None = None
    user_ns: float | None = None
    system_ns: float | None = None
    minor_faults: float | None = None
    command: str | None = None
    machine: Machine | None = None
    notes: tuple[str, ...] = ()

    def values(self, run: int | None = None) -> dict[str, float]:
        """The counts that were obtained, by name: those of one run, or the mean of all."""
        found: dict[str, list[float]] = {}
        for count in self.counts:
            if run is not None and count.run != run:
                continue
            if count.name is not None and count.value is not None:
                found.setdefault(count.name, []).append(count.value)
        return {name: sum(values) / len(values) for name, values in found.items()}


def together(parts: Sequence[Counted]) -> Counted:
    """The counts of one program, counted here several times in the same way: all its runs.

    Times are the means. Raises ValueError if there are none.
    """
    if not parts:
        raise ValueError("nothing was counted")
    counts: list[Count] = []
    for part in parts:
        first = 1 + max((count.run for count in counts), default=-1)
        counts += [replace(count, run=first + count.run) for count in part.counts]

    def mean(name: str) -> float | None:
        known = [value for value in (getattr(part, name) for part in parts) if value is not None]
        return sum(known) / len(known) if known else None

    return replace(
        parts[0],
        counts=tuple(counts),
        wall_ns=mean("wall_ns"),
        user_ns=mean("user_ns"),
        system_ns=mean("system_ns"),
        minor_faults=mean("minor_faults"),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )
