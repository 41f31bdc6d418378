# SPDX-License-Identifier: GPL-2.0-or-later
"""Are counts joined that belong together, and no others?"""

from __future__ import annotations

import pytest
from builders.imported_counts import cycles_of
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.event_counts import EventCounts, merge_sources


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


def test_runs_of_other_modes_or_cpus_are_not_put_together() -> None:
    one = cycles_of(100.0)
    with pytest.raises(TlbcostError, match="mode user, the other of both"):
        merge_sources([one, EventCounts("b", "skl", "both", one.counts)])
    with pytest.raises(TlbcostError, match="different CPUs"):
        merge_sources([one, EventCounts("b", "icl", "user", one.counts)])


def test_times_of_several_runs_are_their_means() -> None:
    found = merge_sources(
        [
            cycles_of(100.0, wall_ns=4.0),
            cycles_of(101.0, wall_ns=6.0),
            cycles_of(102.0, user_ns=1.0),
        ]
    )
    assert (found.wall_ns, found.user_ns, found.system_ns) == (5.0, 1.0, None)
