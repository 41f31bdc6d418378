# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a page size makes memory more or less local, in words. No heavy modules here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tlbcost.common.document import amount, portion
from tlbcost.common.units import percent

Direction = Literal["slower", "faster", "same"]

# Carrefour-LP's thresholds (doc/numa.md): of the LAR in points, and of the imbalance.
SPLIT_GAIN = 0.05
INTERLEAVE_ABOVE = 0.35


@dataclass(frozen=True, slots=True)
class Score:
    """One placement's figures. None: there were no DRAM accesses."""

    local_fraction: Annotated[
        float | None, portion("LAR: the share of DRAM accesses to the node that the thread runs on")
    ]
    imbalance: Annotated[
        float | None,
        amount("sample standard deviation over mean of the DRAM accesses to each node"),
    ]


@dataclass(frozen=True, slots=True)
class NodePlacement:
    """First touch on base and on huge pages, on N nodes; `source`: the source of their number, in
    words.
    """

    nodes: int
    source: str
    base: Score
    huge: Score

    @property
    def direction(self) -> Direction:
        return placement_direction(self.base, self.huge)


def placement_direction(base: Score, huge: Score) -> Direction:
    """Does placement on huge pages make a program slower or faster than on base pages?

    By Carrefour's thresholds: a LAR that differs by SPLIT_GAIN, or an imbalance above
    INTERLEAVE_ABOVE on one page size only. If both differ in direction, the imbalance decides, as
    in the slides.
    """
    if base.local_fraction is None or huge.local_fraction is None:
        return "same"
    even = [(each.imbalance or 0.0) <= INTERLEAVE_ABOVE for each in (base, huge)]
    if even[0] != even[1]:
        return "slower" if even[0] else "faster"
    change = huge.local_fraction - base.local_fraction
    if abs(change) < SPLIT_GAIN:
        return "same"
    return "faster" if change > 0 else "slower"


def translation_direction(low: float, high: float, worthwhile: float) -> Direction | None:
    """The same for the interval of a gain, as a fraction of the run time; None if unclear."""
    if low >= worthwhile:
        return "faster"
    if high <= -worthwhile:
        return "slower"
    return "same" if -worthwhile < low and high < worthwhile else None


def direction_words(translation: Direction | None, placement: Direction) -> str:
    """'faster by translation, slower by placement': the two effects, without a sum of them."""
    words: dict[Direction | None, str] = {
        "faster": "faster", "slower": "slower", "same": "about the same", None: "not clear",
    }  # fmt: skip
    if translation == placement:
        return f"{words[translation]} by translation and by placement"
    return f"{words[translation]} by translation, {words[placement]} by placement"


def placement_words(base: Score, huge: Score) -> str:
    """'local accesses 88 % to 64 %, imbalance 0.1 % to 29 %': from base to huge pages."""
    return (
        f"local accesses {percent(base.local_fraction)} to {percent(huge.local_fraction)}, "
        f"imbalance {percent(base.imbalance)} to {percent(huge.imbalance)}"
    )
