# SPDX-License-Identifier: GPL-2.0-or-later
"""By how much may the time on a page size differ, because figures of the core are guesses? Pure
functions.

The same windows are timed on the core with one guess after the other at an end of its range. The
effects are independent of each other, so their squares add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from tlbcost.common.document import doc
from tlbcost.machines.unknowns import OTHERS, Variant

# The model's own error on a core whose figures are all known: as a share of the time on the first
# size, and of the translation that the larger pages save or add. Judged by the published tables of
# doc/accuracy-machines.md.
MODEL_POINTS = 0.03
MODEL_TRANSLATION = 0.25

# For each process image, for each of its windows: references and cycles.
Column = list[list[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Effect:
    """What not knowing a figure does to a time ratio."""

    figure: Annotated[str, doc("name of the figure, or others: all that are left")]
    value: Annotated[float | None, doc("as assumed; null: several figures")]
    low: Annotated[float | None, doc("its plausible values, from")]
    high: Annotated[float | None, doc("to")]
    below: Annotated[float, doc("by so much the ratio may be lower", minimum=0)]
    above: Annotated[float, doc("by so much it may be higher", minimum=0)]


def effect_of(variant: Variant, assumed: float, tried: float) -> Effect:
    """From the ratio with the figures as assumed, and with the variant's at their tried ends."""
    change = tried - assumed
    ends = (change, change * variant.opposite)
    one = variant.unknowns[0] if variant.name != OTHERS else None
    return Effect(
        variant.name,
        one.value if one else None,
        one.low if one else None,
        one.high if one else None,
        max(0.0, -min(ends)),
        max(0.0, max(ends)),
    )


def spread(effects: Sequence[Effect]) -> tuple[float, float]:
    """By how much the ratio may be lower and higher because of all of them."""
    return math.hypot(*(each.below for each in effects)), math.hypot(
        *(each.above for each in effects)
    )


def model_error(ratio: float) -> float:
    """Of a ratio on a published core: an error of translation changes a ratio near 0 little."""
    return MODEL_POINTS + MODEL_TRANSLATION * abs(1 - ratio) * min(1.0, ratio)


def total(column: Column, references: Sequence[int]) -> float | None:
    """Cycles of all windows, weighted by what they stand for; None: there are no windows."""
    cycles = 0.0
    for image, all_of_it in zip(column, references, strict=True):
        seen = sum(n for n, _ in image)
        if seen:
            cycles += all_of_it / seen * sum(c for _, c in image)
    return cycles or None
