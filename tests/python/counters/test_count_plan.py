# SPDX-License-Identifier: GPL-2.0-or-later
"""Which events can be counted here?"""

from __future__ import annotations

import errno

import pytest
from builders.counting import CountingMachine
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.count_plan import CountPlan, probe
from tlbcost.counters.count_runs import count_target
from tlbcost.counters.event_selection import choose_events
from tlbcost.counters.target import Target


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
