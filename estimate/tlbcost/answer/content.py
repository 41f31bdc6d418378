# SPDX-License-Identifier: GPL-2.0-or-later
"""What is in a report, whatever its form: everything that was measured, counted and concluded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tlbcost.accuracy.record import TrackRecord
from tlbcost.answer.surroundings import Surroundings
from tlbcost.calibration.costs import PageCosts
from tlbcost.common.interval import Interval
from tlbcost.model.gain import PredictedGain
from tlbcost.numa.locality import NodePlacement
from tlbcost.processors.geometry import Geometry
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import Counts, Footprint, ProcessCounts
from tlbcost.system.machine import Machine

if TYPE_CHECKING:
    from tlbcost.attribution.simulated import Attribution
    from tlbcost.counters.event_counts import EventCounts
    from tlbcost.model.overlap import Sample
    from tlbcost.model.walk_share import Witness
    from tlbcost.processors.events import Pmu

Backend = Literal["pmu", "sim", "both"]


@dataclass(frozen=True, slots=True)
class CalibrationUsed:
    """Which calibration the costs are from."""

    machine: Machine
    date: str
    source: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Simulated:
    """What the simulation counted, and what follows from that alone.

    `code` is the exit code of the simulated run, as a shell shows it. `sample`: what was modelled
    for the overlap model. `no_overlap`: why that model, though wanted, says nothing. `attribution`:
    walks by memory and code; None where no process image has tables.
    """

    geometry: Geometry
    run: Run | None
    code: int
    processes: tuple[ProcessCounts, ...]
    counts: Counts
    estimate: PredictedGain
    sample: Sample | None = None
    no_overlap: str | None = None
    attribution: Attribution | None = None


@dataclass(frozen=True, slots=True)
class CountedPart:
    """What the counters said, what the CPU's formulas make of it, and what follows.

    `figures` has every formula of the CPU by its name; None: an event of it was not obtained.
    `walk_cycles`: what the user said that a walk costs.
    """

    counted: EventCounts
    pmu: Pmu
    figures: Mapping[str, Interval | None]
    witness: Witness
    walk_cycles: float | None
    estimate: PredictedGain


@dataclass(frozen=True, slots=True)
class Content:
    """One estimate with all that it was made from.

    `machine`, `surroundings` and `path` are None, and `runs` and `codes` empty, where nothing ran
    here. `codes` are the exit codes of the native runs, as a shell shows them. `footprint` is the
    memory that the simulation saw, else what the runs show of it. `estimate` is that of the
    counters where there are any. `tried`: what is on record of this machine. `placed`: what huge
    pages do on several NUMA nodes. `sampled`: walks by memory and code, from samples of counters.
    """

    version: str
    date: str
    backend: Backend
    notes: tuple[str, ...]
    machine: Machine | None
    surroundings: Surroundings | None
    argv: tuple[str, ...]
    path: Path | None
    runs: tuple[Run, ...]
    codes: tuple[int, ...]
    calibration: CalibrationUsed | None
    huge_page_bytes: int
    base_costs: PageCosts | None
    huge_costs: PageCosts | None
    footprint: Footprint | None
    simulated: Simulated | None
    counted: CountedPart | None
    estimate: PredictedGain
    tried: TrackRecord | None = None
    placed: NodePlacement | None = None
    sampled: Attribution | None = None

    @property
    def attribution(self) -> Attribution | None:
        """Walks by memory and code: from the simulation, which knows more, else from samples."""
        simulated = self.simulated.attribution if self.simulated is not None else None
        return simulated or self.sampled
