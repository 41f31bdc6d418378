# SPDX-License-Identifier: GPL-2.0-or-later
"""Are pages counted as the kernel reports them, and as memory.smaps does?"""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
from builders.live import mapping, rollup
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.live.processes import pages_of, rolled_up
from tlbcost.memory import smaps

KIB = 1024


def test_it_agrees_with_the_reader_of_every_mapping() -> None:
    path = Path("/proc/self/smaps")
    if not path.exists():
        pytest.skip("needs /proc/PID/smaps")
    with mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory[:] = b"x" * len(memory)
        text = path.read_bytes()
    found, parsed = pages_of(text), smaps.parse(text.decode(errors="replace"))
    base = [(m.resident_bytes - m.huge_bytes) * bool(m.eligible) for m in parsed]
    assert found.memory_bytes == sum(m.resident_bytes for m in parsed) >= 8 << 20
    assert found.huge_bytes == sum(m.huge_bytes for m in parsed)
    assert found.eligible_bytes == (sum(base) if parsed[0].eligible is not None else None)


def test_what_is_eligible_is_what_base_pages_of_eligible_mappings_hold() -> None:
    text = mapping(1000, huge=400) + mapping(50, eligible=False) + mapping(0)
    found = pages_of(text.encode())
    assert found.memory_bytes == 1050 * KIB
    assert (found.huge_bytes, found.eligible_bytes) == (400 * KIB, 600 * KIB)


def test_a_kernel_that_does_not_report_what_is_eligible() -> None:
    assert pages_of(mapping(1000, eligible=None).encode()).eligible_bytes is None


def test_a_page_of_four_processes_counts_a_quarter() -> None:
    text = mapping(1000, pss=250, shmem=400) + mapping(100)
    found = pages_of(text.encode(), proportional=True)
    assert found.memory_bytes == 350 * KIB
    assert (found.huge_bytes, found.eligible_bytes) == (100 * KIB, 250 * KIB)


def test_pages_of_a_pool_are_in_memory_unless_others_map_them() -> None:
    text = mapping(0, shared_hugetlb=4096, inode=7) + mapping(0, private_hugetlb=2048, inode=8)
    found = pages_of((mapping(8) + text).encode())
    assert (found.memory_bytes, found.huge_bytes) == (2056 * KIB, 2048 * KIB)
    assert found.shared_hugetlb == {b"00:0f 7": 4096 * KIB}


def test_the_sum_of_all_mappings() -> None:
    text = rollup(1000, pss=(300, 50, 100), anonymous=600, huge=200, shmem=100)
    whole = rolled_up(text.encode())
    assert (whole.memory_bytes, whole.huge_bytes) == (1000 * KIB, 300 * KIB)
    assert whole.eligible_bytes is None
    part = rolled_up(text.encode(), proportional=True)
    # Half of the anonymous memory, and 150 of 400 of the other.
    assert part.memory_bytes == 450 * KIB
    assert part.huge_bytes == round(200 * 0.5 + 100 * 0.375) * KIB


@given(st.binary(max_size=300), st.booleans())
def test_anything_is_read(text: bytes, proportional: bool) -> None:
    for read in (pages_of, rolled_up):
        found = read(mapping(4).encode() + text, proportional=proportional)
        assert 0 <= found.huge_bytes <= found.memory_bytes
