# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the output of perf stat for people read as it was meant?"""

from __future__ import annotations

import pytest
from builders.imported_counts import read, value

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
    [
        (",", "."),
        (".", ","),
        ("\u202f", ","),
        ("\u00a0", ","),
        ("\u2019", "."),
        ("'", "."),
        ("", "."),
    ],
)
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
