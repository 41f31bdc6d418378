# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up hardware counts, and the estimates made from them, for tests to change one thing in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from builders.answer import GEOMETRY, HUGE, MACHINE, RUN, process
from builders.tree import GOLDEN
from tlbcost.answer.estimate import conclude
from tlbcost.answer.record import Estimate, Evidence, Surroundings
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.counters.event_counts import EventCount, EventCounts
from tlbcost.processors.events import load_pmu
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.run import Simulation

CALIBRATION = GOLDEN / "calibration.tsv"
OUTCOME = Outcome(RUN, "", None, 0, None, None)

# 3e9 cycles in 0.9 s of user time, of which a fifth is in walks for loads.
SKL: Mapping[str, float] = {
    "cycles": 3e9, "instructions": 2e9, "walk_active_cycles.load": 5e8,
    "walk_active_cycles.store": 1e8, "walk_active_cycles.fetch": 3e7, "walks_completed.load": 10e6,
    "walks_completed.store": 2e6, "walks_completed.fetch": 1e5,
}  # fmt: skip
ZEN4: Mapping[str, float] = {
    "cycles": 3e9, "instructions": 2e9, "stlb_misses.data": 10e6, "stlb_misses.fetch": 1e5,
    "stlb_hits.data": 20e6, "stlb_hits.fetch": 1e5,
}  # fmt: skip


def counted(values: Mapping[str, float | None], **changes: object) -> EventCounts:
    """Counts of the sample's program, by name; None: not obtained."""
    made = EventCounts(
        source="counted here, in 1 run",
        pmu="skl",
        mode="user",
        counts=tuple(
            EventCount(name, name, None, None, "unsupported")
            if value is None
            else EventCount(name, name, value, 1.0, "counted")
            for name, value in values.items()
        ),
        wall_ns=RUN.wall_ns,
        user_ns=RUN.user_ns,
        system_ns=RUN.system_ns,
        minor_faults=RUN.minor_faults,
        command="./app",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def evidence(seen: EventCounts, pmu: str = "skl", **changes: object) -> Evidence:
    """What `tlbcost estimate` has of a program that was counted here in three runs."""
    given = Evidence(
        argv=("./app",), path=Path("./app"), machine=MACHINE,
        surroundings=Surroundings(has_pmu=True, glibc=(2, 36), glibc_tunables=None),
        huge_page_bytes=HUGE, calibrated=Obtained(read_calibration(CALIBRATION), "cached"),
        native=(OUTCOME, OUTCOME, OUTCOME), counted=seen, pmu=load_pmu(pmu),
    )  # fmt: skip
    return replace(given, **changes)  # type: ignore[arg-type]


def counted_estimate(
    values: Mapping[str, float | None] = SKL, pmu: str = "skl", **changes: object
) -> Estimate:
    return conclude(evidence(counted(values), pmu, **changes))


def both(walks: int = 11_900_000) -> Estimate:
    """The estimate of a program that was counted, and simulated with this many walks of loads."""
    simulation = Simulation((process(walks),), OUTCOME)
    return counted_estimate(geometry=GEOMETRY, simulation=simulation)


def imported(seen: EventCounts, pmu: str = "skl", **changes: object) -> Estimate:
    nothing = evidence(
        seen, pmu, path=None, machine=None, surroundings=None, calibrated=None, native=()
    )
    return conclude(replace(nothing, **changes))  # type: ignore[arg-type]
