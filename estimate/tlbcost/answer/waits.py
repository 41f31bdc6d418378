# SPDX-License-Identifier: GPL-2.0-or-later
"""Did the program compute when it was timed, or did it sleep, or wait for a CPU?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

from tlbcost.common import units
from tlbcost.common.stats import spread_fraction
from tlbcost.run.outcome import Run

# Less is the share of any quiet system.
WORTH_SAYING_FRACTION = 0.10
# Run times that vary by more are not those of the program alone.
SPREAD_FRACTION = 0.10


def waited_fraction(runs: Sequence[Run]) -> float | None:
    """Of the time in which the program could have run, how much it waited for a CPU.

    Median over the runs; None: not known of all of them.
    """
    return _median([run.waited_fraction for run in runs])


def idle_fraction(runs: Sequence[Run]) -> float | None:
    """Of the elapsed time, in how much nothing of the program ran or waited for a CPU.

    Median over the runs; None: not known of all of them.
    """
    return _median([_share(run.idle_ns, run) for run in runs])


def off_cpu_fraction(runs: Sequence[Run]) -> float | None:
    """Of the elapsed time, how much exceeds the CPU time; 0 where several threads outrun it."""
    return _median([_share(max(0, run.wall_ns - run.cpu_ns), run) for run in runs])


def waits_words(runs: Sequence[Run]) -> str | None:
    """'idle 94 %', 'waited for a CPU 69 % of the time'; None: not worth saying."""
    waited, idle, off = waited_fraction(runs), idle_fraction(runs), off_cpu_fraction(runs)
    if waited is None and off is not None and off > WORTH_SAYING_FRACTION:
        return f"idle or waiting for a CPU {units.percent(off)} of the time"
    said = []
    if idle is not None and idle > WORTH_SAYING_FRACTION:
        said.append(f"idle {units.percent(idle)}")
    if waited is not None and waited > WORTH_SAYING_FRACTION:
        said.append(f"waited for a CPU {units.percent(waited)} of the time")
    return ", ".join(said) or None


def time_words(runs: Sequence[Run]) -> Literal["run time", "CPU time"]:
    """What shares are of: 'run time', or 'CPU time' where that is visibly another one."""
    if not runs:
        return "CPU time"
    wall, cpu = (median(each) for each in zip(*((r.wall_ns, r.cpu_ns) for r in runs), strict=True))
    return "run time" if abs(wall - cpu) <= WORTH_SAYING_FRACTION * wall else "CPU time"


def load_words(runs: Sequence[Run]) -> str | None:
    """How other load on the machine disturbed the runs; None: not that we know."""
    waited = waited_fraction(runs)
    if waited is not None and waited > WORTH_SAYING_FRACTION:
        return f"the program waited for a CPU {units.percent(waited)} of the time"
    spread = spread_fraction([run.cpu_ns for run in runs]) if runs else None
    if spread is not None and spread > SPREAD_FRACTION:
        return f"the program's CPU time varied by {units.percent(spread)} between runs"
    return None


def _share(part_ns: int | None, run: Run) -> float | None:
    return None if part_ns is None or not run.wall_ns else part_ns / run.wall_ns


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known and len(known) == len(values) else None
