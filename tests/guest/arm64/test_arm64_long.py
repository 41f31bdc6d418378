# SPDX-License-Identifier: GPL-2.0-or-later
"""What takes an emulated arm64 machine minutes: make check-arm64."""

from __future__ import annotations

import pytest
from answers import BASE, CANNOT_MEASURE, HUGE, added, code, document, said
from machine import Results

# Of Neoverse V2, as data/machines has it.
STLB_ENTRIES = 2048


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
