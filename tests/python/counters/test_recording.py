# SPDX-License-Identifier: GPL-2.0-or-later
"""How perf is asked for events."""

from __future__ import annotations

import pytest
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.event_selection import EventRequest, choose_events
from tlbcost.counters.recording import Pace, event_terms
from tlbcost.processors.event_tables import generic_pmu


@pytest.fixture(autouse=True)
def _encoder() -> None:
    if not paths.libexec("tlbcost-count").exists():
        pytest.skip("tlbcost-count is not built: make all")


@pytest.mark.parametrize(
    ("names", "mode", "pace", "terms"),
    [
        (["page_faults"], "user", Pace(), ["software/config=0x2,name=page_faults,period=1/u"]),
        (["cycles"], "kernel", Pace(), ["cycles/name=cycles,period=2000003/k"]),
        (["perf::DTLB-LOAD-MISSES"], "both", Pace(frequency=99),
         ["dTLB-load-misses/name=perf__DTLB_LOAD_MISSES,freq=99/"]),
    ],
)  # fmt: skip
def test_terms(names: list[str], mode: str, pace: Pace, terms: list[str]) -> None:
    found = event_terms(choose_events(generic_pmu(), names), mode, pace)  # type: ignore[arg-type]
    assert found[-len(terms) :] == terms


def test_an_event_source_that_is_not_here_is_refused() -> None:
    absent = EventRequest("x", None, "x", "code:no_such_source:0x1")
    with pytest.raises(TlbcostError) as error:
        event_terms([absent], "user", Pace())
    assert error.value.exit_code == 4
