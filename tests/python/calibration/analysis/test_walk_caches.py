# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the reach of page-walk caches found, and none where walks grow little by little?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from builders.samples import (
    HUGE,
    always,
    curve,
    table,
)
from tlbcost.calibration.analysis.samples import read_samples
from tlbcost.calibration.analysis.walk_caches import walk_caches
from tlbcost.common.table import Table


def regions(ns: Callable[[float], float]) -> Table:
    counts = (16, 24, 40, 56, 72, 104, 136, 200, 264, 392, 520)
    return table(*(
        curve("tlb", "regions", "serial", always(ns(n)), (8192,),
              spacing=n * HUGE // 8192, noise=0.2, seed=n)
        for n in counts
    ))  # fmt: skip


def test_the_reach_of_walk_caches_is_a_step() -> None:
    rows, reason = walk_caches(read_samples([regions(lambda n: 15.0 if n <= 64 else 24.0)]))
    assert reason == ""
    reach, miss = rows[0].interval, rows[1].interval
    assert reach is not None
    assert miss is not None
    assert reach.low <= 64 <= reach.high
    assert miss.value == pytest.approx(9, abs=0.5)


@pytest.mark.parametrize("slope", [0.0, 3.0])
def test_walks_whose_cost_grows_slowly_are_not_of_walk_caches(slope: float) -> None:
    rows, reason = walk_caches(read_samples([regions(lambda n: 15 + slope * np.log(n / 16))]))
    assert [row.interval for row in rows] == [None, None]
    assert reason
