# SPDX-License-Identifier: GPL-2.0-or-later
"""A log of `perf stat -j -I` as rows of a fleet's table.

A row is one event, counted on one host for one service during some seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tlbcost.common.errors import TlbcostError
from tlbcost.counters.importing.perf_fields import object_of, reading_of
from tlbcost.counters.importing.printed_counts import DURATIONS, NS, WHOLE, refused

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


_ROWS = 200_000
_CLOCKS = ("task-clock", "cpu-clock", *DURATIONS)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a log is from, if its lines do not say; None: they do."""

    host: str | None = None
    service: str | None = None
    cpu_model: str | None = None


# By host and service, when the last two intervals ended.
_Ends = dict[tuple[str, str], tuple[float, float]]


def frames(path: Path, origin: Origin) -> Iterator[pd.DataFrame]:
    """The rows, some at a time. Raises TlbcostError naming the file and the line."""
    import pandas as pd

    rows: list[tuple[object, ...]] = []
    names = [*KEYS, *NUMBERS, RUNNING]
    ends: _Ends = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                if not text.strip() or text.startswith("#"):
                    continue
                row = _row(str(path), number, text, origin, ends)
                if row is not None:
                    rows.append(row)
                if len(rows) == _ROWS:
                    yield _categorised(pd.DataFrame(rows, columns=names))
                    rows = []
    except OSError as error:
        raise TlbcostError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TlbcostError(f"cannot read {path}: not UTF-8 text") from error
    if rows:
        yield _categorised(pd.DataFrame(rows, columns=names))


def _categorised(frame: pd.DataFrame) -> pd.DataFrame:
    numbers = dict.fromkeys((*NUMBERS, RUNNING), "float64")
    return frame.astype(dict.fromkeys(KEYS, "category") | numbers)


def _row(
    name: str, number: int, text: str, origin: Origin, ends: _Ends
) -> tuple[object, ...] | None:
    found = object_of(name, number, text)
    reading = reading_of(name, number, found)
    if reading is None:
        return None
    host = _named(name, number, found, "host", origin.host)
    cgroup = found.get("cgroup")
    of_group = cgroup if isinstance(cgroup, str) and cgroup else None
    service = _named(name, number, found, "service", origin.service or of_group)
    cpu = _named(name, number, found, "cpu_model", origin.cpu_model)
    if reading.time is None:
        raise refused(name, number, "no interval: only a log of perf stat -j -I says how long")
    value = reading.value
    if value is not None and reading.event.partition(":")[0] in _CLOCKS:
        value *= NS.get(reading.unit or "msec", 1.0)
    # What was not counted has no share of the time either; older perf does not print it.
    running = 1.0 if reading.running_fraction is None else reading.running_fraction
    # perf prints when its interval ended, since it began.
    end = float(reading.time)
    before, last = ends.get((host, service), (0.0, 0.0))
    if end != last:
        # perf was started again if its time went back.
        before = last if end > last else 0.0
        ends[host, service] = before, end
    return host, service, cpu, reading.event, value, end - before, running


def _named(name: str, number: int, found: dict[str, object], key: str, usual: str | None) -> str:
    """The host that is meant: the line names it, else the user did."""
    value = found.get(key, usual)
    if not isinstance(value, str) or not value:
        command = f"tlbcost review --convert {name} --{'cpu' if key == 'cpu_model' else key} NAME"
        raise TlbcostError(
            f"cannot read counts from {name}:{number}: no '{key}' in it",
            f"add it to each line, or make a table of the log: {command}",
        )
    return value
