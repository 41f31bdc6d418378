# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the core's clock found, and a change of it reported?"""

from __future__ import annotations

from builders.samples import (
    single,
    table,
    values,
)
from tlbcost.calibration.analysis.quantities import analyse
from tlbcost.common.interval import Interval


def test_the_clock_and_a_change_of_it() -> None:
    steady = analyse([table(single("cycles", None, [0.25] * 40))])
    changed = analyse([table(single("cycles", None, [0.25] * 20 + [0.5] * 20))])
    (rate,) = values(steady, "cycles_per_ns")
    assert rate == Interval(4.0, 4.0, 4.0)
    assert not any("clock" in note for note in steady.notes)
    assert any("2.00 to 4.00 cycles/ns" in note for note in changed.notes)
