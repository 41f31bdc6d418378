# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the mappings of an smaps file read as the kernel wrote them?"""

from __future__ import annotations

import mmap
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.memory import smaps

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


@given(st.binary(max_size=2000))
def test_any_bytes_are_survived(data: bytes) -> None:
    smaps.parse(data.decode(errors="replace"))
