# SPDX-License-Identifier: GPL-2.0-or-later
"""Which caveats are there, how bad is each, and which of them apply to an estimate?"""

from __future__ import annotations

import re

from tlbcost.answer.caveats import costs, counters, simulation, system
from tlbcost.answer.record import Caveat, CaveatRule, Estimate, Severity

RULES: dict[str, CaveatRule] = {**system.RULES, **costs.RULES, **simulation.RULES, **counters.RULES}

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
    """The caveats that apply, worst first."""
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
    if re.match(r"[a-z]+( |,)", text) and not text.startswith(
        ("tlbcost ", "ulimit ", "env ", "echo ")
    ):
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?:" else f"{text}."
