# SPDX-License-Identifier: GPL-2.0-or-later
"""Does tlbcost-count report what a kernel with counters of TLB misses counts?

The emulated TLB is flushed at each switch of processes, holds a few hundred pages at first and
grows when it is full at a flush, whatever their size: what is asserted are misses of a program
that visits more pages than that for the first time, in random order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from machine import Results
from tlbcost.common import formats
from tlbcost.common.formats import Table, count, parse_table
from tlbcost.counters.count_report import mark_silent
from tlbcost.counters.count_tool import parse_readings
from tlbcost.processors.events import all_pmus, generic_pmu

LOADS = 200_000
PAGES = 16_384
# Beyond the program's own: the C library's, the loader's and the kernel's on its behalf, and those
# of pages that are visited again after a switch. A hundredth of LOADS.
FEW = 2000
# Threads that share a processor, as they do on a busy host, find pages that the other visited: of
# their misses 5 % were seen to go.
OF_THREADS = 0.25
ALL = ("cycles", "instructions", "dtlb_load_misses", "dtlb_store_misses", "itlb_misses")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a counters table."""

    event: str
    group: int | None
    count: int | None
    enabled_ns: int | None
    running_ns: int | None
    state: str
    errno: int | None
    encoded_by: str | None


def table(results: Results, name: str) -> Table:
    assert not results.text(f"{name}.err"), results.text(f"{name}.err")
    return parse_table(results.text(f"{name}.tsv"), f"{name}.tsv", formats.COUNTERS)


def rows(results: Results, name: str) -> list[Row]:
    return [
        Row(
            event=str(cells["event"]),
            state=str(cells["state"]),
            encoded_by=cells["encoded_by"],
            **{
                key: count(cells[key])
                for key in ("group", "count", "enabled_ns", "running_ns", "errno")
            },
        )
        for cells in table(results, name).records()
    ]


def counts(results: Results, name: str) -> dict[str, int]:
    """Counts by event of a run in which all were obtained, all the time."""
    found = {}
    for row in rows(results, name):
        assert row.state == "counted", row
        assert row.count is not None
        assert row.enabled_ns == row.running_ns
        found[row.event] = row.count
    return found


def code(results: Results, name: str) -> int:
    return int(results.text(f"{name}.code"))


def test_the_machine_has_the_counters_that_the_tests_are_about(counting: Results) -> None:
    assert "cpu" in counting.text("sources.out").split()
    assert [row.state for row in rows(counting, "probe")] == ["counted"] * len(ALL)
    assert table(counting, "probe").header["scope"] == "probe"


def test_a_first_visit_in_random_order_misses_once_per_load(counting: Results) -> None:
    without, done = counts(counting, "none"), counts(counting, "loads")
    assert done["dtlb_load_misses"] - without["dtlb_load_misses"] == pytest.approx(LOADS, abs=FEW)
    assert done["dtlb_store_misses"] == pytest.approx(without["dtlb_store_misses"], abs=FEW)
    assert done["itlb_misses"] == pytest.approx(without["itlb_misses"], abs=FEW)
    # Both are the host's time in this emulator.
    assert done["instructions"] > 0
    assert done["cycles"] > 0


def test_each_page_visited_once_is_one_miss(counting: Results) -> None:
    misses = counts(counting, "once")["dtlb_load_misses"]
    assert misses >= PAGES
    assert misses - counts(counting, "none")["dtlb_load_misses"] == pytest.approx(PAGES, abs=FEW)


def test_pages_within_reach_miss_hardly_ever(counting: Results) -> None:
    assert 16 <= counts(counting, "near")["dtlb_load_misses"] < FEW


def test_stores_are_counted_apart_from_loads(counting: Results) -> None:
    without, done = counts(counting, "none"), counts(counting, "stores")
    assert done["dtlb_store_misses"] - without["dtlb_store_misses"] == pytest.approx(LOADS, abs=FEW)
    # The order to store in is read from the ring once, a load of each page.
    assert done["dtlb_load_misses"] - without["dtlb_load_misses"] == pytest.approx(PAGES, rel=0.1)


def test_fresh_pages_miss_at_least_once_each(counting: Results) -> None:
    assert 5000 <= counts(counting, "cold")["dtlb_store_misses"] < 2 * 5000 + FEW


def test_user_and_kernel_add_up_to_both(counting: Results) -> None:
    user, kernel, both = (counts(counting, name) for name in ("loads", "kernel", "both"))
    # The emulator's clock and instructions are of the host, and know no modes.
    for event in ALL[2:]:
        assert kernel[event] > 0
        # QEMU 11 has so few misses of the iTLB that those of other processes show.
        together = user[event] + kernel[event]
        assert both[event] == pytest.approx(together, rel=0.2, abs=FEW / 2)
    assert both["dtlb_load_misses"] > user["dtlb_load_misses"] + FEW
    modes = [table(counting, name).header["mode"] for name in ("loads", "kernel", "both")]
    assert modes == ["user", "kernel", "both"]


def test_a_group_is_counted_at_the_same_time(counting: Results) -> None:
    together = rows(counting, "loads")
    assert {row.event for row in together} == set(ALL)
    assert len({(row.group, row.enabled_ns, row.running_ns) for row in together}) == 1


@pytest.mark.parametrize(("name", "by"), [("loads", "libpfm4"), ("by-code", "code"),
                                          ("second-choice", "code")])  # fmt: skip
def test_a_code_counts_what_the_name_counts(counting: Results, name: str, by: str) -> None:
    (row,) = (row for row in rows(counting, name) if row.event == "dtlb_load_misses")
    assert row.encoded_by == by
    assert row.count == pytest.approx(counts(counting, "loads")["dtlb_load_misses"], abs=FEW)


@pytest.mark.parametrize(("name", "times"), [("children", 3), ("threads", 2), ("grandchild", 1)])
def test_children_and_threads_are_counted_with_their_parent(
    counting: Results, name: str, times: int
) -> None:
    misses = counts(counting, name)["dtlb_load_misses"]
    made = counts(counting, "none")["dtlb_load_misses"]
    share = OF_THREADS if name == "threads" else None
    assert misses - made == pytest.approx(times * LOADS, rel=share, abs=2 * FEW)


def test_without_inheritance_the_children_are_left_out(counting: Results) -> None:
    made = counts(counting, "none")["dtlb_load_misses"]
    assert counts(counting, "parent")["dtlb_load_misses"] == pytest.approx(made, abs=FEW)


def test_the_program_keeps_its_output_and_exit_code(counting: Results) -> None:
    assert re.fullmatch(r"checksum [0-9a-f]{16}\n", counting.text("loads.out"))
    assert code(counting, "loads") == 0
    assert code(counting, "grandchild") == 3


def test_the_run_is_reported_too(counting: Results) -> None:
    (run,) = parse_table(counting.text("loads.run.tsv"), "run", formats.RUN).records()
    faults = count(run["minor_faults"])
    assert faults is not None
    assert faults >= PAGES
    assert run["exit_code"] == "0"


@pytest.mark.parametrize(("name", "threads"), [("attached", 1), ("attached-threads", 2)])
def test_attaching_counts_from_then_on(counting: Results, name: str, threads: int) -> None:
    # Neither the making of the pages before, nor of the threads.
    share = OF_THREADS if threads > 1 else None
    misses = counts(counting, name)["dtlb_load_misses"]
    assert misses == pytest.approx(threads * LOADS, rel=share, abs=FEW)
    assert table(counting, name).header["scope"] == "process"


def test_the_whole_machine_counts_what_the_program_does(counting: Results) -> None:
    assert table(counting, "system").header["scope"] == "system"
    assert table(counting, "system").header["cpus"] == "2"
    made = counts(counting, "none")["dtlb_load_misses"]
    assert counts(counting, "system")["dtlb_load_misses"] >= made + LOADS - FEW


def test_a_cgroup_counts_its_own_processes_alone(counting: Results) -> None:
    assert table(counting, "cgroup").header["scope"] == "cgroup"
    alone = counts(counting, "loads")["dtlb_load_misses"]
    assert counts(counting, "cgroup")["dtlb_load_misses"] == pytest.approx(alone, abs=2 * FEW)
    # Nothing of another cgroup: it is empty, so that no counter ever ran.
    for row in rows(counting, "other-cgroup"):
        assert (row.state, row.count) in {("never_ran", None), ("counted", 0)}


def test_intervals_add_up_to_the_whole(counting: Results) -> None:
    parts = [row for row in rows(counting, "intervals") if row.event == "dtlb_load_misses"]
    assert len(parts) > 1
    whole = counts(counting, "loads")["dtlb_load_misses"]
    assert sum(row.count or 0 for row in parts) == pytest.approx(whole, abs=FEW)
    ends = [count(cells["end_ns"]) for cells in table(counting, "intervals").records()]
    assert ends == sorted(ends, key=lambda end: end or 0)


def test_more_events_than_counters_share_the_time(counting: Results) -> None:
    shared = rows(counting, "multiplexed")
    assert len({row.group for row in shared}) >= 24 // 4
    assert {row.event for row in shared} >= {f"{name}_8" for name in ("load", "store", "fetch")}
    assert {row.state for row in shared} == {"multiplexed"}
    for row in shared:
        assert row.running_ns is not None
        assert row.enabled_ns is not None
        assert 0 < row.running_ns < row.enabled_ns


def test_a_group_that_is_too_large_has_no_counts(counting: Results) -> None:
    # This driver takes it, and then never finds counters for all of it at once.
    crowded = rows(counting, "crowded")
    assert len(crowded) == 24
    assert {(row.state, row.count) for row in crowded} <= {("never_ran", None), ("left_over", None)}


def test_what_does_not_fit_is_left_for_another_run(counting: Results) -> None:
    by_state: dict[str, list[Row]] = {}
    for row in rows(counting, "left-over"):
        by_state.setdefault(row.state, []).append(row)
    # Two counters, and those that cycles and instructions have of their own.
    assert [row.event for row in by_state["counted"]] == list(ALL[:4])
    (left,) = by_state["left_over"]
    assert left == Row("itlb_misses", None, None, None, None, "left_over", None, "libpfm4")


def test_an_event_that_the_processor_lacks_is_unsupported_and_never_zero(counting: Results) -> None:
    branches, *others = sorted(rows(counting, "unsupported"), key=lambda row: row.event)
    assert (branches.event, branches.state, branches.count) == ("branches", "unsupported", None)
    assert branches.errno == 2
    assert [row.state for row in others] == ["counted"] * 3
    assert code(counting, "unsupported") == 0


def test_nothing_runs_where_nothing_can_be_counted(counting: Results) -> None:
    assert code(counting, "nothing") == 4
    assert not counting.text("nothing.out")
    assert "tlbcost: " in counting.text("nothing.err")


def test_a_counter_that_opened_and_never_ran_has_no_count(counting: Results) -> None:
    (row,) = rows(counting, "never")
    assert (row.state, row.count, row.running_ns) == ("never_ran", None, 0)
    assert row.enabled_ns


def test_in_a_group_with_such_a_counter_none_has_a_count_that_did_not_run(
    counting: Results,
) -> None:
    # The leader's count is not 0 although it ran for no time: it is not available either.
    for row in rows(counting, "never-with-others"):
        assert (row.state == "counted") == (row.running_ns == row.enabled_ns)
        assert (row.count is None) == (row.running_ns == 0)
    assert {row.state for row in rows(counting, "never-with-others") if row.event == "never"} == {
        "never_ran"
    }


def test_a_second_counter_of_one_event_is_no_count(counting: Results) -> None:
    readings = parse_readings(counting.text("twice.tsv"), "twice")
    found = mark_silent({reading.event: reading for reading in readings}, generic_pmu())
    assert (found["again"].state, found["again"].count) == ("silent", None)
    assert found["dtlb_load_misses"].state == "counted"


def test_a_second_counter_of_one_event_is_never_asked_for(counting: Results) -> None:
    # Here it runs all the time and reads 0, which nothing tells from a count...
    first, again = rows(counting, "twice")
    assert first.count == pytest.approx(counts(counting, "loads")["dtlb_load_misses"], abs=FEW)
    assert again.count in (0, first.count)
    # ...so that no CPU's table has two names for one event.
    for pmu in all_pmus():
        codes = [(event.type, event.code, event.config1) for event in pmu.events]
        assert len(codes) == len(set(codes)), pmu.key


@pytest.mark.parametrize("level", [4, 3])
@pytest.mark.parametrize("mode", ["user", "kernel"])
def test_a_user_is_told_that_counting_is_forbidden(
    counting: Results, level: int, mode: str
) -> None:
    name = f"paranoid-{level}--{mode}-only"
    assert code(counting, name) == 4
    assert not counting.text(f"{name}.out")
    assert "forbidden (Permission denied)" in counting.text(f"{name}.err")


@pytest.mark.parametrize("level", [2, 1])
def test_a_user_counts_his_own_programs(counting: Results, level: int) -> None:
    assert 16 <= counts(counting, f"paranoid-{level}--user-only")["dtlb_load_misses"] < FEW
    kernel = f"paranoid-{level}--kernel-only"
    assert code(counting, kernel) == (4 if level == 2 else 0)
    if level == 2:
        assert "forbidden (Permission denied)" in counting.text(f"{kernel}.err")


def test_what_counting_takes_is_reported(counting: Results) -> None:
    """Of the time, nothing is asserted; it is printed (pytest -rA)."""
    wall: dict[str, list[int]] = {"off": [], "on": []}
    for way, times in wall.items():
        for i in range(1, 6):
            text = counting.text(f"{way}-{i}.run.tsv")
            (run,) = parse_table(text, "run", formats.RUN).records()
            times.append(count(run["wall_ns"]) or 0)
            assert times[-1] > 0
        print(f"counting {way}: {' '.join(f'{ns / 1e6:.0f}' for ns in sorted(times))} ms")
