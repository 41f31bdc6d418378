# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the output of perf stat -x read as it was meant?"""

from __future__ import annotations

import pytest
from builders.imported_counts import read, value
from tlbcost.counters.event_counts import EventCount

CSV = """\
1000000000,,cycles:u,400000000,100.00,,
300000000,,dtlb_load_misses.walk_active:u,300000000,75.00,,
<not counted>,,dtlb_store_misses.walk_active:u,0,0.00,,
<not supported>,,itlb_misses.walk_active:u,0,100.00,,
"""


def test_hardware_counts_are_roles_with_their_states() -> None:
    found, role = read(CSV), "walk_active_cycles"
    assert found.pmu == "skl"
    assert found.mode == "user"
    assert found.counts == (
        EventCount("cycles", "cycles:u", 1e9, 1.0, "counted"),
        EventCount(f"{role}.load", "dtlb_load_misses.walk_active:u", 3e8, 0.75, "multiplexed"),
        EventCount(f"{role}.store", "dtlb_store_misses.walk_active:u", None, None, "never_ran"),
        EventCount(f"{role}.fetch", "itlb_misses.walk_active:u", None, None, "unsupported"),
    )  # fmt: skip


@pytest.mark.parametrize("sign", [",", ";", "|", "\t", "!", "@", "^", "~"])
def test_any_separator(sign: str) -> None:
    assert read(CSV.replace(",", sign)).counts == read(CSV).counts


def test_an_event_may_have_the_separator_in_its_name() -> None:
    event = "cpu/event=0x08,umask=0x10,cmask=0x1/u"
    found = read(f"1000,,cycles:u,1,100.00,,\n77,,{event},123,66.67,169.9,K/sec\n")
    assert found.counts[1] == EventCount(
        "walk_active_cycles.load", event, 77, 0.6667, "multiplexed"
    )


def test_lines_of_metrics_alone_are_passed_over() -> None:
    found = read(f"{CSV},,,,,0.54,insn per cycle\n")
    assert found.counts == read(CSV).counts


def test_the_sum_below_the_intervals_is_not_added_to_them() -> None:
    found = read(
        "     0.020085257,74,,page-faults,483704,100.00,,\n"
        "     0.040323475,<not counted>,,page-faults,0,100.00,,\n"
        "     0.051177205,3,,page-faults,45250,100.00,,\n"
        "         summary,77,,page-faults,528954,100.00,,\n"
    )
    # Nothing ran in the second interval, so that nothing could be counted.
    assert value(found, "page-faults") == 77
    assert found.wall_ns == 51177205


def test_a_decimal_comma_between_commas_is_one() -> None:
    found = read("0,29,msec,task-clock,294252,100,00,0,294,CPUs utilized\n")
    assert found.counts[0].value == 290000
    assert found.counts[0].running_fraction == 1.0
