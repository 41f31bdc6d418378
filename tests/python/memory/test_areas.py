# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the mappings of a process put together by kind and name, and compared with the TLB?"""

from __future__ import annotations

import pytest
from builders.answer import GEOMETRY
from builders.memory import HUGE, SETTINGS
from tlbcost.common.errors import TlbcostError
from tlbcost.memory import smaps
from tlbcost.memory.areas import areas_of, reaches_of
from tlbcost.memory.peak import MemoryPart, PeakMemory
from tlbcost.memory.process import look

REACHES = reaches_of(GEOMETRY)
SMAPS = """\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
KernelPageSize:        4 kB
Rss:                4096 kB
Referenced:         1024 kB
AnonHugePages:      2048 kB
THPeligible:           0
VmFlags: rd wr mr mw me ac
7f1000000000-7f1000800000 rw-p 00000000 00:00 0
KernelPageSize:        4 kB
Rss:                8192 kB
Referenced:         8192 kB
AnonHugePages:         0 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac hg
7fff00000000-7fff00002000 r-xp 00000000 00:00 0                          [vdso]
KernelPageSize:        4 kB
Rss:                   8 kB
Referenced:            8 kB
THPeligible:           0
VmFlags: rd ex mr mw me de
"""


def test_mappings_of_one_kind_and_name_are_one_area() -> None:
    (area,) = areas_of(smaps.parse(SMAPS), SETTINGS, REACHES)
    assert (area.kind, area.name, area.mappings) == ("anonymous", smaps.UNNAMED, 2)
    assert (area.resident_bytes, area.huge_bytes) == (12 << 20, HUGE)
    # The larger one, of which nothing is on huge pages, is what the area's reason is about.
    assert (area.start, area.reason) == (0x7F1000000000, "later")
    assert area.eligible_bytes == 8 << 20
    assert area.touched_bytes is None
    assert area.used_bytes == area.resident_bytes


def test_what_was_watched_is_compared_by_what_was_touched() -> None:
    (area,) = areas_of(smaps.parse(SMAPS), SETTINGS, REACHES, watched=True)
    assert area.touched_bytes == area.used_bytes == 9 << 20
    base, huge = (each.reach_bytes for each in REACHES)
    share = 2 / 12
    assert area.reach_ratio == (9 << 20) * (share / huge + (1 - share) / base)
    assert area.exceeds_reach == (area.reach_ratio > 1)


def test_a_process_that_is_not_there() -> None:
    with pytest.raises(TlbcostError, match="there is no process") as raised:
        look(2**31 - 2, reaches_of(GEOMETRY))
    assert raised.value.exit_code == 1


def test_what_a_method_reaches() -> None:
    backing = PeakMemory(
        100, 30, 0, 0, 0, {65536: 10}, (
            MemoryPart("[bss]", "segment", 40, 0),
            MemoryPart("[heap]", "heap", 50, 30),
            MemoryPart("/lib", "file", 10, 0),
        ), 1,
    )  # fmt: skip
    assert backing.huge_bytes == 40
    assert backing.covered_fraction == pytest.approx(0.4)
    assert backing.reached_fraction("malloc") == pytest.approx(0.8)
    assert backing.reached_fraction("segments") == 0
    assert backing.reached_fraction("shared") is None, "there is none, and no share of it"
