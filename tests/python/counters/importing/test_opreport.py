# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the row of a listing the right program's?"""

from __future__ import annotations

import pytest
from builders.imported_counts import read
from tlbcost.common.errors import USAGE, TlbcostError

LISTING = """\
CPU: Core 2, speed 2000 MHz (estimated)
Counted CPU_CLK_UNHALTED events (Clock cycles when not halted) with a unit mask of 0x00 (none) count 100
   samples|      %|
------------------
     27850 65.2133 /usr/bin/app with spaces
      9345 21.8821 vmlinux
\t  samples|      %|
\t------------------
\t     9000 96.3 libc.so
"""  # noqa: E501


def test_a_listings_object_is_named_or_the_one_with_most_cycles() -> None:
    found = read(LISTING, None)
    assert found.values()["cycles"] == 2785000
    assert found.notes[0] == (
        "/usr/bin/app with spaces is taken, with 27850 samples of CPU_CLK_UNHALTED; "
        "objects listed: 2"
    )
    assert read(LISTING, None, "vmlinux").values()["cycles"] == 934500
    assert read(LISTING, None, "app with spaces").values()["cycles"] == 2785000
    with pytest.raises(TlbcostError, match="no object 'x'") as error:
        read(LISTING, None, "x")
    assert error.value.exit_code == USAGE


def test_a_listing_of_symbols_is_no_listing_of_objects() -> None:
    with pytest.raises(TlbcostError, match="file:5: expected samples"):
        read(LISTING.replace("27850 65", "00401000 27850 65"), None)
    with pytest.raises(TlbcostError, match="file:3: expected a listing of objects"):
        read(
            LISTING.replace("   samples|      %|", "vma  samples  %  image name  symbol name", 1),
            None,
        )
