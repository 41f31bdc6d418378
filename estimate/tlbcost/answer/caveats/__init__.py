# SPDX-License-Identifier: GPL-2.0-or-later
"""What should a reader of an estimate know before relying on it? Paragraphs: doc/caveats.md.

One function for each code: about the system and the runs (system.py), the costs (costs.py), the
simulation (simulation.py) and the counters (counters.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from tlbcost.answer.caveats import costs, counters, simulation, system
from tlbcost.answer.caveats.rule import Rule
from tlbcost.answer.content import Content

RULES: dict[str, Rule] = dict(
    sorted({**system.RULES, **costs.RULES, **simulation.RULES, **counters.RULES}.items())
)


@dataclass(frozen=True, slots=True)
class Caveat:
    """A numbered warning: what is so, and what to do about it."""

    code: str
    sentence: str
    remedy: str


def caveats(content: Content) -> list[Caveat]:
    """The caveats that apply, in the order of their codes."""
    found = []
    for code, rule in RULES.items():
        text = rule(content)
        if text is not None:
            found.append(Caveat(code, *text))
    return found
