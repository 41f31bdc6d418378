# SPDX-License-Identifier: GPL-2.0-or-later
"""Which events can be counted here, and is a table of counts read as it was written?"""

from __future__ import annotations

import errno
from dataclasses import fields, replace

import pytest
from builders.counting import CountingMachine, cycles_of, read
from builders.tree import fails
from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import Cell, format_table
from tlbcost.counters.count_report import scaled
from tlbcost.counters.count_runs import count_target
from tlbcost.counters.count_tool import CountPlan, Reading, Target, by_event, parse_readings, probe
from tlbcost.counters.event_counts import EventCount, EventCounts, merge_sources
from tlbcost.counters.pmu import EventRequest, choose_events
from tlbcost.system.machine import Machine


def test_probe_tells_each_state(machine: CountingMachine) -> None:
    machine.says(states={"instructions": ["forbidden", errno.EACCES]})
    refusals = probe(machine.pmu, choose_events(machine.pmu, ["cycles", "instructions"]))
    assert [(each.event, each.state, each.error) for each in refusals] == [
        ("cycles", "counted", None),
        ("instructions", "forbidden", errno.EACCES),
    ]
    assert "--probe" in machine.calls()[0]


def test_a_missing_program_is_reported(
    machine: CountingMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "libexec", lambda name: machine.folder / "nowhere" / name)
    for call in (
        lambda: machine.count("cycles"),
        lambda: probe(machine.pmu, choose_events(machine.pmu, ["cycles"])),
        lambda: count_target(
            machine.folder, CountPlan(machine.pmu, choose_events(machine.pmu, []), "user",
                                 Target("system"))
        ),
    ):  # fmt: skip
        with fails("tlbcost-count: No such file", 125):
            call()


def readings(*rows: str, **header: Cell) -> list[Reading]:
    """Of rows up to their state."""
    cells = [(*row.split(), None, "libpfm4", "0x0", "0x0", "0x0") for row in rows]
    return parse_readings(format_table(formats.COUNTERS, header, cells), "t")


CYCLES = EventRequest("cycles", "cycles", "cycles", "x")


def test_groups_that_take_turns_each_count_a_part_of_the_whole() -> None:
    rows = ("100 cycles 0 300 100 60 multiplexed", "100 cycles 1 200 100 40 multiplexed")
    whole = by_event(readings(*rows, uncounted_ns=7), [CYCLES])["cycles"]
    # 500 in all of the time, and not 1000.
    assert scaled(whole) == (500, 0.5)
    assert whole.uncounted_ns == 7


GOOD = ["5", "cycles", "0", "100", "10", "10", "counted", "NA", "libpfm4", "0x0", "0x0", "0x0"]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (0, "soon"), (0, "NA"), (1, "NA"), (3, "-1"), (3, "1.5"), (5, "NA"), (5, "0"),
        (6, "perhaps"), (7, "EPERM"), (9, "0xx"), (10, "word"),
    ],
)  # fmt: skip
def test_rows_that_are_none(cell: int, text: str) -> None:
    cells = [*GOOD[:cell], text, *GOOD[cell + 1 :]]
    with fails("wrote a table with a defect", 125):
        parse_readings(format_table(formats.COUNTERS, {}, [tuple(cells)]), "t")


def test_intervals_add_up() -> None:
    rows = ("10 cycles 0 100 10 10 counted", "20 cycles 0 NA 10 0 never_ran",
            "30 cycles 0 50 10 5 multiplexed")  # fmt: skip
    found = by_event(readings(*rows), [CYCLES, EventRequest("other", None, "o", "o")])
    cycles = found["cycles"]
    assert (cycles.count, cycles.enabled_ns, cycles.running_ns) == (150, 30, 15)
    assert (cycles.state, cycles.end_ns) == ("multiplexed", 30)
    # What the table does not have was not obtained.
    assert (found["other"].state, found["other"].count) == ("failed", None)


TABLE = """\
# tlbcost counted 1
# pmu: skl
# mode: user
# wall_ns: 5000
# user_ns: NA
# command: ./app
# note_1: a sentence
role\taccess\tpage_size_bytes\tevent\tcount\trunning_fraction\trun\tstate
cycles\tNA\tNA\tskl::UNHALTED_CORE_CYCLES\t100\t1\t0\tcounted
walks_completed\tload\t2097152\tr0408\t7\t0.5\t1\tmultiplexed
NA\tNA\tNA\tfoo\tNA\tNA\t1\tnever_ran
# end: 3
"""


def test_our_own_table() -> None:
    found = read(TABLE, None)
    assert (found.pmu, found.mode, found.wall_ns, found.user_ns) == ("skl", "user", 5000, None)
    assert (found.command, found.notes) == ("./app", ("a sentence",))
    assert found.counts == (
        EventCount("cycles", "skl::UNHALTED_CORE_CYCLES", 100, 1, "counted", 0),
        EventCount("walks_completed.load.2M", "r0408", 7, 0.5, "multiplexed", 1),
        EventCount(None, "foo", None, None, "never_ran", 1),
    )


def test_our_own_table_tells_the_machine() -> None:
    header = {field.name: "NA" for field in fields(Machine)}
    header |= {"cpu_name": "A CPU", "base_page_bytes": "4096"}
    lines = [f"# {key}: {value}" for key, value in header.items()]
    head, rest = TABLE.split("\n", 1)
    found = read("\n".join([head, *lines, rest]), None)
    assert found.machine is not None
    assert (found.machine.cpu_name, found.machine.base_page_bytes) == ("A CPU", 4096)
    assert merge_sources([found, found]).machine == found.machine
    with pytest.raises(TlbcostError, match="no '# kernel:' line"):
        read("\n".join([head, *(line for line in lines if "kernel" not in line), rest]), None)


@pytest.mark.parametrize(
    ("old", "new"),
    [("counted\n", "lost\n"), ("mode: user", "mode: mine"), ("2097152", "3"), ("\t0.5", "\t5"),
     ("100\t1\t0", "-1\t1\t0"), ("1\tmulti", "NA\tmulti"), ("end: 3", "end: 4")],
)  # fmt: skip
def test_a_broken_table_is_refused(old: str, new: str) -> None:
    assert old in TABLE
    with pytest.raises(TlbcostError, match="file"):
        read(TABLE.replace(old, new), None)


def test_runs_whose_cycles_differ_are_not_put_together() -> None:
    assert merge_sources([cycles_of(100.0), cycles_of(104.0, "b")]).source == "a, b"
    with pytest.raises(TlbcostError, match=r"differ by 4\.1 %"):
        merge_sources([cycles_of(100.0), cycles_of(104.1, "b")])
    with pytest.raises(TlbcostError, match="no cycles"):
        merge_sources([cycles_of(100.0), cycles_of(None, "b")])
    with pytest.raises(TlbcostError, match="one is 0"):
        merge_sources([cycles_of(100.0), cycles_of(0.0, "b")])
    with pytest.raises(ValueError, match="nothing was counted"):
        merge_sources([])


def test_runs_of_other_modes_cpus_or_commands_are_not_put_together() -> None:
    one = cycles_of(100.0)
    with pytest.raises(TlbcostError, match=r"one is of '\./a', the other of '\./b'"):
        merge_sources([replace(one, command="./a"), replace(one, source="b", command="./b")])
    with pytest.raises(TlbcostError, match="mode user, the other of both"):
        merge_sources([one, EventCounts("b", "skl", "both", one.counts)])
    with pytest.raises(TlbcostError, match="different CPUs"):
        merge_sources([one, EventCounts("b", "icl", "user", one.counts)])


def test_times_of_several_runs_are_their_means() -> None:
    times = ({"wall_ns": 4.0}, {"wall_ns": 6.0}, {"user_ns": 1.0})
    found = merge_sources([cycles_of(100.0 + i, **each) for i, each in enumerate(times)])
    assert (found.wall_ns, found.user_ns, found.system_ns) == (5.0, 1.0, None)
