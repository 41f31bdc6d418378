# SPDX-License-Identifier: GPL-2.0-or-later
"""Does tlbcost work on a real arm64 kernel, emulated, with base pages of 4 and of 16 KiB?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from machine import Results

MIB = 1 << 20
BASE, HUGE = 4096, 2 * MIB
CANNOT_MEASURE = 4
# Of Neoverse V2, as data/machines has it.
STLB_ENTRIES = 2048


def code(results: Results, step: str) -> int:
    return int(results.text(f"{step}.code"))


def said(results: Results, step: str) -> str:
    """What a step printed on standard error, without its line ends."""
    return " ".join(results.text(f"{step}.err").split())


def document(results: Results, step: str) -> dict[str, Any]:
    assert code(results, step) == 0, said(results, step)
    found: dict[str, Any] = json.loads(results.text(f"{step}.json"))
    return found


def page_bytes(results: Results) -> tuple[int, int]:
    """The kernel's base page and its huge page."""
    (check,) = (c for c in document(results, "doctor")["checks"] if c["name"] == "cpu")
    base = int(check["values"]["base_page_bytes"])
    return base, base * base // 8


def walks(results: Results, step: str) -> dict[int, int]:
    """Page walks of loads and stores, by page size."""
    (machine,) = document(results, step)["machines"]
    assert machine["name"] == "neoverse-v2"
    return {
        size["page_size_bytes"]: sum(size["misses"][s]["page_walks"] for s in ("load", "store"))
        for size in machine["page_sizes"]
    }


def added(results: Results, step: str) -> dict[int, int]:
    """What the longer of two runs has more of: the start of every program is the same."""
    less, more = walks(results, step), walks(results, f"{step}-more")
    return {size: more[size] - less[size] for size in less}


def test_the_kernels_have_the_pages_that_they_are_named_for(
    pages_4k: Results, pages_16k: Results
) -> None:
    assert page_bytes(pages_4k) == (4 << 10, 2 * MIB)
    assert page_bytes(pages_16k) == (16 << 10, 32 * MIB)


def test_doctor_says_what_is_missing_and_what_works_instead(either: Results) -> None:
    checks = {check["name"]: check for check in document(either, "doctor")["checks"]}
    assert checks["copies"]["state"] == "missing"
    assert "only on x86-64, not on aarch64: programs run in Valgrind" in checks["copies"]["finding"]
    assert checks["tlbsim"]["state"] == "ok", checks["tlbsim"]["finding"]
    assert "this CPU is emulated (" in checks["calibration"]["finding"]
    assert checks["calibration"]["blocks_estimate"]


def test_the_core_has_a_name(pages_4k: Results) -> None:
    (check,) = (c for c in document(pages_4k, "doctor")["checks"] if c["name"] == "cpu")
    assert check["values"]["cpu_name"] == "Arm Neoverse N1"


@pytest.mark.parametrize("step", ["calibrate", "estimate"])
def test_an_emulators_times_are_no_costs_of_misses(either: Results, step: str) -> None:
    assert code(either, step) == CANNOT_MEASURE
    assert "cannot calibrate: this CPU is emulated (" in said(either, step)
    assert "hint: model a real CPU: tlbcost estimate --machine NAME" in said(either, step)
    assert "NA" not in either.text(f"{step}.out")


def test_what_fits_the_tlb_misses_no_more_however_long_it_runs(either: Results) -> None:
    assert added(either, "few") == {BASE: 0, HUGE: 0}


def test_a_cycle_of_more_pages_than_entries_misses_every_time(either: Results) -> None:
    # Ten rounds more. Its 64 MiB are 32 huge pages.
    assert added(either, "many") == {BASE: 10 * 16384, HUGE: 0}


def test_a_random_chase_hits_by_the_share_of_pages_that_the_tlb_holds(either: Results) -> None:
    found = added(either, "chase")
    assert found[BASE] == pytest.approx(100_000 * (1 - STLB_ENTRIES / 16384), rel=0.02)
    assert found[HUGE] == 0


def test_times_that_are_not_known_are_not_invented(either: Results) -> None:
    assert "NOT KNOWN: no times could be modelled; misses alone are known." in said(either, "many")
    (machine,) = document(either, "many")["machines"]
    assert machine["no_times"]
    assert all(size["expected_gain_fraction"] is None for size in machine["page_sizes"])


def test_sve_runs_natively_and_is_refused_by_name_in_the_simulator(pages_16k: Results) -> None:
    assert code(pages_16k, "sve") == 0
    assert code(pages_16k, "sve-estimate") == 125
    words = said(pages_16k, "sve-estimate")
    assert "cannot simulate sve: an SVE instruction that the simulator does not know" in words
    assert "-march=armv8.2-a" in words
    assert "tlbcost trial" in words


def test_a_program_that_dies_of_sve_natively_is_its_own_fault(pages_4k: Results) -> None:
    assert code(pages_4k, "sve") == 128 + 4
    assert "an SVE instruction" not in said(pages_4k, "sve-estimate")


def test_maps_has_the_sizes_of_this_kernel(either: Results) -> None:
    base, _ = page_bytes(either)
    seen = document(either, "maps")
    assert seen["machine"]["base_page_bytes"] == base
    (process,) = seen["processes"]
    assert process["program"] == "/usr/local/bin/chase"
    largest = max(area["resident_bytes"] for area in process["areas"])
    assert largest >= 256 * MIB


def test_a_trial_proves_where_the_memory_was(either: Results) -> None:
    _, huge_page = page_bytes(either)
    (trial,) = document(either, "trial")["trials"]
    assert trial["proven"], trial["why_not"]
    assert trial["page_size_bytes"] == huge_page
    assert len(trial["pairs"]) == 3
    for pair in trial["pairs"]:
        assert pair["base"]["memory"]["anonymous_huge_bytes"] == 0
        huge = pair["huge"]["memory"]["anonymous_huge_bytes"]
        assert huge >= 64 * MIB
        assert huge % huge_page == 0


def test_a_pool_is_reserved_and_put_back(either: Results) -> None:
    _, huge_page = page_bytes(either)
    assert code(either, "pool-reserve") == 0
    assert f"4 pages are reserved, {huge_page // MIB} MiB each" in said(either, "pool-reserve")
    assert either.text("pool-reserved.out") == "4\n"
    assert code(either, "pool-restore") == 0
    assert either.text("pool-restored.out") == "0\n"


def test_events_of_another_arm_core(either: Results) -> None:
    assert code(either, "events") == 0
    assert "DTLB_WALK" in either.text("events.out")


@pytest.mark.parametrize(
    ("step", "missing", "instead"),
    [
        ("run-thp", "x86-64", "glibc.malloc.hugetlb"),
        ("pid", "on x86-64 only, not on aarch64", "in Valgrind"),
        ("trial-run-thp", "x86-64", "glibc-thp"),
    ],
)
def test_what_x86_alone_has_says_what_works_instead(
    pages_4k: Results, step: str, missing: str, instead: str
) -> None:
    assert code(pages_4k, step) in (2, CANNOT_MEASURE)
    words = said(pages_4k, step)
    assert missing in words
    assert "hint: " in words
    assert instead in words.split("hint: ", 1)[1]


def counts(results: Results, step: str) -> dict[str, float | None]:
    return {each["name"]: each["count"] for each in document(results, step)["counts"]}


def test_counters_of_cycles_and_instructions_follow_the_work(counting: Results) -> None:
    short, long = counts(counting, "short"), counts(counting, "long")
    for name in ("cycles", "instructions"):
        less, more = short[name], long[name]
        assert less is not None
        assert more is not None
        # 100 rounds of 4,096 accesses more, of a few instructions each.
        assert 2 < (more - less) / (100 * 4096) < 20


def test_events_that_the_core_lacks_read_0_and_are_not_counts(counting: Results) -> None:
    found = counts(counting, "long")
    for name in ("stlb_misses.data", "stlb_misses.fetch", "dtlb_misses"):
        assert found[name] is None
    assert "stlb_misses.data was not obtained: it opened and read 0" in said(counting, "long")
