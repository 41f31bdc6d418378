# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the caches of a made-up machine, and memory, found again in its samples?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from builders.samples import HUGE, curve, table
from tlbcost.calibration.analysis.caches import caches
from tlbcost.calibration.analysis.samples import read_samples
from tlbcost.common.table import Table

CACHE_LADDER = tuple(int(n) for n in np.unique(np.round(np.geomspace(64, 2097152, 121))))


# Caches of 32 KiB, 1 MiB and 16 MiB; the probe goes up to 128 MiB.
def latency(lines: int) -> float:
    ends = ((512, 1.5), (16384, 4.0), (262144, 15.0))
    return next((ns for end, ns in ends if lines <= end), 80.0)


def cache_table(ns: Callable[[int], float], ladder: tuple[int, ...] = CACHE_LADDER) -> Table:
    parts = [
        curve("cache", layout, "serial", ns, ladder, size=HUGE, spacing=spacing, paired=False)
        for layout, spacing in (("each", 64), ("third", 192))
    ]
    return table(*parts)


def test_caches_and_memory_are_found() -> None:
    rows, notes = caches(read_samples([cache_table(latency)]))
    found = {row.quantity: row.interval for row in rows}
    expected = {"l1d_bytes": 32 << 10, "l2_bytes": 1 << 20, "l3_bytes": 16 << 20, "l1d_ns": 1.5,
                "l2_ns": 4.0, "l3_ns": 15.0, "memory_ns": 80.0}  # fmt: skip
    for quantity, value in expected.items():
        interval = found[quantity]
        assert interval is not None, quantity
        assert interval.value == pytest.approx(value, rel=0.1)
    assert notes == []


def test_memory_that_is_not_reached_is_not_reported() -> None:
    rows, notes = caches(read_samples([cache_table(latency, CACHE_LADDER[:90])]))
    found = {row.quantity: row.interval for row in rows}
    assert found["memory_ns"] is None
    assert found["l3_bytes"] is None
    assert found["l3_ns"] is not None
    assert any(note.startswith("memory_ns: ") for note in notes)


def test_two_levels_of_caches_end_in_memory() -> None:
    def small(lines: int) -> float:
        return 1.5 if lines <= 512 else 8.0 if lines <= 8192 else 130.0

    rows, _ = caches(read_samples([cache_table(small)]))
    found = {row.quantity: row.interval for row in rows}
    assert found["l3_bytes"] is None
    assert found["l3_ns"] is None
    assert found["memory_ns"] is not None
    assert found["memory_ns"].value == pytest.approx(130, rel=0.05)
