# SPDX-License-Identifier: GPL-2.0-or-later
"""What is measured, in which order, and for how long?"""

from __future__ import annotations

from dataclasses import dataclass

from tlbcost.calibration.records import Extent


@dataclass(frozen=True, slots=True)
class Step:
    """One run of the calibrator: groups of doc/format.md, and its share of the time."""

    groups: str
    limit_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """`first` in turn, then the confirmation, then again what is uncertain, within `bound_s`.

    The rest of BOUND_S is for the analysis.
    """

    first: tuple[Step, ...]
    confirm_s: float
    again: Step
    bound_s: float


PLANS: dict[Extent, Plan] = {
    "quick": Plan(
        (
            Step("cycles,faults,near,middle,far,dense", 6.5),
            Step("loads,stream,memory,residency", 2.9),
        ),
        1.5,
        Step("near,middle", 1.5),
        10.7,
    ),
    "full": Plan(
        (
            # The largest pages take a tenth of a second to clear.
            Step("cycles,faults", 4),
            Step("near,middle,far,dense", 15),
            Step("caches,chains,regions", 32),
            Step("loads,stream,memory,residency", 4),
            Step("near,middle,far", 8),
            Step("ways,stores,code", 10),
            Step("large", 14),
            Step("near,middle,far", 8),
        ),
        8,
        Step("near,middle,far", 10),
        105,
    ),
}
BOUND_S: dict[Extent, int] = {"quick": 12, "full": 120}
