# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of an estimate: what was measured, counted and concluded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tlbcost.common.document import doc
from tlbcost.counters.pmu import find_pmu
from tlbcost.system.huge_pages import HugeSettings, huge_settings
from tlbcost.system.machine import glibc_version, reports_free_pages
from tlbcost.thp import program as run_thp

if TYPE_CHECKING:
    from tlbcost.accuracy.checks import Way
    from tlbcost.accuracy.record import TrackRecord
    from tlbcost.answer.request import AskedModel
    from tlbcost.attribution.backing import Seen
    from tlbcost.attribution.document import Attribution
    from tlbcost.attribution.samples import Sampled
    from tlbcost.calibration.records import Obtained, PageCosts
    from tlbcost.common.interval import Interval
    from tlbcost.copies.estimator import CopiedRun, CopiesRecord
    from tlbcost.counters.event_counts import EventCounts
    from tlbcost.measured.record import MeasuredGain
    from tlbcost.model.gain import PredictedGain, Witness
    from tlbcost.model.overlap import ModelledWindows
    from tlbcost.numa.locality import NodePlacement
    from tlbcost.processors.events import Pmu
    from tlbcost.processors.published import Geometry
    from tlbcost.remedies.advice import Advice
    from tlbcost.run.outcome import Outcome, Run
    from tlbcost.simulator.counts import Counts, Footprint, ProcessCounts
    from tlbcost.simulator.run import Simulation
    from tlbcost.system.huge_pages import HugeSettings
    from tlbcost.system.machine import Machine

Backend = Literal["pmu", "sim", "both"]
Severity = Literal["high", "medium", "low"]
# What would decide a verdict that is not proven: a quiet machine, more runs or pairs, a trial.
Decider = Literal["quiet", "calibration", "runs", "pairs", "trial"]
TimeName = Literal["run time", "CPU time", "cycles counted", "region's time"]
# A PMU that this user may not read is there all the same.
_PRESENT = ("counts", "forbidden", "listed")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else on this system matters to the answer. None: not known, or not there.

    `settings`: what it lets onto huge pages. `hugectl`: whether that is installed.
    `can_run_thp`: whether `tlbcost run --thp` is. `reports_free_pages`: whether this is a virtual
    machine that hands its free memory back to the host.
    """

    has_pmu: bool
    glibc: tuple[int, int] | None
    glibc_tunables: str | None
    settings: HugeSettings | None = None
    hugectl: bool = False
    can_run_thp: bool = False
    reports_free_pages: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that an estimate can be made from; what was not obtained is None or empty.

    `machine`, `surroundings` and `path` are None, and `native` empty, where nothing ran here.
    `notes` are about the backend, `run_notes` about the costs during the runs; `walk_cycles` is
    what one walk costs, if the user said it. `seen`: the program's mappings when it ran natively.
    `placed`: what huge pages do on several NUMA nodes. `track_records`: how far off each model was
    on this machine. `copied`: where the simulation is of copies of the running program. `followed`:
    a process that ran before, and afterwards; its one "run" is the time between. `measured`: on
    huge pages, too; `not_measured`: why that says nothing, where it was asked for. `region`: the
    phase of the program that all of it is of.
    """

    argv: tuple[str, ...]
    path: Path | None
    machine: Machine | None
    surroundings: Surroundings | None
    huge_page_bytes: int
    calibrated: Obtained | None
    notes: tuple[str, ...] = ()
    run_notes: tuple[str, ...] = ()
    native: tuple[Outcome, ...] = ()
    geometry: Geometry | None = None
    simulation: Simulation | None = None
    counted: EventCounts | None = None
    pmu: Pmu | None = None
    walk_cycles: float | None = None
    track_records: Mapping[Way, TrackRecord] = field(default_factory=dict)
    model: AskedModel = "auto"
    no_core: str | None = None
    placed: NodePlacement | None = None
    seen: Seen = ()
    sampled: Sampled | None = None
    copied: CopiedRun | None = None
    followed: bool = False
    measured: MeasuredGain | None = None
    not_measured: str | None = None
    region: str | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(outcome.run for outcome in self.native if outcome.run is not None)

    @property
    def codes(self) -> tuple[int, ...]:
        return tuple(outcome.code for outcome in self.native)

    @property
    def base_page_bytes(self) -> int | None:
        """Of the machine, else of the one that was calibrated; None: not known."""
        if self.machine is not None:
            return self.machine.base_page_bytes
        if self.calibrated is not None:
            return self.calibrated.calibration.machine.base_page_bytes
        return None

    @property
    def settings(self) -> HugeSettings | None:
        return None if self.surroundings is None else self.surroundings.settings

    @property
    def cost_notes(self) -> tuple[str, ...]:
        return () if self.calibrated is None else (*self.calibrated.notes, *self.run_notes)


@dataclass(frozen=True, slots=True)
class Simulated:
    """What the simulation counted, and what follows from that alone.

    `code` is the exit code of the simulated run, as a shell shows it. `sample`: what was modelled
    for the overlap model. `no_overlap`: why that model, though wanted, says nothing. `attribution`:
    walks by memory and code; None where no process image has tables. `copies`: of copies of the
    running program; None: it ran in Valgrind.
    """

    geometry: Geometry
    run: Run | None
    code: int
    processes: tuple[ProcessCounts, ...]
    counts: Counts
    gain: PredictedGain
    sample: ModelledWindows | None = None
    no_overlap: str | None = None
    attribution: Attribution | None = None
    copies: CopiesRecord | None = None


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
    gain: PredictedGain


@dataclass(frozen=True, slots=True)
class Caveat:
    """A numbered warning: a fact and a remedy, as sentences."""

    code: Annotated[str, doc("T and a number, as in doc/caveats.md", pattern="^T[0-9]{2}$")]
    severity: Annotated[
        Severity,
        doc(
            "high: the answer may be about something else; medium: it may be off by more than its "
            "interval, or that is wide; low: good to know"
        ),
    ]
    sentence: Annotated[str, doc("what is so")]
    remedy: Annotated[str, doc("what to do about it")]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What translation costs the program, what huge pages would give, and what to do.

    `footprint` is the memory that the simulation saw, else what the runs show of it. `gain` is that
    of the counters where there are any. `track_record`: how far off its model was on this machine.
    `sampled`: walks by memory and code, from samples of counters. `notes`: `given.notes`, and those
    on samples. `spread_part`: the part of the gain's interval that more runs would narrow, 0 to 1;
    None: there are no two runs. `advice`: what to do about the memory that misses, most first.
    """

    version: str
    date: str
    given: Evidence
    notes: tuple[str, ...]
    base_costs: PageCosts | None
    huge_costs: PageCosts | None
    footprint: Footprint | None
    simulated: Simulated | None
    counted: CountedPart | None
    gain: PredictedGain
    track_record: TrackRecord | None = None
    sampled: Attribution | None = None
    spread_part: float | None = None
    caveats: tuple[Caveat, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def backend(self) -> Backend:
        if self.counted is None:
            return "sim"
        return "pmu" if self.simulated is None else "both"

    @property
    def attribution(self) -> Attribution | None:
        """Walks by memory and code: from the simulation, which knows more, else from samples."""
        simulated = self.simulated.attribution if self.simulated is not None else None
        return simulated or self.sampled


# The sentence and the remedy of a caveat, or None where it does not apply.
CaveatRule = Callable[[Estimate], tuple[str, str] | None]


def surroundings() -> Surroundings:
    has_pmu = find_pmu().answer in _PRESENT
    return Surroundings(
        has_pmu,
        glibc_version(),
        os.environ.get("GLIBC_TUNABLES"),
        huge_settings(),
        shutil.which("hugectl") is not None,
        run_thp.is_here(),
        reports_free_pages(),
    )
