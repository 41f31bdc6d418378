# SPDX-License-Identifier: GPL-2.0-or-later
"""Do several runs become the spread and the value that stand for them?"""

from __future__ import annotations

import pytest
from tlbcost.common.stats import centre, share_interval, spread_fraction


def test_spread() -> None:
    assert spread_fraction([10, 12, 11]) == pytest.approx(2 / 11)
    assert spread_fraction([10]) is None


def test_centre_is_geometric_above_zero_only() -> None:
    assert centre(4, 9) == 6
    assert centre(-2, 4) == 1


def test_wilsons_interval() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3: 81 of 263, and 0 of 20.
    assert share_interval(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert share_interval(0.0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
