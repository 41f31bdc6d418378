# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import re
from dataclasses import replace

import pytest
from builders.answer import BASE_COSTS, HUGE_COSTS, MACHINE, RUN, interval
from builders.counted import SKL, ZEN4, both, counted, counted_estimate, evidence, imported
from builders.report import text_of
from builders.tree import GOLDEN, there
from tlbcost.answer.estimate import conclude
from tlbcost.common.units import Interval
from tlbcost.counters.count_tool import formula_values
from tlbcost.counters.event_counts import EventCount, EventCounts, join_runs, merge_sources
from tlbcost.counters.importing.file import import_file
from tlbcost.model import gain
from tlbcost.model.gain import Prices, expected_from_share, expected_with_remaining, witness
from tlbcost.processors.events import load_pmu, named

# Of the sample's run time of 1 s, 0.9 s are user time, which is what was counted.
USER = 0.9
PPC970 = named("ppc970")
COST = Prices(Interval(563, 563, 563), None)


def test_the_share_of_walk_cycles_is_the_bound() -> None:
    content = counted_estimate()
    assert content.backend == "pmu"
    assert content.gain.bound_fraction.value == pytest.approx(USER * 6.3e8 / 3e9)
    assert there(content.gain.code_fraction).value == pytest.approx(USER * 3e7 / 3e9)
    assert there(content.counted).witness.way == "walk_cycles"


def test_the_expected_gain_is_of_loads_and_stores() -> None:
    found = counted_estimate().gain.expected_fraction
    wanted = expected_from_share(0.2)
    assert found.value == pytest.approx(USER * wanted.value)
    assert found.low == pytest.approx(USER * wanted.low)
    assert found.high == pytest.approx(USER * wanted.high)


def test_walk_cycles_beyond_the_cycles_are_capped() -> None:
    content = counted_estimate({**SKL, "walk_active_cycles.load": 4e9})
    assert content.gain.bound_fraction.value == pytest.approx(USER)
    assert content.gain.bound_capped


def test_walks_are_priced_where_their_cycles_are_not_counted() -> None:
    prices = gain.Prices(interval(100, 0.5), interval(10, 0.5))
    found = formula_values(load_pmu("amd64_fam19h_zen4").formulas, counted(ZEN4))
    seen = there(gain.witness(found, 3e9, prices))
    assert seen.way == "walks_times_cost"
    # 10 M walks and 20 M hits of data, 0.1 M each of code
    assert seen.data.value == pytest.approx((10e6 * 100 + 20e6 * 10) / 3e9)
    assert seen.total.value == pytest.approx((10.1e6 * 100 + 20.1e6 * 10) / 3e9)
    assert seen.data.low == pytest.approx(seen.data.value / 2)
    assert seen.data.high == pytest.approx(seen.data.value * 1.5)
    assert not seen.capped


def test_calibrated_costs_are_turned_into_cycles_of_the_programs_own_clock() -> None:
    seen = there(gain.prices_of(BASE_COSTS, 2.0))
    # from cached to serial, with their intervals
    assert seen.walk_cycles.low == pytest.approx(2 * 5.0 * 0.9)
    assert seen.walk_cycles.high == pytest.approx(2 * 35.0 * 1.1)
    assert gain.prices_of(replace(BASE_COSTS, walk_serial_ns=None), 2.0) is None


def test_stalls_are_a_lower_bound() -> None:
    pmu = load_pmu("skl")
    share, stalls = pmu.formulas["share"], "walk_active_cycles.store / cycles"
    with_both = replace(pmu, formulas={"share": share, "exposed_share": stalls})
    content = conclude(replace(evidence(counted(SKL)), pmu=with_both))
    assert content.gain.bound_fraction.low == pytest.approx(USER * 1e8 / 3e9)
    alone = replace(pmu, formulas={"exposed_share": stalls})
    content = conclude(replace(evidence(counted(SKL)), pmu=alone))
    assert there(content.counted).witness.way == "stall_cycles"


def test_the_second_stage_is_on_a_line_of_its_own() -> None:
    content = counted_estimate({**SKL, "ept_walk_active_cycles.any": 3e8})
    assert there(content.counted).witness.ept == Interval(0.1, 0.1, 0.1)
    assert content.gain.bound_fraction == counted_estimate().gain.bound_fraction
    assert re.search(r"ept_share +10 %", text_of(content))


def test_the_simulation_tells_what_remains_on_huge_pages() -> None:
    content = both()
    assert content.backend == "both"
    assert content.simulated is not None
    base, huge = content.simulated.gain.base_data_ns, content.simulated.gain.huge_data_ns
    wanted = expected_with_remaining(0.2, there(huge).value / there(base).value)
    assert content.gain.expected_fraction.value == pytest.approx(USER * wanted.value)
    assert "compared" in text_of(content)


def test_runs_that_differ_make_an_interval() -> None:
    first, second = counted(SKL), counted({**SKL, "walk_active_cycles.load": 6e8})
    figures = formula_values(load_pmu("skl").formulas, join_runs([first, second]))
    share = there(figures["data_share"])
    assert (share.low, share.high) == (pytest.approx(0.2), pytest.approx(0.7 / 3))


def test_events_of_different_runs_are_combined() -> None:
    halves = [
        {"cycles": 3e9, "walk_active_cycles.load": 5e8, "walk_active_cycles.store": 1e8},
        {"cycles": 3.1e9, "walk_active_cycles.fetch": 3e7},
    ]
    figures = formula_values(
        load_pmu("skl").formulas, join_runs([counted(half) for half in halves])
    )
    assert there(figures["share"]).value == pytest.approx(6.3e8 / 3.05e9)
    assert figures["tma_data_share"] is None


def test_together_keeps_the_runs_apart_and_means_the_times() -> None:
    slow = replace(counted(SKL), wall_ns=3 * RUN.wall_ns, notes=("a",))
    found = join_runs([counted(SKL), slow])
    assert {count.run for count in found.counts} == {0, 1}
    assert found.wall_ns == 2 * RUN.wall_ns
    assert found.notes == ("a",)
    with pytest.raises(ValueError, match="nothing"):
        join_runs([])


def test_without_times_shares_are_of_the_cycles() -> None:
    seen = replace(counted(SKL), wall_ns=None, user_ns=None, system_ns=None)
    content = imported(seen)
    assert content.gain.bound_fraction.value == pytest.approx(6.3e8 / 3e9)
    assert content.gain.cpu_ns is None
    assert "cycles counted, since no CPU time is known" in text_of(content)
    assert "T33 " in text_of(content)


@pytest.mark.parametrize(
    ("mode", "part"), [("user", 0.9), ("kernel", 0.1), ("both", 1.0), (None, 1.0)]
)
def test_the_mode_tells_what_the_cycles_stand_for(mode: str | None, part: float) -> None:
    seen = counted(SKL, mode=mode)
    assert gain.counted_fraction(seen) == pytest.approx(part)


def test_page_faults_need_runs_and_costs() -> None:
    assert counted_estimate().gain.fault_fraction is not None
    assert counted_estimate(calibrated=None).gain.fault_fraction is None
    assert imported(counted(SKL)).gain.fault_fraction is None


def test_memory_is_that_of_the_page_faults() -> None:
    memory = there(gain.memory_of([RUN], 4096, 512))
    assert memory.anonymous_pages == RUN.minor_faults
    assert memory.dense_huge_pages == 137
    assert gain.memory_of([], 4096, 512) is None


def test_absent_counts_are_shown_as_absent() -> None:
    text = text_of(counted_estimate({**SKL, "stlb_hits.load": None}))
    line = next(line for line in text.splitlines() if line.startswith("stlb_hits.load"))
    assert line.split() == ["stlb_hits.load", "NA", "NA", "NA"]


def test_a_count_without_a_role_is_shown_by_its_event() -> None:
    odd = EventCount(None, "cpu/event=0xab/", 7.0, None, "counted")
    content = conclude(evidence(replace(counted(SKL), counts=(*counted(SKL).counts, odd))))
    assert "cpu/event=0xab/" in text_of(content)


def test_a_huge_cost_is_not_needed() -> None:
    bare = replace(HUGE_COSTS, walk_serial_ns=None)
    seen = gain.witness(formula_values(load_pmu("skl").formulas, counted(SKL)), 3e9, None)
    assert seen is not None
    found = gain.predicted(counted(SKL), seen, [RUN], (BASE_COSTS, bare), None, None)
    assert found.fault_fraction is None
    assert MACHINE.base_page_bytes == BASE_COSTS.page_size_bytes


def listing(name: str) -> EventCounts:
    return import_file(GOLDEN / f"opreport-{name}.txt", PPC970)


def share(name: str) -> float:
    """Of the cycles, by the article's cost of a miss."""
    counted = listing(name)
    seen = witness(formula_values(PPC970.formulas, counted), counted.values()["cycles"], COST)
    assert seen is not None
    assert seen.way == "walks_times_cost"
    return seen.total.value


def test_a_miss_costs_563_cycles() -> None:
    both = merge_sources([listing("tablewalk"), listing("dtlb")])
    assert any("agree within 2.8 %" in note for note in both.notes)
    assert both.values()["walk_active_cycles.data"] == 543702 * 10000
    assert both.values()["stlb_misses.data"] == 9644 * 1000
    cycles = there(formula_values(PPC970.formulas, both)["walk_cycles"])
    # It prints ~563, and continues with that.
    assert int(cycles.value) == 563
    assert cycles.value == pytest.approx(563.77, abs=0.005)
    # A listing alone has no cost.
    assert formula_values(PPC970.formulas, listing("dtlb"))["walk_cycles"] is None


def test_stream_spends_17_84_percent_and_on_huge_pages_nothing() -> None:
    assert 100 * share("base") == pytest.approx(17.84, abs=0.005)
    assert share("huge") == 0
