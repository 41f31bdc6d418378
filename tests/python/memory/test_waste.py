# SPDX-License-Identifier: GPL-2.0-or-later
"""What khugepaged would add to real memory of this process."""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import replace

import pytest
from tlbcost.memory.smaps import Mapping
from tlbcost.memory.waste import khugepaged_adds

HUGE = 2 << 20


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
