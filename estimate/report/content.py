# SPDX-License-Identifier: GPL-2.0-or-later
"""What is in a report, whatever its form: everything that was measured, counted and concluded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tlbcost.costs import PageCosts
from tlbcost.model import Estimate
from tlbcost.records import Geometry, Machine, ProcessCounts, Run
from tlbcost.totals import Counts, Footprint


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else on this system matters to the answer. None: not known, or not there."""

    has_pmu: bool
    glibc: tuple[int, int] | None
    glibc_tunables: str | None


@dataclass(frozen=True, slots=True)
class CalibrationUsed:
    """Which calibration the costs are from."""

    machine: Machine
    date: str
    source: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """One estimate with all that it was made from.

    `codes` are the exit codes of the native runs, `simulated_code` that of the simulated one, as
    a shell shows them.
    """

    version: str
    date: str
    machine: Machine
    surroundings: Surroundings
    argv: tuple[str, ...]
    path: Path
    runs: tuple[Run, ...]
    codes: tuple[int, ...]
    simulated: Run | None
    simulated_code: int
    calibration: CalibrationUsed
    geometry: Geometry
    base_costs: PageCosts
    huge_costs: PageCosts
    processes: tuple[ProcessCounts, ...]
    counts: Counts
    footprint: Footprint
    estimate: Estimate
