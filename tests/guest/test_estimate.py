# SPDX-License-Identifier: GPL-2.0-or-later
"""Does an estimate follow from what a kernel with counters of TLB misses counted?"""

from __future__ import annotations

from pathlib import Path

import pytest
from machine import Results
from tlbcost.answer.estimate import conclude
from tlbcost.answer.record import Estimate, Evidence
from tlbcost.counters.count_report import total_counts
from tlbcost.counters.count_tool import CountPlan, by_event, parse_readings
from tlbcost.counters.pmu import EventRequest
from tlbcost.processors.events import load_pmu
from tlbcost.run import launch

LOADS = 200_000
WALK_CYCLES = 100.0
HUGE_BYTES = 2 << 20


def estimated(results: Results, name: str, folder: Path) -> Estimate:
    """The estimate of the run `name`, if a walk cost this many cycles."""
    pmu = load_pmu("riscv_sbi")
    plan = CountPlan(pmu, tuple(EventRequest.of(event) for event in pmu.events))
    readings = by_event(parse_readings(results.text(f"{name}.tsv"), name), plan.requests)
    table = folder / "run.tsv"
    table.write_text(results.text(f"{name}.run.tsv"), encoding="utf-8")
    outcome = launch.read_outcome(table, None)
    assert outcome.run is not None
    seen = total_counts(
        [(0, each, readings[each.name]) for each in plan.requests],
        plan,
        ["visit", "--loads", str(LOADS)],
        [outcome.run],
        1,
        stopped=False,
    )
    given = Evidence(
        argv=("visit",),
        path=None,
        machine=None,
        surroundings=None,
        huge_page_bytes=HUGE_BYTES,
        calibrated=None,
        native=(outcome,),
        counted=seen,
        pmu=pmu,
        walk_cycles=WALK_CYCLES,
    )
    return conclude(given)


def test_real_counts_become_an_estimate(counting: Results, tmp_path: Path) -> None:
    found = estimated(counting, "loads", tmp_path)
    part = found.counted
    assert part is not None
    walks, cycles = part.figures["data_walks"], part.counted.values()["cycles"]
    assert walks is not None
    assert walks.value >= LOADS
    assert part.witness.way == "walks_times_cost"
    assert part.witness.data.value == pytest.approx(min(1, walks.value * WALK_CYCLES / cycles))
    run = found.given.runs[0]
    user = run.user_ns / run.cpu_ns
    assert found.gain.bound_fraction.value == pytest.approx(part.witness.total.high * user)
    assert found.gain.expected_fraction.high <= found.gain.bound_fraction.value
