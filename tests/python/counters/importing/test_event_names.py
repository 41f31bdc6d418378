# SPDX-License-Identifier: GPL-2.0-or-later
"""Are events known by the names that other tools give them?"""

from __future__ import annotations

import pytest
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.event_counts import EventCounts
from tlbcost.counters.importing.event_names import meaning
from tlbcost.counters.importing.file import import_text
from tlbcost.processors.event_tables import all_pmus, load_pmu
from tlbcost.processors.events import Pmu

SKYLAKE = load_pmu("skl")
ZEN4 = load_pmu("amd64_fam19h_zen4")


def read(text: str, pmu: Pmu | None = SKYLAKE) -> EventCounts:
    return import_text(text, "file", pmu)


NAMES = {
    "cycles": "cycles",
    "cpu-cycles:u": "cycles",
    "cpu_core/cycles/u": "cycles",
    "cpu_clk_unhalted.thread": "cycles",
    "instructions:uk": "instructions",
    "inst_retired.any": "instructions",
    "ref-cycles": None,
    "dtlb_load_misses.walk_active": "walk_active_cycles.load",
    "cpu/dtlb_load_misses.walk_active/": "walk_active_cycles.load",
    "cpu/dtlb_load_misses.walk_active/ukhHGpp": "walk_active_cycles.load",
    "DTLB_LOAD_MISSES:WALK_ACTIVE:u": "walk_active_cycles.load",
    "skl::DTLB_LOAD_MISSES:WALK_ACTIVE": "walk_active_cycles.load",
    "r1001008": "walk_active_cycles.load",
    "R1001008:pp": "walk_active_cycles.load",
    "cpu/r1001008/": "walk_active_cycles.load",
    "cpu/config=0x1001008/": "walk_active_cycles.load",
    "cpu/event=0x8,umask=0x10,cmask=1,name=walks/": "walk_active_cycles.load",
    "cpu/event=0x8,umask=0x10/": "walk_pending_cycles.load",
    "cpu/event=0x8,umask=0x10,inv/": None,
    "cpu/event=0x8,umask=0x10,offcore_rsp=0x1/": None,
    "dtlb_load_misses.stlb_hit": "stlb_hits.load",
    "cpu/dtlb_load_misses.stlb_hit,cmask=0x1/": "stlb_hit_active_cycles.load",
    "dtlb_load_misses.walk_completed_2m_4m": "walks_completed.load.2M",
    "ept.walk_pending": "ept_walk_pending_cycles.any",
    "dTLB-load-misses": "walks_completed.load",
    "dTLB-store-misses:u": "walks_completed.store",
    "iTLB-load-misses": "walks_completed.fetch",
    "dTLB-loads": None,
    "page-faults": "page_faults",
    "faults:u": "page_faults",
    "minor-faults": "minor_faults",
    "cs": "context_switches",
    "task-clock:u": "task_clock_ns",
    "branch-misses": None,
    "uncore_imc/event=0x8,umask=0x10/": None,
    "uncore_cha/cycles/": None,
    "cpu_atom/cycles/": None,
    "r": None,
    "cpu//": None,
}


@pytest.mark.parametrize("foreign", NAMES)
def test_names_of_events(foreign: str) -> None:
    found = read(f'{{"counter-value" : "5", "event" : "{foreign}"}}\n')
    assert found.counts[0].name == NAMES[foreign]
    assert found.counts[0].event == foreign


@pytest.mark.parametrize("pmu", all_pmus(), ids=lambda pmu: pmu.key)
def test_every_event_of_our_tables_is_known_by_its_names(pmu: Pmu) -> None:
    for event in pmu.events:
        names = [f"r{event.code:x}"] if event.type == "raw" and event.config1 is None else []
        if event.string is not None:
            tail = event.string.rpartition("::")[2]
            names += [event.string, tail, tail.lower(), tail.lower().replace(":", ".", 1)]
        for name in names:
            found = meaning(name, pmu)
            assert found.name == event.name, name


def test_of_two_kinds_of_cores_the_named_one_counts() -> None:
    text = "233066666,,cpu_core/cycles/,9,0.43,,\n604097080,,cpu_atom/cycles/,9,99.57,,\n"
    fast, slow = load_pmu("adl_glc"), load_pmu("adl_grt")
    assert read(text, fast).values() == {"cycles": 233066666}
    assert read(text, slow).values() == {"cycles": 604097080}
    assert any("cpu_atom/cycles/ is left out" in note for note in read(text, fast).notes)
    arm = "1,,armv8_cortex_a53/cpu_cycles/,1,100,,\n2,,armv8_cortex_a72/cpu_cycles/,1,100,,\n"
    with pytest.raises(TlbcostError, match="two kinds of cores"):
        read(arm, load_pmu("arm_ac72"))


def test_amds_events_have_twelve_bits() -> None:
    text = '{"counter-value" : "5", "event" : "cpu/event=0x45,umask=0xf0/"}\n'
    by_code = read(text, ZEN4).counts[0].name
    assert by_code is not None
    assert by_code == read("5,,r0f045,1,100.00,,\n", ZEN4).counts[0].name


def test_what_a_generic_event_counts_is_said_where_the_cpu_is_known() -> None:
    known = read("5,,dTLB-load-misses,1,100.00,,\n")
    assert any("WALK_COMPLETED (0x0e08)" in note for note in known.notes)
    unknown = read("5,,dTLB-load-misses,1,100.00,,\n", None)
    assert unknown.counts[0].name == "dtlb_load_misses"
    assert unknown.pmu == "perf"
    assert any("name the CPU" in note for note in unknown.notes)
    # A raw code means nothing without the CPU.
    assert read("5,,r1001008,1,100.00,,\n", None).counts[0].name is None
