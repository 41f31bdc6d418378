# SPDX-License-Identifier: GPL-2.0-or-later
"""What to know about the costs that the counts were multiplied with."""

from __future__ import annotations

from tlbcost.answer.record import CaveatRule, Estimate
from tlbcost.answer.words import poor_because
from tlbcost.calibration.records import POOR
from tlbcost.common import units


def _priced(estimate: Estimate) -> bool:
    """Whether the expected gain is misses times their costs."""
    return estimate.simulated is not None and estimate.simulated.gain.model == "simple"


def _huge_costs(estimate: Estimate) -> tuple[str, str] | None:
    huge = estimate.huge_costs
    # The counters' estimate takes no price of huge pages.
    if huge is None or estimate.base_costs is None or not _priced(estimate):
        return None
    missing = [
        name
        for name, cost in (
            ("an STLB hit", huge.stlb_hit_serial_ns),
            ("a page walk", huge.walk_serial_ns),
        )
        if cost is None
    ]
    if not missing:
        return None
    size = units.size(huge.page_size_bytes)
    return (
        f"The cost of {' and '.join(missing)} on {size} pages was not measured here; that on "
        f"{units.size(estimate.base_costs.page_size_bytes)} pages is used, an upper limit: the "
        "gain may be larger.",
        "Run tlbcost calibrate --recalibrate with more free memory.",
    )


def _capped(estimate: Estimate) -> tuple[str, str] | None:
    if not estimate.gain.bound_capped or estimate.counted is not None:
        return None
    remedy = "Expect the gain in the lower half of its interval."
    if not _priced(estimate):
        remedy = "The expected gain is modelled without it."
    return (
        "The upper bound is capped at the user time: at the cost of dependent accesses "
        "translation alone would take longer, so the program's accesses overlap.",
        remedy,
    )


def _fault_cost(estimate: Estimate) -> tuple[str, str] | None:
    if estimate.gain.fault_fraction is not None or estimate.given.calibrated is None:
        return None
    return (
        "The cost of a page fault was not measured on both page sizes: what fewer page faults "
        "save is not known (NA).",
        'Run tlbcost calibrate --recalibrate; THP must not be "never".',
    )


def _overlapped(estimate: Estimate) -> tuple[str, str] | None:
    base = estimate.base_costs
    if base is None or not _priced(estimate):
        return None
    if base.walk_overlapped_ns is not None and base.stlb_hit_overlapped_ns is not None:
        return None
    return (
        "The cost of overlapped accesses was not measured: the lower end of the gain takes it as "
        "0.",
        "Run tlbcost calibrate --recalibrate on a quiet machine.",
    )


def _poor(estimate: Estimate) -> tuple[str, str] | None:
    reasons = poor_because(estimate)
    if not reasons:
        return None
    what, _, remedy = POOR.partition(": ")
    more = f"; {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return (
        f"{what}, so every time and share here is uncertain: {reasons[0]}{more}",
        f"{remedy}: tlbcost calibrate --recalibrate",
    )


RULES: dict[str, CaveatRule] = {
    "T07": _huge_costs,
    "T08": _capped,
    "T16": _fault_cost,
    "T20": _overlapped,
    "T45": _poor,
}
