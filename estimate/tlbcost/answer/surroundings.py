# SPDX-License-Identifier: GPL-2.0-or-later
"""What else on this system matters to an estimate: counters, the C library, its settings?"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from tlbcost.counters.pmu import find_pmu
from tlbcost.system.balloon import reports_free_pages
from tlbcost.system.glibc import glibc_version
from tlbcost.system.huge_pages import HugeSettings, huge_settings
from tlbcost.thp import program as run_thp

# A PMU that this user may not read is there all the same.
_PRESENT = ("counts", "forbidden", "listed")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else on this system matters to the answer. None: not known, or not there.

    `settings`: what it lets onto huge pages. `hugectl`: whether that is installed.
    `can_run_thp`: whether `tlbcost run --thp` is. `reports_free_pages`: whether this is a virtual
    machine that hands its free memory back to the host.
    """

    has_pmu: bool
    glibc: tuple[int, int] | None
    glibc_tunables: str | None
    settings: HugeSettings | None = None
    hugectl: bool = False
    can_run_thp: bool = False
    reports_free_pages: bool = False


def surroundings() -> Surroundings:
    """The system that tlbcost runs on."""
    has_pmu = find_pmu().answer in _PRESENT
    return Surroundings(
        has_pmu,
        glibc_version(),
        os.environ.get("GLIBC_TUNABLES"),
        huge_settings(),
        shutil.which("hugectl") is not None,
        run_thp.is_here(),
        reports_free_pages(),
    )
