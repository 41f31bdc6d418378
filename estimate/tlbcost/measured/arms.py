# SPDX-License-Identifier: GPL-2.0-or-later
"""Gain of a running program: its copies do the same work on both page sizes.

A copy has three arms: two on base pages, and one on huge pages. Each does a few slices, one
after the other; the arms take turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pandas as pd

from tlbcost.common import formats
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.formats import TableFormat, read_table
from tlbcost.copies.run import Also, reason_of
from tlbcost.measured.record import MeasuredGain, mean_of_copies, repeated

_FEWEST_COPIES = 4
# Copies that say something stand for less of the time than this: too much is not known.
_LEAST_SEEN = 0.5
_NUMBERS = ("window", "slice", "time_ns", "huge_bytes", "anonymous_bytes")
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
    "cut": "the run ended while it was measured",
    "lost": "copies were killed",
    "signal": "copies were stopped by signals",
    "failed": "copies could not be made",
}


@dataclass(frozen=True, slots=True)
class _Copy:
    """What one copy says. `weight_ns`: user time of the program that it stands for."""

    weight_ns: float
    difference: float
    null: float
    error: float


def measured_in_arms(
    folders: Sequence[Path], user_fraction: float, also: Sequence[Also] = ()
) -> MeasuredGain | str:
    """What the tables in these folders, one for each run, say; or why they say nothing.

    `user_fraction`: the part of the program's CPU time that is in user mode. `also`: what the arms
    had on huge pages besides anonymous memory. Raises TlbcostError with exit code 125 for a table
    that cannot be read.
    """
    attempts, slices = _read(folders)
    weights = _weights(attempts)
    copies = [
        found
        for copy, weight_ns in weights.items()
        if (found := _copy_of(slices[slices["copy"] == copy], weight_ns)) is not None
    ]
    bad = slices.loc[slices["outcome"] != _GOOD, "outcome"].value_counts().to_dict()
    left = attempts.loc[~attempts["result"].isin(["followed", "busy"]), "result"].value_counts()
    dropped = {str(word): int(n) for word, n in {**left.to_dict(), **bad}.items()}
    if len(copies) < _FEWEST_COPIES:
        copies_word = "copy" if len(copies) == 1 else "copies"
        text = f"{len(copies)} {copies_word} could be measured, and {_FEWEST_COPIES} are needed"
        if not dropped:
            return text if len(attempts) else "it ended before a copy was made"
        worst = max(dropped, key=lambda word: dropped[word])
        if worst.startswith("refused-"):
            return reason_of(worst)
        return f"{text}: {_REASONS.get(worst, worst)}"
    seen = sum(copy.weight_ns for copy in copies) / (sum(weights.values()) or 1)
    if seen < _LEAST_SEEN:
        return f"copies that could be measured stand for {100 * seen:.0f} % of its time"
    shares = [copy.weight_ns for copy in copies]
    errors = [copy.error for copy in copies]
    null = mean_of_copies([copy.null for copy in copies], shares, errors).scaled(user_fraction)
    user = mean_of_copies([copy.difference for copy in copies], shares, errors)
    user = repeated(user).scaled(user_fraction).widened(abs(null.value))
    huge = slices[(slices["arm"] == "huge") & slices["huge_bytes"].notna()]
    known = not huge.empty and float(huge["anonymous_bytes"].sum())
    return MeasuredGain(
        source="copies",
        total_fraction=user,
        user_fraction=user,
        system_fraction=None,
        null_fraction=null,
        rounds=len(copies),
        dropped=dropped,
        huge_part=fmean(huge["huge_bytes"] / huge["anonymous_bytes"]) if known else None,
        seen_fraction=min(1.0, seen),
        also=tuple(also),
    )


def copies_in(folders: Sequence[Path]) -> int:
    """How many copies had a slice that can be compared. Raises TlbcostError, as above."""
    _, slices = _read(folders)
    return int(slices.loc[slices["outcome"] == _GOOD, "copy"].nunique())


def _read(folders: Sequence[Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Copies and slices; a copy is known by its run and its window."""
    copies: list[dict[str, object]] = []
    slices: list[dict[str, object]] = []
    try:
        for run, folder in enumerate(folders):
            attempts = read_table(folder / "copies.tsv", formats.COPIES)
            copies += [{**row, "run": run} for row in attempts.records()]
            for path in sorted(folder.glob("slices.*.tsv")):
                table = read_table(path, formats.SLICES)
                slices += [{**row, "run": run} for row in table.records()]
    except TlbcostError as error:
        raise TlbcostError(str(error), "tlbcost doctor", TOOL_FAILED) from error
    return (
        _frame(copies, formats.COPIES, ("window", "user_ns")),
        _frame(slices, formats.SLICES, _NUMBERS),
    )


def _frame(
    rows: Sequence[Mapping[str, object]], kind: TableFormat, numbers: Sequence[str]
) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=[*kind.columns, "run"])
    for column in numbers:
        frame[column] = pd.to_numeric(frame[column])
    frame["copy"] = frame["run"].astype(str) + "." + frame["window"].astype(str)
    return frame


def _weights(attempts: pd.DataFrame) -> dict[str, float]:
    """User time that each copy represents; one skipped by a busy worker goes to the last copy."""
    weights: dict[str, float] = {}
    times = attempts["user_ns"].fillna(0.0).tolist()
    last, last_run = "", -1
    for copy, run, user_ns, result in zip(
        attempts["copy"].tolist(), attempts["run"].tolist(), times,
        attempts["result"].tolist(), strict=True,
    ):  # fmt: skip
        if result != "busy" or run != last_run:
            last, last_run = copy, run
            weights[copy] = 0.0
        weights[last] += user_ns
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
    # Of a slice in which something else happened, the median takes no notice.
    return _Copy(
        weight_ns, float(((base - times["huge"]) / base).median()), float(nulls.median()), error
    )
