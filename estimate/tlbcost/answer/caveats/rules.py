# SPDX-License-Identifier: GPL-2.0-or-later
"""Which caveats are there, and which of them apply to an estimate?"""

from __future__ import annotations

from tlbcost.answer.caveats import costs, counters, simulation, system
from tlbcost.answer.record import Caveat, CaveatRule, Estimate

RULES: dict[str, CaveatRule] = dict(
    sorted({**system.RULES, **costs.RULES, **simulation.RULES, **counters.RULES}.items())
)


def caveats(estimate: Estimate) -> tuple[Caveat, ...]:
    """The caveats that apply, in the order of their codes."""
    found = ((code, rule(estimate)) for code, rule in RULES.items())
    return tuple(Caveat(code, *text) for code, text in found if text is not None)
