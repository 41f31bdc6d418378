# SPDX-License-Identifier: GPL-2.0-or-later
"""Which formulas are shown?"""

from __future__ import annotations

from tlbcost.counters.count_findings import relevant
from tlbcost.counters.event_selection import choose_events
from tlbcost.processors.event_tables import load_pmu


def test_formulas_of_other_events_are_left_out() -> None:
    pmu = load_pmu("skl")
    assert relevant(pmu, choose_events(pmu, ["page_faults", "cycles"])) == {}
    asked = relevant(pmu, choose_events(pmu, ["walk_active_cycles.fetch"]))
    assert "share" in asked
    assert "walks" not in asked
