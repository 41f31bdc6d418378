# SPDX-License-Identifier: GPL-2.0-or-later
"""Do counts of several runs add up, and is what makes them doubtful said?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.counting import ACTIVE, COMPLETED, CountingMachine
from tlbcost.counters.count_tool import CountPlan, Reading
from tlbcost.counters.event_selection import EventRequest
from tlbcost.counters.totals import total_counts
from tlbcost.processors.event_tables import load_pmu, select
from tlbcost.run.outcome import Run


def test_runs_that_were_not_alike_are_reported_with_their_figures(machine: CountingMachine) -> None:
    machine.says(counters=4, counts={"cycles": [1000, 1071]})
    counted = machine.count("cycles", "walk_active_cycles", "walks_completed")
    assert len(counted.notes) == 1
    assert counted.notes[0].startswith(
        "cycles differ by 7.1 % between run 0 (1,000) and run 1 (1,071), more than the 4.0 %"
    )


def test_multiplexed_counts_are_scaled_and_reported(machine: CountingMachine) -> None:
    machine.says(counts={ACTIVE[0]: 300}, running={ACTIVE[0]: 0.6})
    counted = machine.count("cycles", "walk_active_cycles", multiplex=True)
    assert "--multiplex" in machine.calls()[0]
    assert len(machine.calls()) == 1
    count = next(count for count in counted.counts if count.name == ACTIVE[0])
    assert (count.value, count.running_fraction, count.state) == (500, 0.6, "multiplexed")
    assert counted.notes == (
        f"{ACTIVE[0]} had a counter for a part of the time ({ACTIVE[0]}: 60 %) and was scaled up: "
        "what the program did in the rest is not known",
    )


@pytest.mark.parametrize(
    ("code", "config", "state"), [(0x34, "0x34", "counted"), (0x8128, "0x8128", "silent")]
)
def test_arm_events_that_read_zero(
    machine: CountingMachine, monkeypatch: pytest.MonkeyPatch, code: int, config: str, state: str
) -> None:
    source = machine.folder / "root/sys/bus/event_source/devices/armv8_pmuv3_0"
    (source / "events").mkdir(parents=True)
    (source / "type").write_text("8\n", encoding="utf-8")
    (source / "events" / "dtlb_walk").write_text("event=0x0034\n", encoding="utf-8")
    event = select(machine.pmu, ["walks_completed.load"])[0]
    machine.pmu = replace(
        machine.pmu,
        architecture="aarch64",
        events=(machine.pmu.events[0], replace(event, string=None, code=code)),
    )
    monkeypatch.setenv("TLBCOST_ROOT", str(machine.folder / "root"))
    machine.says(counts={COMPLETED[0]: 0}, sources={COMPLETED[0]: ["0x4", config]})
    counted = machine.count("cycles", COMPLETED[0])
    count = next(count for count in counted.counts if count.name == COMPLETED[0])
    assert (count.state, count.value) == (state, 0 if state == "counted" else None)
    # On another architecture a 0 is a 0.
    machine.pmu = replace(machine.pmu, architecture="x86_64")
    assert machine.count("cycles", COMPLETED[0]).values()[COMPLETED[0]] == 0


def test_the_second_name_of_an_event_that_reads_zero_is_no_count(machine: CountingMachine) -> None:
    machine.says(counts={ACTIVE[0]: 700, ACTIVE[1]: 0}, sources={ACTIVE[2]: ["0x4", "0x2"]})
    counted = machine.count("cycles", "walk_active_cycles")
    states = {count.name: (count.state, count.value) for count in counted.counts}
    assert states[ACTIVE[1]] == ("silent", None)
    # Of an event of its own a 0 is a 0.
    machine.says(counts={ACTIVE[0]: 700, ACTIVE[2]: 0}, sources={ACTIVE[2]: ["0x4", "0x2"]})
    counted = machine.count("cycles", "walk_active_cycles")
    assert counted.values()[ACTIVE[2]] == 0


def test_events_that_only_the_code_names_are_reported(machine: CountingMachine) -> None:
    machine.says(encoded_by={ACTIVE[0]: "code"})
    counted = machine.count("cycles", "walk_active_cycles")
    assert counted.notes == (
        f"this libpfm4 does not know {ACTIVE[0]} of this CPU: counted by code",
    )


def test_time_that_was_not_counted_is_reported() -> None:
    plan = CountPlan(load_pmu("skl"), (EventRequest("cycles", "cycles", "cycles", "cycles"),))
    run = Run(10**9, 9 * 10**8, 10**8, 100, 0, 4096)

    def notes(uncounted_ns: int) -> tuple[str, ...]:
        reading = Reading(1, "cycles", 5, 1, 1, "counted", None, uncounted_ns=uncounted_ns)
        readings = [(0, plan.requests[0], reading)]
        return total_counts(readings, plan, ["app"], [run], 1, stopped=False).notes

    assert notes(10**8) == ()
    (note,) = notes(5 * 10**8)
    assert note.startswith("50 % of the CPU time was not counted")
