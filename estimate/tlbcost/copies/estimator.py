# SPDX-License-Identifier: GPL-2.0-or-later
"""What the windows of copies say of the whole program. Pure functions of their tables.

A copy is made at a random instant of the program's CPU time, and its window has a fixed number of
references. So each window stands for the user time between instants (`user_ns`), whatever it
contains: the saving is the mean, weighted by that time, of each window's own saving; and counts per
reference are ratios of sums weighted by the inverse of the window's modelled time, since a slow
stretch of the program is met in proportion to its time.

The stretches of a program that was followed itself stand for themselves.

Misses of TLB entries that were not known when the window began count as walks. The interval comes
from resampling windows (B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, chapter
13), wider by what that leaves out where windows are few; its lower end takes these misses as hits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pandas as pd

from tlbcost.common import formats
from tlbcost.common.document import amount, doc, portion
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.formats import Table, TableFormat, read_table
from tlbcost.common.units import Interval
from tlbcost.memory.smaps import Mapping as MemoryMapping
from tlbcost.run.outcome import Outcome, Run
from tlbcost.simulator.counts import SIDES, ProcessCounts, SideCounts, Touched
from tlbcost.simulator.run import Simulation


@dataclass(frozen=True, slots=True)
class CopiesRecord:
    """Of all runs together. `attempts`: by what became of each, a word of the `copies` table."""

    attempts: Annotated[
        Mapping[str, int], doc("copies by what became of them: followed, or why there is none")
    ]
    ended: Annotated[
        Mapping[str, int], doc("windows by what ended them: enough, a system call, a fault, ...")
    ]
    windows: Annotated[int, amount("windows with references")]
    pauses: Annotated[int, amount("times that a thread of the program was stopped")]
    median_pause_ns: Annotated[int | None, amount("half of them were shorter")]
    longest_pause_ns: Annotated[int | None, amount("the longest")]
    added_cpu_fraction: Annotated[
        float | None,
        amount("CPU time that pauses and copy-on-write added, as a share of the program's"),
    ]
    seen_fraction: Annotated[
        float | None, portion("share of the program's CPU time that windows stand for")
    ]
    calling: Annotated[
        int,
        amount("of the windows, those that a system call ended, or that recorded calls continued"),
    ] = 0
    p99_pause_ns: Annotated[int | None, amount("99 of 100 were shorter")] = None


@dataclass(frozen=True, slots=True)
class CopiedRun:
    """What windows of copies say of the whole program.

    `saving`: the share of user time that huge pages save; None: there is no timed window. `windows`
    of them were timed, of `sampled_references` of the program's `references`. `most_walks`: how
    many times the walks that they add up to there may be, at most.
    """

    record: CopiesRecord
    core: str | None
    windows: int
    references: int
    sampled_references: int
    saving: Interval | None
    most_walks: float = 1.0


_WORDS = {"result", "ended", "side", "writable", "executable", "shared"}


@dataclass(frozen=True, slots=True)
class CopyTables:
    """Rows of all runs. `run`: the number of the folder; a window is known by (run, window).

    `mappings` also has `worker` and `name`; `memory`, `code` and `frames` refer to it by (run,
    worker, mapping), and `stacks` to `frames` by (run, worker, stack). `cpu_ns`, of each run: the
    program's CPU time that could be copied; None: not known.
    """

    attempts: pd.DataFrame
    windows: pd.DataFrame
    counts: pd.DataFrame
    mappings: pd.DataFrame
    memory: pd.DataFrame
    blocks: pd.DataFrame
    code: pd.DataFrame
    stacks: pd.DataFrame
    frames: pd.DataFrame
    core: str | None
    cpu_ns: tuple[int | None, ...]


def read_tables(folders: Sequence[Path]) -> CopyTables:
    """Read tables, a folder for each run. Raises TlbcostError, 125, naming the file."""
    try:
        return _read(folders)
    except (TlbcostError, ValueError) as error:
        raise TlbcostError(str(error), "tlbcost doctor", TOOL_FAILED) from error


def _read(folders: Sequence[Path]) -> CopyTables:
    frames: dict[str, list[pd.DataFrame]] = {}
    cores: set[str] = set()
    cpu: list[int | None] = []
    for run, folder in enumerate(folders):
        attempts = read_table(folder / "copies.tsv", formats.COPIES)
        frame = _frame(attempts, run)
        if len(frame):
            frame["fault_ns"] = int(attempts.key("fault_ns"))
        frames.setdefault("copies", []).append(frame)
        seen = attempts.known("cpu_ns")
        cpu.append(None if seen is None else int(seen))
        for kind in (
            formats.COPY_WINDOWS, formats.COPY_COUNTS, formats.COPY_MAPPINGS, formats.COPY_MEMORY,
            formats.COPY_BLOCKS, formats.COPY_CODE, formats.COPY_STACKS, formats.COPY_FRAMES,
        ):  # fmt: skip
            for path in sorted(folder.glob(f"{kind.name}.*.tsv")):
                table = read_table(path, kind)
                frame = _frame(table, run)
                frame["worker"] = int(path.name.split(".")[1])
                if kind is formats.COPY_MAPPINGS:
                    frame["name"] = [table.key(f"mapping_{i}") for i in frame["mapping"]]
                if kind is formats.COPY_WINDOWS and (core := table.known("core")) is not None:
                    cores.add(core)
                frames.setdefault(kind.name, []).append(frame)
    return CopyTables(
        _joined(frames, formats.COPIES, "fault_ns"),
        _joined(frames, formats.COPY_WINDOWS),
        _joined(frames, formats.COPY_COUNTS),
        _joined(frames, formats.COPY_MAPPINGS, "name"),
        _joined(frames, formats.COPY_MEMORY),
        _joined(frames, formats.COPY_BLOCKS),
        _joined(frames, formats.COPY_CODE),
        _joined(frames, formats.COPY_STACKS),
        _joined(frames, formats.COPY_FRAMES),
        next(iter(cores), None),
        tuple(cpu),
    )


def _frame(table: Table, run: int) -> pd.DataFrame:
    frame = pd.DataFrame(table.records(), columns=list(table.columns))
    for column in table.columns:
        if column not in _WORDS:
            frame[column] = pd.to_numeric(frame[column]).astype(
                "Float64" if frame[column].isna().any() else "int64"
            )
    frame["run"] = run
    return frame


def _joined(frames: dict[str, list[pd.DataFrame]], kind: TableFormat, *more: str) -> pd.DataFrame:
    found = [frame for frame in frames.get(kind.name, []) if len(frame)]
    if not found:
        return pd.DataFrame(columns=[*kind.columns, "run", "worker", *more])
    return pd.concat(found, ignore_index=True)


_RESAMPLED = 2000
# Words of the `copies` table: no worker was free, or the budget was used up.
_PASSED_OVER = ("busy", "dear", "starved")
_SEED = 1
_KEY = ["run", "window"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Weighed:
    """Windows that were timed, with what they stand for.

    `windows`: rows of the table, with `weight`: by this a count of the window becomes one of the
    whole program, in its median run. `references`: of that run. `share`: of the CPU time that
    copies were asked for, the part that these windows stand for.
    """

    windows: pd.DataFrame
    references: float
    share: float

    @property
    def weights(self) -> Mapping[tuple[int, int], float]:
        """By (run, window)."""
        frame = self.windows
        return {
            (int(run), int(window)): float(weight)
            for run, window, weight in zip(
                frame["run"], frame["window"], frame["weight"], strict=True
            )
        }


def weigh(tables: CopyTables, runs: Sequence[Run], cycles_per_ns: float) -> Weighed:
    """Timed windows, maybe none. `runs`: whose user time is divided; the median one counts."""
    stands = _strata(tables.attempts)
    windows = tables.windows.merge(stands, on=_KEY, how="left", validate="one_to_one")
    timed = windows[windows["base_cycles"].notna() & (windows["references"] > 0)].copy()
    timed = timed[(timed["base_cycles"] > 0) & (timed["timed_references"] > 0)]
    timed = timed.sort_values(_KEY)
    asked = float(stands["stands_for_ns"].sum())
    timed["stands_for_ns"] = timed["stands_for_ns"].fillna(0.0) + _passed_over(stands, timed)
    total = float(timed["stands_for_ns"].sum())
    if total <= 0:
        return Weighed(timed.assign(weight=0.0), 0.0, 0.0)
    user_ns = median([run.user_ns for run in runs])
    # User time that the window stands for, over what its references take on the modelled core.
    part = timed["timed_references"].astype(float) / timed["references"]
    own_ns = timed["base_cycles"].astype(float) / part / cycles_per_ns
    timed["weight"] = timed["stands_for_ns"] / total * user_ns / own_ns
    references = float((timed["weight"] * timed["references"]).sum())
    return Weighed(timed, references, total / asked if asked > 0 else 0.0)


def _strata(attempts: pd.DataFrame) -> pd.DataFrame:
    """Of each instant, the user time that it stands for; CPU time where no tick saw user time."""
    stands = attempts[[*_KEY, "result", "stands_for_ns"]].copy()
    user = attempts["user_ns"].astype(float).fillna(0.0)
    stands["stands_for_ns"] = user if user.sum() > 0 else stands["stands_for_ns"].astype(float)
    return stands.drop_duplicates(_KEY)


def _passed_over(stands: pd.DataFrame, timed: pd.DataFrame) -> Floats:
    """Time of instants without a free worker, for the windows before and after them."""
    more = np.zeros(len(timed))
    for run, group in stands[stands["result"].isin(_PASSED_OVER)].groupby("run"):
        own = np.flatnonzero(timed["run"] == run)
        if not len(own):
            continue
        windows = timed["window"].to_numpy(int)[own]
        after = np.searchsorted(windows, group["window"].to_numpy(int))
        half = group["stands_for_ns"].to_numpy(float) / 2
        np.add.at(more, own[np.clip(after - 1, 0, None)], half)
        np.add.at(more, own[np.clip(after, None, len(own) - 1)], half)
    return more


def totals(counts: pd.DataFrame, weighed: Weighed) -> dict[tuple[int, str], tuple[int, int, int]]:
    """Misses of the whole program by (page size in bytes, side): of L1, STLB hits, STLB misses."""
    frame = counts.merge(weighed.windows[[*_KEY, "weight"]], on=_KEY)
    found: dict[tuple[int, str], tuple[int, int, int]] = {}
    for size in frame["page_size_bytes"].unique():
        for side in frame["side"].unique():
            group = frame[(frame["page_size_bytes"] == size) & (frame["side"] == side)]
            weight = group["weight"]
            hits = round(float((weight * group["stlb_hits"]).sum()))
            walks = group["stlb_misses"] + group["unknown_misses"]
            misses = round(float((weight * walks).sum()))
            found[int(size), str(side)] = (hits + misses, hits, misses)
    return found


def saving(tables: CopyTables, weighed: Weighed) -> Interval | None:
    """The share of user time that huge pages save; None without windows."""
    frame = weighed.windows[weighed.windows["base_cycles"].notna()]
    if not len(frame):
        return None
    base = frame["base_cycles"].to_numpy(float)
    own = 1 - frame["huge_cycles"].to_numpy(float) / base
    # Of the walks on base pages, those whose entries were known before.
    counts = tables.counts
    smallest = counts["page_size_bytes"].min()
    data = counts[(counts["page_size_bytes"] == smallest) & (counts["side"] != "fetch")]
    unknown, others = _walks(data, frame)
    walks = unknown + others
    known = 1 - np.divide(unknown, walks, out=np.zeros_like(unknown), where=walks > 0)
    time = frame["stands_for_ns"].to_numpy(float)
    value, few = float(np.average(own, weights=time)), _few(time)
    lowest = float(np.average(own * known, weights=time))
    low = lowest + few * (_resampled(own * known, time, 2.5) - lowest)
    high = value + few * (_resampled(own, time, 97.5) - value)
    return Interval(value, min(value, low), max(value, high))


def _few(weights: Floats) -> float:
    """How much wider than resampled the interval is: resampling n values leaves out a factor of
    n / (n - 1) in the variance, and the tails of Student's t (T. Hesterberg, What Teachers Should
    Know About the Bootstrap, 2015, section 3.3), whose variance is (n - 1) / (n - 3).
    """
    n = float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 1.0
    # 1.05 for 30 windows, 1.2 for 10, 2 for 4.
    return float((n / max(n - 3, 0.5)) ** 0.5)


def _walks(counts: pd.DataFrame, windows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Of each window, walks for entries that were not known before, and all others."""
    sums = counts.groupby(_KEY)[["stlb_misses", "unknown_misses"]].sum()
    found = windows[_KEY].merge(sums, left_on=_KEY, right_index=True, how="left").fillna(0)
    return found["unknown_misses"].to_numpy(float), found["stlb_misses"].to_numpy(float)


def most_walks(tables: CopyTables, weighed: Weighed) -> float:
    """Largest factor (95 %) of the walks that windows add up to: most instants are not seen."""
    frame = weighed.windows[weighed.windows["stands_for_ns"] > 0]
    if not len(frame):
        return 1.0
    smallest = tables.counts["page_size_bytes"].min()
    walks = sum(_walks(tables.counts[tables.counts["page_size_bytes"] == smallest], frame))
    time = frame["stands_for_ns"].to_numpy(float)
    rate = walks * frame["weight"].to_numpy(float) / time
    mean = float(np.average(rate, weights=time))
    if mean <= 0:
        return 1.0
    return max(1.0, 1 + _few(time) * (_resampled(rate, time, 95) / mean - 1))


def _resampled(values: Floats, weights: Floats, percentile: float) -> float:
    generator = np.random.default_rng(_SEED)
    chosen = generator.integers(0, len(values), (_RESAMPLED, len(values)))
    sums = weights[chosen].sum(axis=1)
    means = (values[chosen] * weights[chosen]).sum(axis=1) / np.where(sums > 0, sums, 1)
    return float(np.percentile(means, percentile))


def record_of(tables: CopyTables, weighed: Weighed, runs: Sequence[Run]) -> CopiesRecord:
    attempts = tables.attempts
    pauses = attempts["pause_ns"].dropna().astype(float)
    cpu_ns = sum(run.cpu_ns for run in runs)
    added = _added_ns(attempts)
    return CopiesRecord(
        attempts=_numbers(attempts["result"]),
        ended=_numbers(tables.windows["ended"]),
        windows=int((tables.windows["references"] > 0).sum()),
        pauses=len(pauses),
        median_pause_ns=None if pauses.empty else round(float(pauses.median())),
        p99_pause_ns=None if pauses.empty else round(float(pauses.quantile(0.99))),
        longest_pause_ns=None if pauses.empty else round(float(pauses.max())),
        added_cpu_fraction=added / cpu_ns if cpu_ns and len(pauses) else None,
        seen_fraction=weighed.share if len(attempts) else None,
        calling=int(((tables.windows["ended"] == "call") | (tables.windows["replayed"] > 0)).sum()),
    )


def _added_ns(attempts: pd.DataFrame) -> float:
    """CPU time that these copies added: the thread's while it was copied, and page faults."""
    pauses = attempts["pause_ns"].dropna().astype(float).sum()
    faults = attempts["added_faults"].astype(float) * attempts["fault_ns"].astype(float)
    return float(pauses) + float(faults.dropna().sum())


def without_copies(tables: CopyTables, run: Run) -> Run:
    attempts = tables.attempts
    faults = float(attempts["added_faults"].dropna().astype(float).sum())
    return dataclasses.replace(
        run,
        minor_faults=max(0, run.minor_faults - round(faults)),
        system_ns=max(0, run.system_ns - round(_added_ns(attempts))),
    )


def _numbers(words: pd.Series[str]) -> dict[str, int]:
    return {str(word): int(n) for word, n in words.value_counts().sort_index().items()}


def simulation_of(
    tables: CopyTables,
    weighed: Weighed,
    program: str,
    outcome: Outcome,
    touched: Touched | None,
) -> Simulation:
    """What a simulation of the whole run would have counted: one process, as windows say."""
    counts = {
        (size, SIDES[side]): SideCounts(*misses)
        for (size, side), misses in totals(tables.counts, weighed).items()
    }
    windows = tables.windows
    process = ProcessCounts(
        pid=int(windows["pid"].iloc[0]) if len(windows) else 0,
        parent_pid=0,
        program=program,
        threads=int(windows["tid"].nunique()) if len(windows) else None,
        counts=counts or None,
        touched=touched,
    )
    return Simulation((process,), outcome)


def touched_of(
    seen: Sequence[tuple[str, MemoryMapping]], base_bytes: int, huge_bytes: int
) -> Touched | None:
    """What the program had in memory at its peak; None: it was not seen."""
    if not seen:
        return None
    anonymous = [each for _, each in seen if each.anonymous_bytes]
    private = sum(each.anonymous_bytes for each in anonymous)
    other = sum(each.resident_bytes for _, each in seen) - private
    regions = 0
    for each in anonymous:
        spanned = -(-each.end // huge_bytes) - each.start // huge_bytes
        regions += min(spanned, each.anonymous_bytes // base_bytes)
    return Touched(private // base_bytes, regions, max(other, 0) // base_bytes)


def copied_run(tables: CopyTables, weighed: Weighed, runs: Sequence[Run]) -> CopiedRun:
    return CopiedRun(
        record_of(tables, weighed, runs),
        tables.core,
        len(weighed.windows),
        round(weighed.references),
        int(weighed.windows["references"].sum()),
        saving(tables, weighed),
        most_walks(tables, weighed),
    )
