# SPDX-License-Identifier: GPL-2.0-or-later
"""Is each form of printed counts read as it was meant, and only added up what belongs together?"""

from __future__ import annotations

import pytest
from builders.counting import CSV, read, value
from builders.tree import GOLDEN, fails
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.counters.event_counts import EventCount
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
    [("per-cpu.csv", 3895 + 13664), ("per-cpu.json", 3909 + 13661), ("per-cpu.txt", 3953 + 13632),
     ("per-socket.csv", 17585), ("per-socket.txt", 26472), ("per-thread.csv", 153),
     ("per-thread.json", 0), ("per-thread.txt", 152)],
)  # fmt: skip
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


def test_json_in_which_a_counter_never_ran() -> None:
    found = read(
        '{"counter-value" : "<not counted>", "unit" : "", "event" : "cycles:k", '
        '"event-runtime" : 0, "pcnt-running" : 0.00}\n'
        '{"counter-value" : "12.000000", "unit" : "", "event" : "r1008:k", '
        '"event-runtime" : 10, "pcnt-running" : 40.00}\n'
        '{"metric-value" : 0.5, "metric-unit" : "insn per cycle"}\n'
    )
    assert found.mode == "kernel"
    assert found.counts[0].state == "never_ran"
    assert found.counts[1] == EventCount(
        "walk_pending_cycles.load", "r1008:k", 12, 0.4, "multiplexed"
    )


TEXT = """\
some output of the program
 Performance counter stats for './app 1':

 {cycles}      cycles:u                                   ( +-  0.09% )  (83.33%)
          12{s}345      dTLB-load-misses:u   #    0.07% of all dTLB cache accesses  (66.67%)
     <not counted>      dtlb_store_misses.walk_active:u              (0.00%)
   <not supported>      itlb_misses.walk_active:u
          1{s}708{d}76 msec task-clock                #    0{d}942 CPUs utilized

       5{d}098921965 seconds time elapsed

       4{d}058054000 seconds user
       1{d}040436000 seconds sys

Some events weren't counted. Try disabling the NMI watchdog:
\techo 0 > /proc/sys/kernel/nmi_watchdog
\tperf stat ...
\techo 1 > /proc/sys/kernel/nmi_watchdog
"""


@pytest.mark.parametrize(
    ("s", "d"),
    [(",", "."), (".", ","), ("\u202f", ","), ("\u00a0", ","), ("\u2019", "."), ("'", "."),
     ("", ".")],
)  # fmt: skip
def test_separators_of_other_countries(s: str, d: str) -> None:
    text = TEXT.replace("{cycles}", s.join(["5", "205", "202", "243"]))
    found = read(text.replace("{s}", s).replace("{d}", d))
    assert value(found, "cycles:u") == 5205202243
    assert found.values()["walks_completed.load"] == 12345
    assert found.values()["task_clock_ns"] == 1708760000
    assert (found.wall_ns, found.user_ns, found.system_ns) == (5098921965, 4058054000, 1040436000)
    assert (found.mode, found.command) == ("user", "./app 1")
    fractions = [count.running_fraction for count in found.counts]
    assert fractions == [0.8333, 0.6667, None, None, 1.0]
    assert [count.state for count in found.counts[2:4]] == ["never_ran", "unsupported"]
    assert "lines left out before perf's output: 1" in found.notes


def test_the_first_perf_printed_milliseconds_without_saying_so() -> None:
    found = read(
        " Performance counter stats for './hackbench 10':\n\n"
        "       1708.761321 task-clock                #   11.037 CPUs utilized\n"
        "     5,205,202,243 cycles                    #    3.046 GHz\n"
        "       1708.761321 cpu-clock (msec)\n"
    )
    assert found.values()["task_clock_ns"] == 1708761321
    assert found.values()["cycles"] == 5205202243


def test_counts_of_a_process_are_not_said_to_be_a_programs() -> None:
    found = read(" Performance counter stats for process id '14439':\n\n  5      page-faults\n")
    assert found.command is None
    assert any("process id '14439" in note for note in found.notes)


def test_intervals_for_people_and_their_summary() -> None:
    found = read(
        "#           time             counts unit events\n"
        "     1.000     1,000      cycles\n     2.000     1,200      cycles\n"
        " Performance counter stats for './app':\n\n     2,200      cycles\n"
        "       2.1 seconds time elapsed\n"
    )
    assert value(found, "cycles") == 2200
    assert found.wall_ns == 2100000000


LISTING = """\
CPU: Core 2, speed 2000 MHz (estimated)
Counted CPU_CLK_UNHALTED events (Clock cycles when not halted) with a unit mask of 0x00 (none) count 100
   samples|      %|
------------------
     27850 65.2133 /usr/bin/app with spaces
      9345 21.8821 vmlinux
\t  samples|      %|
\t------------------
\t     9000 96.3 libc.so
"""  # noqa: E501


def test_a_listings_object_is_named_or_the_one_with_most_cycles() -> None:
    found = read(LISTING, None)
    assert found.values()["cycles"] == 2785000
    assert found.notes[0] == (
        "/usr/bin/app with spaces is taken, with 27850 samples of CPU_CLK_UNHALTED; "
        "objects listed: 2"
    )
    assert read(LISTING, None, "vmlinux").values()["cycles"] == 934500
    assert read(LISTING, None, "app with spaces").values()["cycles"] == 2785000
    with fails("no object 'x'", USAGE):
        read(LISTING, None, "x")


def test_a_listing_of_symbols_is_no_listing_of_objects() -> None:
    with pytest.raises(TlbcostError, match="file:5: expected samples"):
        read(LISTING.replace("27850 65", "00401000 27850 65"), None)
    with pytest.raises(TlbcostError, match="file:3: expected a listing of objects"):
        read(
            LISTING.replace("   samples|      %|", "vma  samples  %  image name  symbol name", 1),
            None,
        )
