# SPDX-License-Identifier: GPL-2.0-or-later
"""What time ratio follows from the modelled windows of two page sizes, how sure? Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tlbcost.common.interval import Interval
from tlbcost.machines.effects import Column, Effect, model_error, spread, total
from tlbcost.model import overlap
from tlbcost.model.overlap import MODEL_POINTS, MODEL_RELATIVE
from tlbcost.simulator.run import Simulation
from tlbcost.simulator.windows import ImageWindows, Window


def saving_of(
    simulation: Simulation, base: Column, column: Column
) -> tuple[Interval | None, int, str | None]:
    """The share of the time on the first size that this one saves, with its sampling error; the
    number of windows behind it, and why there is none.
    """
    if not simulation.windows:
        return None, 0, overlap.shortfall(None)
    images = [
        ImageWindows(
            image.pid,
            image.program,
            image.references,
            image.core,
            tuple(Window(n, b, h) for (n, b), (_, h) in zip(lows, highs, strict=True)),
        )
        for image, lows, highs in zip(
            [image for image in simulation.windows if image.references is not None],
            base,
            column,
            strict=True,
        )
    ]
    sample = overlap.sample_of(images)
    if sample is None or sample.saving is None:
        return None, sample.windows if sample else 0, overlap.shortfall(sample)
    return sample.saving, sample.windows, None


def ratio_of(saving: Interval, effects: Sequence[Effect], *, published: bool) -> Interval:
    """The time ratio, with what sampling, the model and guesses do to it."""
    value = 1 - saving.value
    margin = MODEL_POINTS + MODEL_RELATIVE * abs(saving.value)
    if published:
        margin = model_error(value)
    below, above = spread(effects)
    low = value - math.hypot(saving.high - saving.value, margin, below)
    high = value + math.hypot(saving.value - saving.low, margin, above)
    return Interval(value, max(0.0, low), high)


def over(column: Column, base: Column, references: Sequence[int]) -> float | None:
    one, other = total(column, references), total(base, references)
    return None if one is None or other is None else one / other
