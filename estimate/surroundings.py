# SPDX-License-Identifier: GPL-2.0-or-later
"""What else on this system matters to an estimate: counters, the C library, its settings?"""

from __future__ import annotations

import os
import re

from tlbcost.pmu import find_pmu
from tlbcost.report.content import Surroundings

# A PMU that this user may not read is there all the same.
_PRESENT = ("counts", "forbidden", "listed")


def surroundings() -> Surroundings:
    """The system that tlbcost runs on."""
    return Surroundings(find_pmu().answer in _PRESENT, _glibc(), os.environ.get("GLIBC_TUNABLES"))


def _glibc() -> tuple[int, int] | None:
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return None
    version = re.fullmatch(r"glibc (\d+)\.(\d+).*", name)
    return (int(version[1]), int(version[2])) if version else None
