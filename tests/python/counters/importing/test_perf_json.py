# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the output of perf stat -j read as it was meant?"""

from __future__ import annotations

from builders.imported_counts import read
from tlbcost.counters.event_counts import EventCount


def test_json_in_which_a_counter_never_ran() -> None:
    found = read(
        '{"counter-value" : "<not counted>", "unit" : "", "event" : "cycles:k", '
        '"event-runtime" : 0, "pcnt-running" : 0.00}\n'
        '{"counter-value" : "12.000000", "unit" : "", "event" : "r1008:k", '
        '"event-runtime" : 10, "pcnt-running" : 40.00}\n'
        '{"metric-value" : 0.5, "metric-unit" : "insn per cycle"}\n'
    )
    assert found.mode == "kernel"
    assert found.counts[0].state == "never_ran"
    assert found.counts[1] == EventCount(
        "walk_pending_cycles.load", "r1008:k", 12, 0.4, "multiplexed"
    )
