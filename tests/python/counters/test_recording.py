# SPDX-License-Identifier: GPL-2.0-or-later
"""How often are samples taken?"""

from __future__ import annotations

from itertools import pairwise

import pytest
from tlbcost.counters.event_selection import EventRequest, addressed
from tlbcost.counters.recording import Pace, SamplingPlan
from tlbcost.counters.target import PROGRAM_ITSELF
from tlbcost.processors.event_tables import load_pmu


@pytest.mark.parametrize(("key", "period"), [("skl", 10_007), ("amd64_fam19h_zen4", 200_003)])
def test_samples_of_all_operations_are_rarer_than_those_of_misses(key: str, period: int) -> None:
    """A core retires more operations a second than the kernel lets anybody sample each 10,007th."""
    wanted = tuple(EventRequest.of(event) for event in addressed(load_pmu(key)))
    options = SamplingPlan(wanted, "user", Pace(), PROGRAM_ITSELF, addresses=True).options()
    assert "--addresses" in options
    periods = [word for before, word in pairwise(options) if before == "--period"]
    assert periods == [str(period)] * len(wanted)
