# SPDX-License-Identifier: GPL-2.0-or-later
"""Do parts and intervals add up, and only what belongs together?"""

from __future__ import annotations

import pytest
from builders.imported_counts import read, value
from builders.tree import GOLDEN
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.importing.file import import_file


@pytest.mark.parametrize("suffix", ["csv", "json", "txt"])
def test_repeated_runs_are_means_and_said_so(suffix: str) -> None:
    found = import_file(GOLDEN / f"perf-repeat.{suffix}", None)
    assert found.values()["page_faults"] == {"csv": 17546, "json": 17563, "txt": 17549}[suffix]
    assert any("means over" in note for note in found.notes)


@pytest.mark.parametrize("suffix", ["csv", "json", "txt"])
def test_intervals_are_added_up_and_end_with_the_program(suffix: str) -> None:
    found = import_file(GOLDEN / f"perf-interval.{suffix}", None)
    assert found.values()["page_faults"] == {"csv": 17552, "json": 17568, "txt": 17547}[suffix]
    wall = {"csv": 96269859, "json": 96764390, "txt": 97608104}[suffix]
    assert found.wall_ns == wall
    assert value(found, "cycles") is None


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("per-cpu.csv", 3895 + 13664),
        ("per-cpu.json", 3909 + 13661),
        ("per-cpu.txt", 3953 + 13632),
        ("per-socket.csv", 17585),
        ("per-socket.txt", 26472),
        ("per-thread.csv", 153),
        ("per-thread.json", 0),
        ("per-thread.txt", 152),
    ],
)
def test_the_parts_of_a_machine_are_added_up(name: str, faults: int) -> None:
    # The threads' clocks were counted in user mode: a kernel's count has no mode of its own.
    found = import_file(GOLDEN / f"perf-{name}", None)
    assert found.values()["page_faults"] == faults
    assert value(found, "cycles") is None
    if "cpu" in name:
        assert "counts of 2 CPUs, sockets or threads are added up" in found.notes


def test_a_part_that_was_not_counted_leaves_no_sum() -> None:
    found = read(
        "CPU0,100,,cycles,1,100.00,,\nCPU1,100,,cycles,1,100.00,,\n"
        "CPU0,7,,r1001008,1,100.00,,\nCPU1,<not counted>,,r1001008,0,0.00,,\n"
    )
    assert value(found, "cycles") == 200
    assert value(found, "r1001008") is None
    assert any("1 of 2 parts" in note for note in found.notes)


def test_cgroups_are_no_parts() -> None:
    text = "80,,page-faults,/a,46799,100.00,0.000,/sec\n1,,page-faults,/b,5,100.00,,\n"
    with pytest.raises(TlbcostError, match="several: /a; /b"):
        read(text)
    assert value(read(text, object_name="/b"), "page-faults") == 1


def test_an_event_in_two_groups_is_not_added_to_itself() -> None:
    found = read("100,,cycles,5,50.00,,\n7,,r1008,5,50.00,,\n102,,cycles,5,50.00,,\n")
    assert found.values()["cycles"] == 101


def test_durations_counted_as_events_are_the_times() -> None:
    found = read("691674,ns,duration_time,691674,100.00,,\n976000,ns,user_time,976000,100.00,,\n")
    assert (found.wall_ns, found.user_ns, found.system_ns) == (691674, 976000, None)


def test_a_zero_of_a_counter_that_never_ran_is_not_a_count() -> None:
    found = read("0,,cycles,0,0.00,,\n")
    assert found.counts[0].value is None
    assert found.counts[0].state == "never_ran"


def test_counts_of_different_modes_are_refused() -> None:
    with pytest.raises(TlbcostError, match="user mode") as error:
        read("5,,cycles,1,100.00,,\n5,,r1008:u,1,100.00,,\n")
    assert error.value.hint is not None
    # The kernel's own counts, and events without a role, do not matter.
    assert read("5,,cycles:u,1,100.00,,\n5,,page-faults,1,100,,\n5,,foo,1,100,,\n").mode == "user"
