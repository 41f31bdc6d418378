# SPDX-License-Identifier: GPL-2.0-or-later
"""What takes an emulated arm64 machine minutes: make check-arm64."""

from __future__ import annotations

import pytest
from answers import BASE, CANNOT_MEASURE, HUGE, MIB, added, code, document, page_bytes, said
from machine import Results

# Of Neoverse V2, as data/machines has it.
STLB_ENTRIES = 2048


def test_a_cycle_of_more_pages_than_entries_misses_every_time(either: Results) -> None:
    # Ten rounds more. Its 16 MiB are eight huge pages.
    assert added(either, "many") == {BASE: 10 * 4096, HUGE: 0}


def test_too_few_references_for_a_window_have_no_time(either: Results) -> None:
    assert "NOT KNOWN: no times could be modelled; misses alone are known." in said(either, "many")
    (machine,) = document(either, "many")["machines"]
    assert machine["no_times"]
    assert all(size["expected_gain_fraction"] is None for size in machine["page_sizes"])


def test_maps_has_the_sizes_of_this_kernel(either: Results) -> None:
    base, _ = page_bytes(either)
    seen = document(either, "maps")
    assert seen["machine"]["base_page_bytes"] == base
    (process,) = seen["processes"]
    assert process["program"] == "/usr/local/bin/chase"
    largest = max(area["resident_bytes"] for area in process["areas"])
    assert largest >= 256 * MIB


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


def test_without_costs_there_is_no_estimate(either: Results) -> None:
    assert code(either, "estimate") == CANNOT_MEASURE
    assert "cannot calibrate: this CPU is emulated (" in said(either, "estimate")
    assert "NA" not in either.text("estimate.out")


def test_a_random_chase_hits_by_the_share_of_pages_that_the_tlb_holds(either: Results) -> None:
    found = added(either, "chase")
    assert found[BASE] == pytest.approx(100_000 * (1 - STLB_ENTRIES / 16384), rel=0.02)
    assert found[HUGE] == 0


def test_windows_have_times_of_the_published_core(either: Results) -> None:
    (machine,) = document(either, "chase-more")["machines"]
    assert not machine["no_times"]
    base, huge = machine["page_sizes"]
    assert base["time_ratio"]["value"] == 1
    assert huge["time_ratio"]["low"] <= huge["time_ratio"]["value"] <= huge["time_ratio"]["high"]


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
