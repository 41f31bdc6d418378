# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the perf command that is printed count what an estimate of this CPU needs?"""

from __future__ import annotations

import pytest
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.counters.importing.event_names import meaning
from tlbcost.counters.perf_stat import estimate_from, needed_events, perf_name, perf_stat
from tlbcost.processors.event_tables import all_pmus, generic_pmu, load_pmu, named
from tlbcost.processors.events import Pmu

COUNTS_NO_WALKS = ("arm_ac53", "arm_ac57", "arm_ac72")
COUNTING = [pmu for pmu in all_pmus() if pmu.key not in COUNTS_NO_WALKS]


@pytest.mark.parametrize("key", COUNTS_NO_WALKS)
def test_cpus_that_count_no_walks_are_refused(key: str) -> None:
    with pytest.raises(TlbcostError, match="counts neither page walks nor the cycles") as error:
        perf_stat(load_pmu(key))
    assert error.value.exit_code == CANNOT_MEASURE


@pytest.mark.parametrize("pmu", COUNTING, ids=lambda pmu: pmu.key)
def test_what_is_printed_is_what_the_importers_understand(pmu: Pmu) -> None:
    events = needed_events(pmu)
    assert events[0].role == "cycles"
    for event in events:
        found = meaning(perf_name(event), pmu)
        assert (found.name, found.mode) == (event.name, "user"), perf_name(event)
    assert "\n" not in perf_stat(pmu)
    assert named(estimate_from(pmu).rpartition(" ")[2]) is pmu


def test_the_line_has_the_cycles_of_walks_where_the_cpu_counts_them() -> None:
    assert perf_stat(load_pmu("skl"), "./app -n 3") == (
        "perf stat -o counts.txt -e cycles:u,instructions:u,r1001008:u,r1001049:u,r1001085:u "
        "-- ./app -n 3"
    )
    assert perf_stat(load_pmu("amd64_fam19h_zen4")) == (
        "perf stat -o counts.txt -e cycles:u,instructions:u,rf045:u,rf85:u,rf45:u,r84:u -- COMMAND"
    )
    assert "cpu_core/cycles/u" in perf_stat(load_pmu("adl_glc"))
    assert perf_stat(generic_pmu()) == (
        "perf stat -o counts.txt -e cycles:u,instructions:u,dTLB-load-misses:u,"
        "dTLB-store-misses:u,iTLB-load-misses:u -- COMMAND"
    )
