# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import tlbcost
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.count_findings import CountFindings, formula_values, relevant
from tlbcost.counters.count_plan import CountPlan, probe
from tlbcost.counters.count_report import print_counts
from tlbcost.counters.count_runs import count_program, count_series, count_target
from tlbcost.counters.event_counts import EventCounts
from tlbcost.counters.event_selection import EventRequest, choose_events, choose_pmu, default_events
from tlbcost.counters.readings import Reading, by_event, parse_readings
from tlbcost.counters.target import Target
from tlbcost.counters.totals import scaled, total_counts
from tlbcost.processors.event_tables import generic_pmu, load_pmu, select
from tlbcost.processors.events import Pmu
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run
from tlbcost.run.stdin import ProgramInput
from tlbcost.system.machine import current_machine

FAKE = Path(__file__).parents[2] / "fakes" / "tlbcost-count"
TRUE = Path("/bin/true")
ACTIVE = ["walk_active_cycles.load", "walk_active_cycles.store", "walk_active_cycles.fetch"]
COMPLETED = ["walks_completed.load", "walks_completed.store", "walks_completed.fetch"]


class Machine:
    """A made-up tlbcost-count, and a launcher that uses it."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self._plan = folder / "fake.json"
        self._calls = folder / "fake.json.calls"
        self.folder = folder
        self.launcher = launcher
        self.pmu = load_pmu("skl")
        self.says()

    def says(self, **plan: object) -> None:
        self._plan.write_text(json.dumps(plan), encoding="utf-8")

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self._calls.read_text("utf-8").splitlines()]

    def asked(self) -> list[list[str]]:
        """The names of the events of each call."""
        return [
            [word.partition("=")[0] for option, word in pairwise(call)
             if option == "--event"]
            for call in self.calls()
        ]  # fmt: skip

    def count(
        self,
        *names: str,
        argv: Sequence[str] = ("true",),
        runs: int = 1,
        multiplex: bool = False,
        go_on: Callable[[Outcome], bool] = lambda _: True,
    ) -> EventCounts:
        return count_program(
            self.launcher, argv, self.pmu, select(self.pmu, names), path=TRUE,
            runs=runs, multiplex=multiplex, go_on=go_on,
        )  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setattr(paths, "libexec", lambda name: FAKE.parent / name)
    # The fake runs by the system's Python, which knows nothing of tlbcost.
    monkeypatch.setenv("PYTHONPATH", str(Path(tlbcost.__file__).parents[1]))
    monkeypatch.setenv("FAKE_COUNTERS", str(tmp_path / "fake.json"))
    monkeypatch.delenv("TLBCOST_ROOT", raising=False)
    with open(os.devnull) as nothing:  # noqa: PTH123
        yield Machine(tmp_path, Launcher(tmp_path, ProgramInput(nothing.fileno())))


def test_what_fits_is_counted_in_one_run(machine: Machine) -> None:
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


def test_what_does_not_fit_is_counted_in_further_runs_with_cycles(machine: Machine) -> None:
    machine.says(counters=4, counts={"cycles": [1000, 1030]})
    counted = machine.count("cycles", "walk_active_cycles", "walks_completed")
    assert machine.asked() == [
        ["cycles", *ACTIVE, *COMPLETED],
        ["cycles", *COMPLETED[1:]],
    ]
    runs = {count.name: count.run for count in counted.counts if count.name != "cycles"}
    assert runs == dict.fromkeys([*ACTIVE, COMPLETED[0]], 0) | dict.fromkeys(COMPLETED[1:], 1)
    assert counted.values()["cycles"] == 1015
    assert counted.notes == ()
    # The first run shows what the program prints, the second does not.
    assert ["--discard" in call for call in machine.calls()] == [False, True]


def test_runs_that_were_not_alike_are_told_with_their_figures(machine: Machine) -> None:
    machine.says(counters=4, counts={"cycles": [1000, 1071]})
    counted = machine.count("cycles", "walk_active_cycles", "walks_completed")
    assert len(counted.notes) == 1
    assert counted.notes[0].startswith(
        "cycles differ by 7.1 % between run 0 (1,000) and run 1 (1,071), more than the 4.0 %"
    )


def test_a_group_that_never_ran_is_split_and_tried_again(machine: Machine) -> None:
    machine.says(never_ran=2)
    counted = machine.count("cycles", *ACTIVE, COMPLETED[0])
    assert machine.asked() == [
        ["cycles", *ACTIVE, COMPLETED[0]],
        ["cycles", *ACTIVE[:2]],
        ["cycles", ACTIVE[2], COMPLETED[0]],
    ]
    assert set(counted.values()) == {"cycles", *ACTIVE, COMPLETED[0]}
    assert {count.state for count in counted.counts} == {"counted"}


def test_an_event_that_excludes_cycles_is_counted_by_itself(machine: Machine) -> None:
    machine.says(alone=[ACTIVE[2]])
    counted = machine.count("cycles", "walk_active_cycles")
    assert machine.asked() == [["cycles", *ACTIVE], ["cycles", ACTIVE[2]], [ACTIVE[2]]]
    assert set(counted.values()) == {"cycles", *ACTIVE}


def test_what_never_runs_at_all_is_not_obtained(machine: Machine) -> None:
    machine.says(never_ran=0)
    counted = machine.count("cycles", ACTIVE[0])
    # Beside cycles, without them, and no more.
    assert machine.asked() == [["cycles", ACTIVE[0]], [ACTIVE[0]]]
    count = next(count for count in counted.counts if count.name == ACTIVE[0])
    assert (count.value, count.state) == (None, "never_ran")
    assert ACTIVE[0] not in counted.values()
    assert any("never had a counter" in note for note in counted.notes)


def test_groups_that_take_turns_each_count_a_part_of_the_whole() -> None:
    columns = "end_ns event group count enabled_ns running_ns state errno encoded_by type config"
    rows = [
        "100\tcycles\t0\t300\t100\t60\tmultiplexed\tNA\tlibpfm4\t0x0\t0x0\t0x0",
        "100\tcycles\t1\t200\t100\t40\tmultiplexed\tNA\tlibpfm4\t0x0\t0x0\t0x0",
    ]
    head = ["# tlbcost counters 1", "# uncounted_ns: 7", "\t".join([*columns.split(), "config1"])]
    text = "\n".join([*head, *rows, "# end: 2", ""])
    wanted = [EventRequest("cycles", "cycles", "cycles", "cycles")]
    whole = by_event(parse_readings(text, "x"), wanted)["cycles"]
    # 500 in all of the time, and not 1000.
    assert scaled(whole) == (500, 0.5)
    assert whole.uncounted_ns == 7


def test_multiplexed_counts_are_scaled_and_told(machine: Machine) -> None:
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


def test_an_event_that_is_refused_beside_others_is_told(machine: Machine) -> None:
    machine.says(states={ACTIVE[1]: ["unsupported", errno.ENOENT]}, counters=2)
    counted = machine.count("cycles", "walk_active_cycles", "walks_completed", runs=2)
    count = next(count for count in counted.counts if count.name == ACTIVE[1])
    assert (count.value, count.state, count.running_fraction) == (None, "unsupported", None)
    assert f"{ACTIVE[1]} was not obtained: this CPU, or this virtual machine, does not count it " \
        "(ENOENT)" in counted.notes  # fmt: skip
    # It is asked for once.
    assert sum(ACTIVE[1] in asked for asked in machine.asked()) == 1


def test_runs_count_everything_so_many_times(machine: Machine) -> None:
    machine.says(counters=3, counts={"cycles": [10, 10, 12, 12], ACTIVE[0]: [4, 0, 6]})
    counted = machine.count("cycles", *ACTIVE, COMPLETED[0], runs=2)
    assert len(machine.calls()) == 4
    own = [(count.run, count.value) for count in counted.counts if count.name == ACTIVE[0]]
    assert own == [(0, 4), (2, 6)]
    assert counted.values()["cycles"] == 11


def test_cycles_that_are_not_counted_are_no_pmu(machine: Machine) -> None:
    machine.says(counts={"cycles": 0})
    with pytest.raises(TlbcostError, match="counter of cycles opens, but counts nothing") as error:
        machine.count("cycles", "walk_active_cycles")
    assert error.value.exit_code == 4


@pytest.mark.parametrize(
    ("code", "config", "state"), [(0x34, "0x34", "counted"), (0x8128, "0x8128", "silent")]
)
def test_arm_events_that_read_zero(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    config: str,
    state: str,
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


def test_the_second_name_of_an_event_that_reads_zero_is_no_count(machine: Machine) -> None:
    machine.says(counts={ACTIVE[0]: 700, ACTIVE[1]: 0}, sources={ACTIVE[2]: ["0x4", "0x2"]})
    counted = machine.count("cycles", "walk_active_cycles")
    states = {count.name: (count.state, count.value) for count in counted.counts}
    assert states[ACTIVE[1]] == ("silent", None)
    # Of an event of its own a 0 is a 0.
    machine.says(counts={ACTIVE[0]: 700, ACTIVE[2]: 0}, sources={ACTIVE[2]: ["0x4", "0x2"]})
    counted = machine.count("cycles", "walk_active_cycles")
    assert counted.values()[ACTIVE[2]] == 0


def test_nothing_to_be_opened_is_diagnosed(machine: Machine) -> None:
    failed = ["failed", errno.EMFILE]
    machine.says(states={name: failed for name in ("cycles", *ACTIVE)}, exit=4)
    with pytest.raises(TlbcostError, match=r"cycles: Too many open files; .*\.\.\.$") as error:
        machine.count("cycles", "walk_active_cycles")
    assert error.value.exit_code == 4
    assert error.value.hint is not None
    # Without a table there is still an answer.
    machine.says(exit=4, raw="")
    with pytest.raises(TlbcostError, match=r"^cannot count: ") as error:
        machine.count("cycles", "walk_active_cycles")
    assert error.value.exit_code == 4


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("garbage\n", "not a tlbcost counters table"),
        ("# tlbcost counters 1\n", "truncated"),
        ("# tlbcost counters 9\n", "not a tlbcost counters table of version 1"),
    ],
)
def test_garbage_is_refused(machine: Machine, raw: str, words: str) -> None:
    machine.says(raw=raw)
    with pytest.raises(TlbcostError, match=words) as error:
        machine.count("cycles", "walk_active_cycles")
    assert error.value.exit_code == 125


HEAD = (
    "# tlbcost counters 1\nend_ns\tevent\tgroup\tcount\tenabled_ns\trunning_ns\tstate\terrno\t"
    "encoded_by\ttype\tconfig\tconfig1\n"
)
GOOD = "5\tcycles\t0\t100\t10\t10\tcounted\tNA\tlibpfm4\t0x0\t0x0\t0x0"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (0, "soon"), (0, "NA"), (1, "NA"), (3, "-1"), (3, "1.5"), (5, "NA"), (5, "0"),
        (6, "perhaps"), (7, "EPERM"), (9, "0xx"), (10, "word"),
    ],
)  # fmt: skip
def test_rows_that_are_none(cell: int, text: str) -> None:
    assert parse_readings(f"{HEAD}{GOOD}\n# end: 1\n", "t")[0].count == 100
    cells = GOOD.split("\t")
    cells[cell] = text
    row = "\t".join(cells)
    with pytest.raises(TlbcostError, match="wrote a table with a defect") as error:
        parse_readings(f"{HEAD}{row}\n# end: 1\n", "t")
    assert error.value.exit_code == 125


def test_intervals_add_up() -> None:
    rows = [
        "10\tcycles\t0\t100\t10\t10\tcounted\tNA\tlibpfm4\t0x0\t0x0\t0x0",
        "20\tcycles\t0\tNA\t10\t0\tnever_ran\tNA\tlibpfm4\t0x0\t0x0\t0x0",
        "30\tcycles\t0\t50\t10\t5\tmultiplexed\tNA\tlibpfm4\t0x0\t0x0\t0x0",
    ]
    text = HEAD + "".join(f"{row}\n" for row in rows) + "# end: 3\n"
    wanted = [
        EventRequest("cycles", "cycles", "cycles", "x"),
        EventRequest("other", None, "o", "o"),
    ]
    found = by_event(parse_readings(text, "t"), wanted)
    cycles = found["cycles"]
    assert (cycles.count, cycles.enabled_ns, cycles.running_ns) == (150, 30, 15)
    assert (cycles.state, cycles.end_ns) == ("multiplexed", 30)
    # What the table does not have was not obtained.
    assert (found["other"].state, found["other"].count) == ("failed", None)


def test_a_program_that_ends_differently_is_not_counted(machine: Machine) -> None:
    machine.says(counters=3)
    flag = machine.folder / "flag"
    argv = ["sh", "-c", f"test ! -e {flag}; code=$?; : >{flag}; exit $code"]
    with pytest.raises(TlbcostError, match="run 1 exited with 0, run 2 exited with 1") as error:
        machine.count("cycles", "walk_active_cycles", "walks_completed", argv=argv)
    assert error.value.exit_code == 1
    assert "--multiplex" in (error.value.hint or "")


def test_a_program_that_fails_alike_is_counted(machine: Machine) -> None:
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


def test_a_series_that_is_ended_tells_what_had_no_turn(machine: Machine) -> None:
    machine.says(counters=3)
    counted = machine.count(
        "cycles", "walk_active_cycles", "walks_completed", go_on=lambda _: False
    )
    assert len(machine.calls()) == 1
    left = [count.name for count in counted.counts if count.state == "left_over"]
    assert left == COMPLETED
    assert "the runs were ended early" in counted.notes[-1]


def test_events_that_only_the_code_names_are_told(machine: Machine) -> None:
    machine.says(encoded_by={ACTIVE[0]: "code"})
    counted = machine.count("cycles", "walk_active_cycles")
    assert counted.notes == (
        f"this libpfm4 does not know {ACTIVE[0]} of this CPU: counted by code",
    )


def test_a_target_without_a_program(machine: Machine) -> None:
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


def test_a_target_with_a_program(machine: Machine) -> None:
    plan = CountPlan(machine.pmu, choose_events(machine.pmu, ["cycles"]), target=Target("system"))
    counted = count_series(machine.launcher, ["sh", "-c", "exit 2"], TRUE, plan, 1, lambda _: True)
    assert "--all-cpus" in machine.calls()[0]
    assert counted.command == "the whole system, while this ran: sh -c 'exit 2'"


def test_intervals_are_shown_as_they_end(machine: Machine) -> None:
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


def test_probe_tells_each_state(machine: Machine) -> None:
    machine.says(states={"instructions": ["forbidden", errno.EACCES]})
    refusals = probe(machine.pmu, select(machine.pmu, ["cycles", "instructions"]))
    assert [(each.event, each.state, each.error) for each in refusals] == [
        ("cycles", "counted", None),
        ("instructions", "forbidden", errno.EACCES),
    ]
    assert "--probe" in machine.calls()[0]


def test_a_missing_program_is_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "libexec", lambda name: machine.folder / "nowhere" / name)
    for call in (
        lambda: machine.count("cycles"),
        lambda: probe(machine.pmu, default_events(machine.pmu)),
        lambda: count_target(
            machine.folder, CountPlan(machine.pmu, choose_events(machine.pmu, []), "user",
                                 Target("system"))
        ),
    ):  # fmt: skip
        with pytest.raises(TlbcostError, match="tlbcost-count: No such file") as error:
            call()
        assert error.value.exit_code == 125


def test_default_events_are_those_of_the_formulas(machine: Machine) -> None:
    names = [event.name for event in default_events(machine.pmu)]
    # What the share is made of comes first, so that one run has all of it.
    assert names[:5] == ["cycles", "instructions", *ACTIVE]
    assert set(COMPLETED) <= set(names)
    assert not [name for name in names if name.startswith("sample_")]
    assert len(names) == len(set(names))


def names_of(pmu: Pmu, *given: str) -> list[str]:
    return [each.role_name or each.event for each in choose_events(pmu, given)]


def test_events_are_chosen_by_name_string_and_code() -> None:
    pmu = load_pmu("skl")
    assert names_of(pmu, "walk_active_cycles") == ["cycles", *ACTIVE]
    assert names_of(pmu, "walk_active_cycles.load") == ["walk_active_cycles.load"]
    assert names_of(pmu, "page_faults", "task_clock_ns") == ["page_faults", "task_clock_ns"]
    assert names_of(pmu, "walks_completed.load.2M") == ["walks_completed.load.2M"]
    string, code = "skl::DTLB_LOAD_MISSES:WALK_ACTIVE", "r1001008"
    assert names_of(pmu, string, code, string) == ["cycles", string, code]
    specs = [each.spec for each in choose_events(pmu, [string, code])]
    assert specs[1:] == [string, "code:raw:0x1001008"]
    # Nothing that needs a counter, nothing to compare.
    assert names_of(pmu, "perf::PAGE-FAULTS", "page_faults") == ["perf::PAGE-FAULTS", "page_faults"]


@pytest.mark.parametrize("name", ["walk_cycles", "", "two words:X", "a|B"])
def test_what_is_no_event_is_a_usage_error(name: str) -> None:
    with pytest.raises(TlbcostError) as error:
        choose_events(load_pmu("skl"), [name])
    assert error.value.exit_code == 2


def test_the_table_is_this_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Path(__file__).parents[2] / "machines"
    monkeypatch.setenv("TLBCOST_ROOT", str(machines / "skylake"))
    assert choose_pmu(None) == (load_pmu("skl"), ())
    assert choose_pmu("skylake") == (load_pmu("skl"), ())
    pmu, notes = choose_pmu("zen4")
    assert pmu.key == "amd64_fam19h_zen4"
    assert "may mean something else here" in notes[0]
    monkeypatch.setenv("TLBCOST_ROOT", "/nowhere")
    pmu, notes = choose_pmu(None)
    assert pmu == generic_pmu()
    assert "no event table" in notes[0]
    with pytest.raises(TlbcostError) as error:
        choose_pmu("no-such-cpu")
    assert error.value.exit_code == 2


def test_a_program_is_shown_in_its_first_run_only(
    machine: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.says(exit=4)
    with pytest.raises(TlbcostError):
        machine.count("cycles", argv=["echo", "shown"])
    # Nothing ran then.
    machine.says()
    machine.count("cycles", argv=["echo", "shown"], runs=2)
    machine.count("cycles", argv=["echo", "shown"])
    assert capfd.readouterr().out == "shown\n"


def test_the_report_keeps_to_80_columns(machine: Machine) -> None:
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
        text = io.StringIO()
        print_counts(findings, text)
        lines = text.getvalue().splitlines()
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


def test_time_that_was_not_counted_is_told() -> None:
    plan = CountPlan(load_pmu("skl"), (EventRequest("cycles", "cycles", "cycles", "cycles"),))
    run = Run(10**9, 9 * 10**8, 10**8, 100, 0, 4096)

    def notes(uncounted_ns: int) -> tuple[str, ...]:
        reading = Reading(1, "cycles", 5, 1, 1, "counted", None, uncounted_ns=uncounted_ns)
        readings = [(0, plan.requests[0], reading)]
        return total_counts(readings, plan, ["app"], [run], 1, stopped=False).notes

    assert notes(10**8) == ()
    (note,) = notes(5 * 10**8)
    assert note.startswith("50 % of the CPU time was not counted")
