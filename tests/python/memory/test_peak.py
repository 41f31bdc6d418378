# SPDX-License-Identifier: GPL-2.0-or-later
"""Which part of a program's memory at its peak was on huge pages?"""

from __future__ import annotations

import pytest
from tlbcost.memory.peak import MemoryPart, PeakMemory


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
