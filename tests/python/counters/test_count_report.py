# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the report of counts fit its page?"""

from __future__ import annotations

import io

from builders.counting import ACTIVE, TRUE, CountingMachine
from tlbcost.counters.count_findings import CountFindings, formula_values, relevant
from tlbcost.counters.count_report import print_counts
from tlbcost.counters.count_runs import count_series
from tlbcost.counters.count_tool import CountPlan
from tlbcost.counters.event_selection import choose_events
from tlbcost.processors.event_tables import load_pmu
from tlbcost.system.machine import current_machine


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
        text = io.StringIO()
        print_counts(findings, text, details=True)
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
