# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the options of `tlbcost numa` read?"""

from __future__ import annotations

import argparse

import pytest
from tlbcost.commands.numa import caches


def test_sizes_of_caches() -> None:
    assert caches("512K,1M") == (512 << 10, 1 << 20)
    assert caches("65536") == (65536, 0)
    assert caches("1M,0") == (1 << 20, 0)
    for text in ("", ",", "1M,", "0", "1M,2M,3M", "K", "-1", "9999G"):
        with pytest.raises(argparse.ArgumentTypeError, match="not sizes of caches"):
            caches(text)
