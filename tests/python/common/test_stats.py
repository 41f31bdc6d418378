# SPDX-License-Identifier: GPL-2.0-or-later
"""Do several runs become the spread and the value that stand for them?"""

from __future__ import annotations

import pytest
from tlbcost.common.stats import centre, spread_fraction


def test_spread() -> None:
    assert spread_fraction([10, 12, 11]) == pytest.approx(2 / 11)
    assert spread_fraction([10]) is None


def test_centre_is_geometric_above_zero_only() -> None:
    assert centre(4, 9) == 6
    assert centre(-2, 4) == 1
