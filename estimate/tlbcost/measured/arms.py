# SPDX-License-Identifier: GPL-2.0-or-later
"""What do huge pages save a running program? Copies of it did the same work on both.

A copy has three arms: two on base pages, and one on huge pages. Each does a few slices, of some
40 ms, one after the other; the arms take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pandas as pd

from tlbcost.common import formats
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.table import read_table
from tlbcost.copies.run import reason_of
from tlbcost.measured.record import MeasuredGain, too_busy
from tlbcost.measured.statistics import mean_of_copies

_FEWEST_COPIES = 4
# Copies that say something stand for less of the time than this: too much is not known.
_LEAST_SEEN = 0.5
_NUMBERS = ("window", "slice", "time_ns", "huge_bytes", "anonymous_bytes", "faults")
_GOOD = "good"
_REASONS = {
    "tight": "it was in loops too tight to be stopped at the same instant twice",
    "call": "it made system calls that copies must not make",
    "short": "it was at work for too short a time",
    "memory": "there is too little memory for three copies of it",
    "diverged": "copies went different ways",
    "late": "copies went different ways",
    "not-huge": "copies got no huge pages",
    "time": "it took too long",
}


@dataclass(frozen=True, slots=True)
class _Copy:
    """What one copy says. `weight_ns`: user time of the program that it stands for."""

    weight_ns: float
    difference: float
    null: float
    error: float
    slices: int


def measured_in_arms(folder: Path, user_fraction: float) -> MeasuredGain | str:
    """What the tables in this folder say; or why they say nothing.

    `user_fraction`: the part of the program's CPU time that is in user mode. Raises TlbcostError
    with exit code 125 for a table that cannot be read.
    """
    attempts, slices = _read(folder)
    weights = _weights(attempts)
    copies = [
        found
        for window, weight_ns in weights.items()
        if (found := _copy_of(slices[slices["window"] == window], weight_ns)) is not None
    ]
    dropped = _dropped(attempts, slices)
    if len(copies) < _FEWEST_COPIES:
        return _too_few(copies, attempts, dropped)
    seen = sum(copy.weight_ns for copy in copies) / (sum(weights.values()) or 1)
    if seen < _LEAST_SEEN:
        return f"copies that could be measured stand for {100 * seen:.0f} % of its time"
    shares = [copy.weight_ns for copy in copies]
    errors = [copy.error for copy in copies]
    null = mean_of_copies([copy.null for copy in copies], shares, errors)
    if (busy := too_busy(null)) is not None:
        return busy
    user = mean_of_copies([copy.difference for copy in copies], shares, errors)
    user = user.scaled(user_fraction)
    return MeasuredGain(
        source="copies",
        total_fraction=user,
        user_fraction=user,
        system_fraction=None,
        null_fraction=null,
        rounds=len(copies),
        dropped=dropped,
        huge_part=_huge_part(slices),
        seen_fraction=min(1.0, seen),
    )


def _read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    try:
        attempts = read_table(folder / "copies.tsv", formats.COPIES)
        tables = [read_table(path, formats.SLICES) for path in sorted(folder.glob("slices.*.tsv"))]
    except TlbcostError as error:
        raise TlbcostError(str(error), "tlbcost doctor", TOOL_FAILED) from error
    rows = [row for table in tables for row in table.records()]
    slices = pd.DataFrame(rows, columns=list(formats.SLICES.columns))
    for column in _NUMBERS:
        slices[column] = pd.to_numeric(slices[column])
    copies = pd.DataFrame(attempts.records(), columns=list(attempts.columns))
    for column in ("window", "user_ns", "stands_for_ns"):
        copies[column] = pd.to_numeric(copies[column])
    return copies, slices


def _weights(attempts: pd.DataFrame) -> dict[int, float]:
    """The program's user time that each copy stands for, passed-over instants with the next."""
    weights: dict[int, float] = {}
    passed = 0.0
    times = attempts["user_ns"].fillna(0.0).tolist()
    results = attempts["result"].tolist()
    for window, user_ns, result in zip(attempts["window"].tolist(), times, results, strict=True):
        passed += user_ns
        if result != "busy":
            weights[window] = passed
            passed = 0.0
    if weights and passed:
        weights[max(weights)] += passed
    return weights


def _copy_of(rows: pd.DataFrame, weight_ns: float) -> _Copy | None:
    """From the slices that all three arms finished; None: there are none."""
    bad = set(rows.loc[rows["outcome"] != _GOOD, "slice"])
    good = rows[~rows["slice"].isin(bad)]
    if "diverged" in set(rows["outcome"]) or good.empty or not weight_ns:
        return None
    times = good.pivot_table(index="slice", columns="arm", values="time_ns").dropna()
    if not {"base", "repeat", "huge"} <= set(times.columns) or times.empty:
        return None
    base = (times["base"] + times["repeat"]) / 2
    nulls = (times["base"] - times["repeat"]) / base
    n = len(times)
    # Of a difference from the mean of two on base pages, by the nulls: 3/2 v against 2 v.
    error = float((0.75 * (nulls**2).mean() / n) ** 0.5)
    return _Copy(
        weight_ns,
        float((base.sum() - times["huge"].sum()) / base.sum()),
        float((times["base"].sum() - times["repeat"].sum()) / base.sum()),
        error,
        n,
    )


def _dropped(attempts: pd.DataFrame, slices: pd.DataFrame) -> dict[str, int]:
    found = slices.loc[slices["outcome"] != _GOOD, "outcome"].value_counts().to_dict()
    left = attempts.loc[~attempts["result"].isin(["followed", "busy"]), "result"].value_counts()
    return {str(word): int(n) for word, n in {**left.to_dict(), **found}.items()}


def _too_few(copies: Sequence[_Copy], attempts: pd.DataFrame, dropped: dict[str, int]) -> str:
    text = f"{len(copies)} copies could be measured, and {_FEWEST_COPIES} are needed"
    if not dropped:
        return text if len(attempts) else "it ended before a copy was made"
    worst = max(dropped, key=lambda word: dropped[word])
    if worst.startswith("refused-"):
        return reason_of(worst)
    return f"{text}: {_REASONS.get(worst, worst)}"


def _huge_part(slices: pd.DataFrame) -> float | None:
    huge = slices[(slices["arm"] == "huge") & slices["huge_bytes"].notna()]
    if huge.empty or not float(huge["anonymous_bytes"].sum()):
        return None
    return fmean(huge["huge_bytes"] / huge["anonymous_bytes"])
