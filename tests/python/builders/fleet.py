# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of a fleet's counts, made up."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from tlbcost.fleet.review import FleetReview, review_counts
from tlbcost.fleet.sources import matching
from tlbcost.review.plan import Plan

NAMES = ["host", "service", "cpu_model", "event", "value", "seconds"]
# What one second of a service with much translation comes to on Skylake-X.
COUNTS = {
    "cycles:u": 2e9,
    "dtlb_load_misses.walk_active:u": 4e8,
    "dtlb_store_misses.walk_active:u": 5e7,
    "itlb_misses.walk_active:u": 1e7,
}

Row = tuple[object, ...]


def rows_of(
    host: str,
    service: str = "web",
    cpu: str = "skx",
    seconds: int = 3,
    without: tuple[str, ...] = (),
    **changed: float,
) -> list[Row]:
    """Some seconds of one service; `changed`: of the event whose name begins so."""
    found = []
    for second in range(seconds):
        for event, value in COUNTS.items():
            if event in without:
                continue
            factor = next((new for old, new in changed.items() if event.startswith(old)), 1.0)
            found.append((host, service, cpu, event, value * factor * (1 + second / 10), 1.0))
    return found


def frame_of(rows: list[Row]) -> pd.DataFrame:
    """A table; a seventh value of a row is its running fraction."""
    longest = max(map(len, rows), default=len(NAMES))
    return pd.DataFrame(
        [(*row, *([1.0] * (longest - len(row)))) for row in rows],
        columns=[*NAMES, "running_fraction"][:longest],
    )


def written(folder: Path, rows: list[Row], name: str = "stats.parquet") -> Path:
    path = folder / name
    if path.suffix == ".csv":
        frame_of(rows).to_csv(path, index=False)
    else:
        frame_of(rows).to_parquet(path, index=False)
    return path


def reviewed(folder: Path, rows: list[Row], plan: Plan | None = None) -> FleetReview:
    return review_counts(matching([str(written(folder, rows))]), plan)


def log_of(rows: list[Row]) -> str:
    """The lines that perf stat -j -I would have printed of one host's rows."""
    lines, ends = [], dict.fromkeys((row[3] for row in rows), 0.0)
    for _, _, _, event, value, seconds in rows:
        assert isinstance(seconds, float)
        ends[event] += seconds
        count = {"interval": ends[event], "counter-value": f"{value:.6f}", "unit": ""}
        lines.append({**count, "event": event, "pcnt-running": 100.0})
    return "".join(f"{json.dumps(line)}\n" for line in lines)
