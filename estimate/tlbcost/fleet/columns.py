# SPDX-License-Identifier: GPL-2.0-or-later
"""Which columns does a table of a fleet's counts have, and when does a row count nothing?

A row is one event, counted on one host for one service during some seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tlbcost.counters.importing.printed_counts import WHOLE

if TYPE_CHECKING:
    import pandas as pd

KEYS = ("host", "service", "cpu_model", "event")
NUMBERS = ("value", "seconds")
# Part of the seconds that the event had a counter.
RUNNING = "running_fraction"
NAMES = (*KEYS, *NUMBERS)

RowState = Literal["good", "nameless", "not_counted", "impossible", "multiplexed"]
# What is wrong with a row, the first that holds; by number, which groups faster.
STATES: tuple[RowState, ...] = ("good", "nameless", "not_counted", "impossible", "multiplexed")
GOOD = STATES.index("good")
WHY: dict[RowState, str] = {
    "nameless": "no host, service, CPU model or event",
    "not_counted": "no value, or the event had no counter",
    "impossible": "a value, time or running fraction that no counter can show",
    "multiplexed": "the event shared its counter, so that its value is scaled",
}
# Ten thousand processors at 10 GHz count no more cycles in a second.
_MOST_PER_SECOND = 1e14
# perf rounds percentages.
_ALL = 1.005


def sums(frame: pd.DataFrame) -> pd.DataFrame:
    """Add up values and seconds by names and state; of rows that are not good, only count them."""
    import numpy as np

    for key in KEYS:
        if frame[key].isna().any():
            frame[key] = frame[key].cat.add_categories([""]).fillna("")
    nameless = np.logical_or.reduce([(frame[key] == "").to_numpy() for key in KEYS])
    value, seconds = (frame[name].to_numpy() for name in NUMBERS)
    running = frame[RUNNING].to_numpy() if RUNNING in frame else np.ones(len(frame))
    with np.errstate(invalid="ignore", divide="ignore"):
        impossible = ~np.isfinite(seconds) | (seconds <= 0) | np.isinf(value) | (value < 0)
        impossible |= (value / seconds > _MOST_PER_SECOND) | (running < 0) | (running > _ALL)
        conditions = [nameless, np.isnan(value) | (running == 0), impossible, running < WHOLE]
    state = np.select(conditions, range(1, len(STATES)), GOOD)
    frame["state"] = state
    for name in NUMBERS:
        frame[name] = np.where(state == GOOD, frame[name], 0.0)
    groups = frame.groupby([*KEYS, "state"], observed=True, sort=False)
    found = groups.agg(value=("value", "sum"), seconds=("seconds", "sum"), rows=("value", "size"))
    # Categories of one piece are not those of another.
    return found.reset_index().astype(dict.fromkeys(KEYS, "str"))


def added(parts: pd.DataFrame) -> pd.DataFrame:
    groups = parts.groupby([*KEYS, "state"], sort=False)
    return groups[["value", "seconds", "rows"]].sum().reset_index()
