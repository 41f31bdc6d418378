# SPDX-License-Identifier: GPL-2.0-or-later
"""Is everything counted in as few runs as it takes, added up, and shown, and only what is sound?"""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from builders.counting import ACTIVE, COMPLETED, TRUE, CountingMachine
from builders.tree import fails, printed
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.count_report import print_counts, total_counts
from tlbcost.counters.count_runs import count_series, count_target
from tlbcost.counters.count_tool import (
    CountFindings,
    CountPlan,
    Reading,
    Target,
    formula_values,
    relevant,
)
from tlbcost.counters.pmu import EventRequest, choose_events
from tlbcost.processors.events import load_pmu, select
from tlbcost.run.outcome import Outcome, Run
from tlbcost.system.machine import current_machine


def test_what_fits_is_counted_in_one_run(machine: CountingMachine) -> None:
    machine.says(counts={"cycles": 5000, ACTIVE[0]: 700})
    counted = machine.count("cycles", "walk_active_cycles")
    assert machine.asked() == [["cycles", *ACTIVE]]
    assert counted.values() == {"cycles": 5000, ACTIVE[0]: 700, ACTIVE[1]: 1000, ACTIVE[2]: 1000}
    assert {count.state for count in counted.counts} == {"counted"}
    assert counted.notes == ()
    assert (counted.pmu, counted.mode, counted.command) == ("skl", "user", "true")
    assert (counted.wall_ns, counted.minor_faults) == (2000000, 100)
    call = machine.calls()[0]
    assert call[call.index("--counters") + 1] == "4"
    assert call[call.index("--fixed") + 1] == "cycles"
    assert "--user-only" in call


def test_what_does_not_fit_is_counted_in_further_runs_with_cycles(machine: CountingMachine) -> None:
    machine.says(counters=4, counts={"cycles": [1000, 1030]})
    counted = machine.count("cycles", "walk_active_cycles", "walks_completed")
    assert machine.asked() == [["cycles", *ACTIVE, *COMPLETED], ["cycles", *COMPLETED[1:]]]
    runs = {count.name: count.run for count in counted.counts if count.name != "cycles"}
    assert runs == dict.fromkeys([*ACTIVE, COMPLETED[0]], 0) | dict.fromkeys(COMPLETED[1:], 1)
    assert counted.values()["cycles"] == 1015
    assert counted.notes == ()
    # The first run shows what the program prints, the second does not.
    assert ["--discard" in call for call in machine.calls()] == [False, True]


def test_a_group_that_never_ran_is_split_and_tried_again(machine: CountingMachine) -> None:
    machine.says(never_ran=2)
    counted = machine.count("cycles", *ACTIVE, COMPLETED[0])
    assert machine.asked() == [
        ["cycles", *ACTIVE, COMPLETED[0]],
        ["cycles", *ACTIVE[:2]],
        ["cycles", ACTIVE[2], COMPLETED[0]],
    ]
    assert set(counted.values()) == {"cycles", *ACTIVE, COMPLETED[0]}
    assert {count.state for count in counted.counts} == {"counted"}


def test_an_event_that_excludes_cycles_is_counted_by_itself(machine: CountingMachine) -> None:
    machine.says(alone=[ACTIVE[2]])
    counted = machine.count("cycles", "walk_active_cycles")
    assert machine.asked() == [["cycles", *ACTIVE], ["cycles", ACTIVE[2]], [ACTIVE[2]]]
    assert set(counted.values()) == {"cycles", *ACTIVE}


def test_what_never_runs_at_all_is_not_obtained(machine: CountingMachine) -> None:
    machine.says(never_ran=0)
    counted = machine.count("cycles", ACTIVE[0])
    # With cycles, without them, and no more.
    assert machine.asked() == [["cycles", ACTIVE[0]], [ACTIVE[0]]]
    count = next(count for count in counted.counts if count.name == ACTIVE[0])
    assert (count.value, count.state) == (None, "never_ran")
    assert ACTIVE[0] not in counted.values()
    assert any("never had a counter" in note for note in counted.notes)


def test_an_event_that_is_refused_among_others_is_reported(machine: CountingMachine) -> None:
    machine.says(states={ACTIVE[1]: ["unsupported", errno.ENOENT]}, counters=2)
    counted = machine.count("cycles", "walk_active_cycles", "walks_completed", runs=2)
    count = next(count for count in counted.counts if count.name == ACTIVE[1])
    assert (count.value, count.state, count.running_fraction) == (None, "unsupported", None)
    assert f"{ACTIVE[1]} was not obtained: this CPU, or this virtual machine, does not count it " \
        "(ENOENT)" in counted.notes  # fmt: skip
    # It is asked for once.
    assert sum(ACTIVE[1] in asked for asked in machine.asked()) == 1


def test_runs_count_everything_so_many_times(machine: CountingMachine) -> None:
    machine.says(counters=3, counts={"cycles": [10, 10, 12, 12], ACTIVE[0]: [4, 0, 6]})
    counted = machine.count("cycles", *ACTIVE, COMPLETED[0], runs=2)
    assert len(machine.calls()) == 4
    own = [(count.run, count.value) for count in counted.counts if count.name == ACTIVE[0]]
    assert own == [(0, 4), (2, 6)]
    assert counted.values()["cycles"] == 11


def test_cycles_that_are_not_counted_are_no_pmu(machine: CountingMachine) -> None:
    machine.says(counts={"cycles": 0})
    with fails("counter of cycles opens, but counts nothing", 4):
        machine.count("cycles", "walk_active_cycles")


def test_nothing_to_be_opened_is_diagnosed(machine: CountingMachine) -> None:
    failed = ["failed", errno.EMFILE]
    machine.says(states={name: failed for name in ("cycles", *ACTIVE)}, exit=4)
    with fails(r"cycles: Too many open files; .*\.\.\.$", 4) as error:
        machine.count("cycles", "walk_active_cycles")
    assert error.value.hint is not None
    # Without a table there is still an answer.
    machine.says(exit=4, raw="")
    with fails(r"^cannot count: ", 4):
        machine.count("cycles", "walk_active_cycles")


@pytest.mark.parametrize(
    ("raw", "words"),
    [("garbage\n", "not a tlbcost counters table"), ("# tlbcost counters 1\n", "truncated"),
     ("# tlbcost counters 9\n", "not a tlbcost counters table of version 1")],
)  # fmt: skip
def test_garbage_is_refused(machine: CountingMachine, raw: str, words: str) -> None:
    machine.says(raw=raw)
    with fails(words, 125):
        machine.count("cycles", "walk_active_cycles")


def test_a_program_that_ends_differently_is_not_counted(machine: CountingMachine) -> None:
    machine.says(counters=3)
    flag = machine.folder / "flag"
    argv = ["sh", "-c", f"test ! -e {flag}; code=$?; : >{flag}; exit $code"]
    with fails("run 1 exited with 0, run 2 exited with 1", 1, "--multiplex"):
        machine.count("cycles", "walk_active_cycles", "walks_completed", argv=argv)


def test_a_program_that_fails_alike_is_counted(machine: CountingMachine) -> None:
    machine.says(counters=4)
    codes: list[int] = []

    def go_on(outcome: Outcome) -> bool:
        codes.append(outcome.code)
        return True

    counted = machine.count(
        "cycles", "walk_active_cycles", "walks_completed", argv=["sh", "-c", "exit 3"], go_on=go_on
    )
    assert codes == [3, 3]
    assert COMPLETED[2] in counted.values()


def test_a_series_that_is_ended_tells_what_had_no_turn(machine: CountingMachine) -> None:
    machine.says(counters=3)
    counted = machine.count(
        "cycles", "walk_active_cycles", "walks_completed", go_on=lambda _: False
    )
    assert len(machine.calls()) == 1
    left = [count.name for count in counted.counts if count.state == "left_over"]
    assert left == COMPLETED
    assert "the runs were ended early" in counted.notes[-1]


def test_a_target_without_a_program(machine: CountingMachine) -> None:
    machine.says(counts={"cycles": 7})
    wanted = choose_events(machine.pmu, ["cycles", "page_faults"])
    for target, options, words in (
        (Target("process", pid=4711), ["--pid", "4711"], "process 4711"),
        (Target("cgroup", cgroup="/a b"), ["--cgroup", "/a b"], "cgroup /a b"),
        (Target("system"), ["--all-cpus"], "the whole system"),
    ):
        folder = machine.folder / target.scope
        folder.mkdir()
        counted = count_target(folder, CountPlan(machine.pmu, wanted, "both", target))
        call = machine.calls()[-1]
        assert [word for word in call if word in options] == options
        assert "--user-only" not in call
        assert "--run" not in call
        assert counted.command == words
        assert (counted.values()["cycles"], counted.wall_ns) == (7, None)


def test_a_target_with_a_program(machine: CountingMachine) -> None:
    plan = CountPlan(machine.pmu, choose_events(machine.pmu, ["cycles"]), target=Target("system"))
    counted = count_series(machine.launcher, ["sh", "-c", "exit 2"], TRUE, plan, 1, lambda _: True)
    assert "--all-cpus" in machine.calls()[0]
    assert counted.command == "the whole system, while this ran: sh -c 'exit 2'"


def test_intervals_are_shown_as_they_end(machine: CountingMachine) -> None:
    shown: list[list[str]] = []
    plan = CountPlan(
        machine.pmu,
        choose_events(machine.pmu, ["cycles", "walk_active_cycles.load"]),
        interval_ms=100,
        show=lambda readings: shown.append([reading.event for reading in readings]),
    )
    counted = count_series(machine.launcher, ["true"], TRUE, plan, 1, lambda _: True)
    assert shown == [["cycles", ACTIVE[0]]]
    assert counted.values()["cycles"] == 1000
    call = machine.calls()[0]
    assert call[call.index("--interval") + 1] == "100"


def test_a_program_is_shown_in_its_first_run_only(
    machine: CountingMachine, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.says(exit=4)
    with pytest.raises(TlbcostError):
        machine.count("cycles", argv=["echo", "shown"])
    # Nothing ran then.
    machine.says()
    machine.count("cycles", argv=["echo", "shown"], runs=2)
    machine.count("cycles", argv=["echo", "shown"])
    assert capfd.readouterr().out == "shown\n"


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


def test_the_report_keeps_to_80_columns(machine: CountingMachine) -> None:
    active = dict.fromkeys(ACTIVE, 3000)
    machine.says(counters=4, counts={"cycles": [10**9, 1010000000], "instructions": 10**7} | active)
    for key in ("skl", "amd64_fam19h_zen4"):
        pmu = load_pmu(key)
        plan = CountPlan(pmu, choose_events(pmu, []))
        counted = count_series(machine.launcher, ["true"], TRUE, plan, 2, lambda _: True)
        findings = CountFindings(
            "0", "now", current_machine(), pmu, plan.requests, counted,
            formula_values(relevant(pmu, plan.requests), counted),
        )  # fmt: skip
        lines = printed(print_counts, findings, details=True).splitlines()
        assert max(map(len, lines)) <= 80
        # Each event has one line, with all its figures.
        for wanted in plan.requests:
            assert any(line.split()[:1] == [wanted.name] and "100 %" in line for line in lines)
        assert any(line.startswith("data_walks") for line in lines)


def test_formulas_of_other_events_are_left_out() -> None:
    pmu = load_pmu("skl")
    assert relevant(pmu, choose_events(pmu, ["page_faults", "cycles"])) == {}
    asked = relevant(pmu, choose_events(pmu, ["walk_active_cycles.fetch"]))
    assert "share" in asked
    assert "walks" not in asked
