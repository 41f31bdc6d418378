# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a table of counts read as it was written?"""

from __future__ import annotations

from dataclasses import fields

import pytest
from builders.imported_counts import read
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.event_counts import EventCount, merge_sources
from tlbcost.system.machine import Machine

TABLE = """\
# tlbcost counted 1
# pmu: skl
# mode: user
# wall_ns: 5000
# user_ns: NA
# command: ./app
# note_1: a sentence
role\taccess\tpage_size_bytes\tevent\tcount\trunning_fraction\trun\tstate
cycles\tNA\tNA\tskl::UNHALTED_CORE_CYCLES\t100\t1\t0\tcounted
walks_completed\tload\t2097152\tr0408\t7\t0.5\t1\tmultiplexed
NA\tNA\tNA\tfoo\tNA\tNA\t1\tnever_ran
# end: 3
"""


def test_our_own_table() -> None:
    found = read(TABLE, None)
    assert (found.pmu, found.mode, found.wall_ns, found.user_ns) == ("skl", "user", 5000, None)
    assert (found.command, found.notes) == ("./app", ("a sentence",))
    assert found.counts == (
        EventCount("cycles", "skl::UNHALTED_CORE_CYCLES", 100, 1, "counted", 0),
        EventCount("walks_completed.load.2M", "r0408", 7, 0.5, "multiplexed", 1),
        EventCount(None, "foo", None, None, "never_ran", 1),
    )


def test_our_own_table_tells_the_machine() -> None:
    header = {field.name: "NA" for field in fields(Machine)}
    header |= {"cpu_name": "A CPU", "base_page_bytes": "4096"}
    lines = [f"# {key}: {value}" for key, value in header.items()]
    head, rest = TABLE.split("\n", 1)
    found = read("\n".join([head, *lines, rest]), None)
    assert found.machine is not None
    assert (found.machine.cpu_name, found.machine.base_page_bytes) == ("A CPU", 4096)
    assert merge_sources([found, found]).machine == found.machine
    with pytest.raises(TlbcostError, match="no '# kernel:' line"):
        read("\n".join([head, *(line for line in lines if "kernel" not in line), rest]), None)


@pytest.mark.parametrize(
    ("old", "new"),
    [("counted\n", "lost\n"), ("mode: user", "mode: mine"), ("2097152", "3"), ("\t0.5", "\t5"),
     ("100\t1\t0", "-1\t1\t0"), ("1\tmulti", "NA\tmulti"), ("end: 3", "end: 4")],
)  # fmt: skip
def test_a_broken_table_is_refused(old: str, new: str) -> None:
    assert old in TABLE
    with pytest.raises(TlbcostError, match="file"):
        read(TABLE.replace(old, new), None)
