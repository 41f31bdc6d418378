# SPDX-License-Identifier: GPL-2.0-or-later
"""What the models take, made up at random: costs, counts and runs."""

from __future__ import annotations

from builders.answer import BASE
from hypothesis import strategies as st
from tlbcost.calibration.records import PageCosts, price
from tlbcost.common.interval import Interval
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import Footprint, Side

NO_MEMORY = Footprint(0, 0, 0, 0, 0)

SIDES: tuple[Side, ...] = ("load", "store", "fetch")

many = st.integers(0, 10**12)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """A price in ns; noise may have brought the measured low end below zero."""
    low = draw(st.floats(-5, 200))
    value = low + draw(st.floats(0, 100))
    made = price(Interval(value, low, value + draw(st.floats(0, 100))))
    assert made is not None
    return made


@st.composite
def costs(draw: st.DrawFn, size: int) -> PageCosts:
    cost = intervals() if size == BASE else st.none() | intervals()
    maybe = st.none() | intervals()
    return PageCosts(
        size,
        1,
        draw(cost),
        draw(maybe),
        draw(cost),
        draw(maybe),
        draw(maybe),
        draw(st.none() | intervals()),
    )


@st.composite
def native_runs(draw: st.DrawFn) -> list[Run]:
    times = st.integers(1, 10**12)
    return [
        Run(draw(times), draw(st.integers(0, 10**12)), draw(st.integers(0, 10**12)),
            draw(st.integers(0, 10**7)), 0, 1 << 20)
        for _ in range(draw(st.integers(1, 5)))
    ]  # fmt: skip


memories = st.builds(Footprint, *[st.integers(0, 10**7)] * 4)
