# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the right events chosen, is perf asked for them, and is what is no event refused?"""

from __future__ import annotations

import pytest
from builders.counting import ACTIVE, COMPLETED, CountingMachine
from builders.tree import MACHINES, fails
from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.counters.importing.printed_counts import meaning
from tlbcost.counters.pmu import (
    EventRequest,
    choose_events,
    choose_pmu,
    default_events,
    default_sample_names,
    estimate_from,
    needed_events,
    perf_name,
    perf_stat,
)
from tlbcost.counters.recording import Pace, event_terms
from tlbcost.processors.events import Pmu, all_pmus, generic_pmu, load_pmu, named

COUNTS_NO_WALKS = ("arm_ac53", "arm_ac57", "arm_ac72")
COUNTING = [pmu for pmu in all_pmus() if pmu.key not in COUNTS_NO_WALKS]


def test_default_events_are_those_of_the_formulas(machine: CountingMachine) -> None:
    names = [event.name for event in default_events(machine.pmu)]
    # What the share is made of comes first, so that one run has all of it.
    assert names[:5] == ["cycles", "instructions", *ACTIVE]
    assert set(COMPLETED) <= set(names)
    assert not [name for name in names if name.startswith("sample_")]
    assert len(names) == len(set(names))


def names_of(pmu: Pmu, *given: str) -> list[str]:
    return [each.role_name or each.event for each in choose_events(pmu, given)]


def test_events_are_chosen_by_name_string_and_code() -> None:
    pmu = load_pmu("skl")
    assert names_of(pmu, "walk_active_cycles") == ["cycles", *ACTIVE]
    assert names_of(pmu, "walk_active_cycles.load") == ["walk_active_cycles.load"]
    assert names_of(pmu, "page_faults", "task_clock_ns") == ["page_faults", "task_clock_ns"]
    assert names_of(pmu, "walks_completed.load.2M") == ["walks_completed.load.2M"]
    string, code = "skl::DTLB_LOAD_MISSES:WALK_ACTIVE", "r1001008"
    assert names_of(pmu, string, code, string) == ["cycles", string, code]
    specs = [each.spec for each in choose_events(pmu, [string, code])]
    assert specs[1:] == [string, "code:raw:0x1001008"]
    # Nothing that needs a counter, nothing to compare.
    assert names_of(pmu, "perf::PAGE-FAULTS", "page_faults") == ["perf::PAGE-FAULTS", "page_faults"]


@pytest.mark.parametrize("name", ["walk_cycles", "", "two words:X", "a|B"])
def test_what_is_no_event_is_a_usage_error(name: str) -> None:
    with pytest.raises(TlbcostError) as error:
        choose_events(load_pmu("skl"), [name])
    assert error.value.exit_code == 2


def test_the_table_is_this_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "skylake"))
    assert choose_pmu(None) == (load_pmu("skl"), ())
    assert choose_pmu("skylake") == (load_pmu("skl"), ())
    pmu, notes = choose_pmu("zen4")
    assert pmu.key == "amd64_fam19h_zen4"
    assert "may mean something else here" in notes[0]
    monkeypatch.setenv("TLBCOST_ROOT", "/nowhere")
    pmu, notes = choose_pmu(None)
    assert pmu == generic_pmu()
    assert "no event table" in notes[0]
    with pytest.raises(TlbcostError) as error:
        choose_pmu("no-such-cpu")
    assert error.value.exit_code == 2


def test_what_is_recorded_unless_something_is_asked_for() -> None:
    assert default_sample_names(load_pmu("skl"), addresses=False) == [
        "cycles", "walks_completed.load", "walks_completed.store",
    ]  # fmt: skip
    assert "sample_load_misses" in " ".join(default_sample_names(load_pmu("skl"), addresses=True))
    assert default_sample_names(load_pmu("perf"), addresses=False) == [
        "cycles", "dtlb_load_misses", "dtlb_store_misses",
    ]  # fmt: skip


@pytest.mark.parametrize("key", COUNTS_NO_WALKS)
def test_cpus_that_count_no_walks_are_refused(key: str) -> None:
    with fails("counts neither page walks nor the cycles", CANNOT_MEASURE):
        perf_stat(load_pmu(key))


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


needs_encoder = pytest.mark.skipif(
    not paths.libexec("tlbcost-count").exists(), reason="tlbcost-count is not built: make all"
)


@needs_encoder
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


@needs_encoder
def test_an_event_source_that_is_not_here_is_refused() -> None:
    absent = EventRequest("x", None, "x", "code:no_such_source:0x1")
    with pytest.raises(TlbcostError) as error:
        event_terms([absent], "user", Pace())
    assert error.value.exit_code == 4
