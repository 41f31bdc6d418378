# SPDX-License-Identifier: GPL-2.0-or-later
"""All caveats by severity, and those that apply to an estimate."""

from __future__ import annotations

import re

from tlbcost.answer.caveats import counters, simulation, system
from tlbcost.answer.record import Caveat, CaveatRule, Estimate, Severity
from tlbcost.answer.words import poor_because
from tlbcost.calibration.records import POOR
from tlbcost.common import units

# Worst first: a report shows the first three.
SEVERITIES: dict[Severity, tuple[str, ...]] = {
    "high": ("T45", "T17", "T14", "T22", "T40", "T11", "T13", "T19", "T04", "T34"),
    "medium": (
        "T41", "T42", "T03", "T21", "T02", "T55", "T56",
        "T25", "T27", "T26", "T28", "T07", "T20", "T35", "T15",
        "T16", "T10", "T18", "T29", "T33", "T32", "T06", "T09", "T30", "T24",
    ),
    "low": ("T05", "T08", "T12", "T23", "T31", "T01"),
}  # fmt: skip
_COMMANDS = ("tlbcost ", "ulimit ", "env ", "echo ")


def caveats(estimate: Estimate) -> tuple[Caveat, ...]:
    found = (
        (code, severity, RULES[code](estimate))
        for severity, codes in SEVERITIES.items()
        for code in codes
    )
    return tuple(
        Caveat(code, severity, *map(_as_sentence, text)) for code, severity, text in found if text
    )


def _as_sentence(text: str) -> str:
    """With a capital, unless it begins with a command or an option, and a full stop."""
    text = text.strip()
    if not text:
        return ""
    if re.match(r"[a-z]+( |,)", text) and not text.startswith(_COMMANDS):
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?:" else f"{text}."


def _priced(estimate: Estimate) -> bool:
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


_COST_RULES: dict[str, CaveatRule] = {
    "T07": _huge_costs,
    "T08": _capped,
    "T16": _fault_cost,
    "T20": _overlapped,
    "T45": _poor,
}
RULES: dict[str, CaveatRule] = {**system.RULES, **_COST_RULES, **simulation.RULES, **counters.RULES}
