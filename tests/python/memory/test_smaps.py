# SPDX-License-Identifier: GPL-2.0-or-later
"""Are mappings read as the kernel wrote them, put together, and what would khugepaged add?"""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from builders.answer import GEOMETRY
from builders.memory import HUGE, SETTINGS
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.memory import smaps
from tlbcost.memory.areas import areas_of, reaches_of
from tlbcost.memory.peak import MemoryPart, PeakMemory
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.memory.smaps import Mapping
from tlbcost.memory.waste import khugepaged_adds
from tlbcost.system import huge_pages

SMAPS = """\
00400000-00500000 rw-p 00000000 fe:00 247026                     /opt/a program
Rss:                  64 kB
THPeligible:           0
00500000-06500000 rw-p 00000000 00:00 0
Rss:                1024 kB
Anonymous:          1024 kB
AnonHugePages:         0 kB
THPeligible:           1
07000000-07200000 rw-p 00000000 00:00 0                          [heap]
Rss:                2048 kB
AnonHugePages:      2048 kB
THPeligible:           1
7f0004000000-7f0004800000 rw-p 00000000 00:00 0
Rss:                8192 kB
THPeligible:           1
7f0004800000-7f0008000000 ---p 00000000 00:00 0
Rss:                   0 kB
7f0008000000-7f000c000000 rw-p 00000000 00:00 0
Rss:               65536 kB
7f1000000000-7f1000400000 rw-p 00000000 00:0f 99                 /anon_hugepage (deleted)
Rss:                   0 kB
KernelPageSize:     2048 kB
Private_Hugetlb:    4096 kB
7f2000000000-7f2000400000 rw-p 00000000 00:0f 99                 /mnt/huge/x (deleted)
Private_Hugetlb:    2048 kB
7f3000000000-7f3000400000 rw-s 00000000 00:0f 99                 /SYSV00000000 (deleted)
Shared_Hugetlb:     4096 kB
7f4000000000-7f4000400000 rw-s 00000000 00:01 99                 /dev/zero (deleted)
Rss:                4096 kB
ShmemPmdMapped:     2048 kB
7f5000000000-7f5000400000 r-xp 00000000 fe:00 99                 /usr/lib/libbig.so
Rss:                4096 kB
FilePmdMapped:      4096 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]
Rss:                  16 kB
"""


def test_kinds_and_sizes() -> None:
    found = smaps.parse(SMAPS, "/opt/a program")
    assert [(m.kind, m.name, m.resident_bytes >> 10, m.huge_bytes >> 10) for m in found] == [
        ("segment", "/opt/a program", 64, 0),
        ("segment", smaps.BSS, 1024, 0),
        ("heap", "[heap]", 2048, 2048),
        ("anonymous", smaps.ARENA, 8192, 0),
        ("anonymous", smaps.UNNAMED, 0, 0),
        ("anonymous", smaps.ARENA, 65536, 0),
        ("anonymous", "/anon_hugepage (deleted)", 4096, 4096),
        ("segment", "/mnt/huge/x (deleted)", 2048, 2048),
        ("shared", "/SYSV00000000 (deleted)", 4096, 4096),
        ("shared", "/dev/zero (deleted)", 4096, 2048),
        ("file", "/usr/lib/libbig.so", 4096, 4096),
        ("stack", "[stack]", 16, 0),
    ]
    assert found[0].eligible is False
    assert found[1].eligible is True
    assert found[5].eligible is None, "a kernel that does not say so is not one that refuses"


def test_an_arena_of_parts_is_an_arena() -> None:
    """glibc 2.43 with glibc.malloc.hugetlb=1."""
    found = smaps.parse(
        "7f0010000000-7f0010200000 rw-p 00000000 00:00 0\nRss: 2048 kB\n"
        "7f0010200000-7f0012200000 rw-p 00000000 00:00 0\nRss: 30724 kB\n"
        "7f0012200000-7f0014000000 ---p 00000000 00:00 0\nRss: 0 kB\n"
        "7f0014200000-7f0014400000 rw-p 00000000 00:00 0\nRss: 4 kB\n"
        "7f0018000000-7f0018200000 rw-p 00000000 00:00 0\nRss: 2048 kB\n"
        "7f0018200000-7f001c000000 rw-p 00000000 00:00 0\nRss: 63488 kB\n"
    )
    names = [mapping.name for mapping in found if mapping.resident_bytes]
    assert names == [smaps.ARENA, smaps.ARENA, smaps.UNNAMED, smaps.ARENA, smaps.ARENA]


@pytest.mark.long
def test_of_a_process_that_ends_while_it_is_read_nothing_is_taken_for_the_whole() -> None:
    whole = ended = 0
    for _ in range(60):
        pid = os.fork()
        if pid == 0:
            memory = mmap.mmap(-1, 40 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for at in range(0, len(memory), 4096):
                memory[at] = 1
            time.sleep(0.002)
            os._exit(0)
        try:
            while text := smaps.read(pid):
                assert "[stack]" in text
                whole += 1
        except ProcessLookupError:
            ended += 1
        finally:
            os.waitpid(pid, 0)
    # What is left is a zombie, whose smaps is empty.
    assert whole > 0
    assert ended > 0


LINES = SMAPS.splitlines()


@given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=80))))
def test_any_lines_are_survived(lines: list[str]) -> None:
    for mapping in smaps.parse("\n".join(lines), "/opt/a program"):
        assert mapping.resident_bytes >= 0
        assert mapping.huge_bytes >= 0


REACHES = reaches_of(GEOMETRY)
AREAS = """\
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
    (area,) = areas_of(smaps.parse(AREAS), SETTINGS, REACHES)
    assert (area.kind, area.name, area.mappings) == ("anonymous", smaps.UNNAMED, 2)
    assert (area.resident_bytes, area.huge_bytes) == (12 << 20, HUGE)
    # The larger one, of which nothing is on huge pages, is what the area's reason is about.
    assert (area.start, area.reason) == (0x7F1000000000, "later")
    assert area.eligible_bytes == 8 << 20
    assert area.touched_bytes is None
    assert area.used_bytes == area.resident_bytes


def test_what_was_watched_is_compared_by_what_was_touched() -> None:
    (area,) = areas_of(smaps.parse(AREAS), SETTINGS, REACHES, watched=True)
    assert area.touched_bytes == area.used_bytes == 9 << 20
    base, huge = (each.reach_bytes for each in REACHES)
    share = 2 / 12
    assert area.reach_ratio == (9 << 20) * (share / huge + (1 - share) / base)
    assert area.exceeds_reach == (area.reach_ratio > 1)


def test_what_a_method_reaches() -> None:
    backing = PeakMemory(
        100, 30, 0, 0, 0, {65536: 10}, (
            MemoryPart("[bss]", "segment", 40, 0),
            MemoryPart("[heap]", "heap", 50, 30),
            MemoryPart("/lib", "file", 10, 0),
        ), 1,
    )  # fmt: skip
    assert backing.huge_bytes == 40
    assert backing.reached_fraction("malloc") == pytest.approx(0.8)
    assert backing.reached_fraction("segments") == 0
    assert backing.reached_fraction("shared") is None, "there is none, and no share of it"


def test_a_page_of_the_program_is_huge_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # The counters are the whole system's: others may have any number of middle-sized pages.
    grown = iter([0, *[1 << 40] * 1000])
    monkeypatch.setattr(huge_pages, "mthp_bytes", lambda: {1 << 16: next(grown)})
    program = (
        "import mmap, sys; memory = mmap.mmap(-1, 1 << 26, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)"
        "; memory.madvise(mmap.MADV_HUGEPAGE); memory.write(bytes(1 << 26)); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        sampler = PeakSampler()
        sampler.start_at(process.pid, children=False)
        while sum(mapping.resident_bytes for _, mapping in sampler.peak()) < 1 << 26:
            time.sleep(0.01)
        seen = sampler.stop()
        process.kill()
    assert seen is not None
    assert seen.mthp_bytes
    assert 0 < seen.huge_bytes <= seen.resident_bytes


@pytest.mark.skipif(mmap.PAGESIZE != 4096, reason="pages of 4 KiB are counted")
def test_missing_pages_are_added_where_no_more_are_missing_than_may_be() -> None:
    memory = mmap.mmap(-1, 6 * HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    first = -start % HUGE
    # Places of 512, 300, 10 and no base pages.
    for place, pages in enumerate((512, 300, 10, 0)):
        for page in range(pages):
            memory[first + place * HUGE + page * 4096] = 1
    end = start + first + 4 * HUGE
    own = Mapping("", "anonymous", None, 0, 1, 0, 0, 0, 0, start=start + first, end=end)
    found = khugepaged_adds(os.getpid(), [own], HUGE, (0, 255, 511))
    assert found == {0: 0, 255: 212 * 4096, 511: (212 + 502) * 4096}
    refused = replace(own, flags=("nh",))
    assert khugepaged_adds(os.getpid(), [refused], HUGE, (511,)) == {511: 0}
