# SPDX-License-Identifier: GPL-2.0-or-later
"""What did hardware counters say about a program, wherever they were read?

The common form of what `tlbcost count` reads here and of what is imported from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    were understood with. Times in ns, None: not told. `notes` are sentences for the report.
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
