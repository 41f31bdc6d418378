# SPDX-License-Identifier: GPL-2.0-or-later
"""Which events can be counted here?"""

from __future__ import annotations

import errno

import pytest
from builders.counting import CountingMachine
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.count_runs import count_target
from tlbcost.counters.count_tool import CountPlan, Target, by_event, parse_readings, probe
from tlbcost.counters.event_selection import EventRequest, choose_events
from tlbcost.counters.totals import scaled


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
        with pytest.raises(TlbcostError, match="tlbcost-count: No such file") as error:
            call()
        assert error.value.exit_code == 125


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
