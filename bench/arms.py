# SPDX-License-Identifier: GPL-2.0-or-later
"""Do copies measure what whole runs do? Writes doc/benchmarks.md.

Of each program: the user time that huge pages save by whole runs in turns (the truth, with its
90 % interval), and by arms of copies; and how two arms on base pages differ, which should be 0.
Every slice is accounted for. Two minutes a program. Exits 1 if arms are off by more than 6 points
and the truth's own error somewhere, or a run hung.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, stdev

from tlbcost.common import formats, paths
from tlbcost.common.formats import read_table
from tlbcost.copies.run import arms_tool
from tlbcost.measured.arms import measured_in_arms
from tlbcost.measured.record import MeasuredGain
from tlbcost.measured.whole_runs import PairsRequest, measure_runs
from tlbcost.run.launch import launcher_of

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- arms: begin -->\n", "<!-- arms: end -->\n"
# Of data/suite.tsv: one thread each, seconds long.
PROGRAMS = (
    "stream", "random-read", "chase", "hash-lookup", "binary-search", "bfs", "map-lookup", "sort",
    "column-walk", "spmv", "sqlite3", "random-update", "triad", "merge-sort", "btree", "hash-join",
    "pagerank", "lru-cache", "event-queue", "stencil",
)  # fmt: skip
TRUTH_S, MOST_RUNS, COPIES = 40.0, 3, 8
HUNG_S = 170
POINTS = 0.06


@dataclass(slots=True)
class Found:
    """Of one program. `nulls`: differences of slices on base pages."""

    truth: MeasuredGain | str
    arms: MeasuredGain | str
    nulls: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    hung: int = 0


def measure(command: str) -> Found:
    """Both, one after the other."""
    argv = shlex.split(command)
    with launcher_of(None) as launcher:
        first = launcher.execute(argv, discard=True)
        if first.run is None or first.failed:
            raise ValueError(f"{command}: {first.describe()}")
        asked = PairsRequest(launcher, tuple(argv), Path(argv[0]), first, (), TRUTH_S)
        found = Found(measure_runs(asked)[0], "")
        expected, user = first.run.cpu_ns, first.run.user_ns / (first.run.cpu_ns or 1)
    with tempfile.TemporaryDirectory() as name:
        folders: list[Path] = []
        for run in range(MOST_RUNS):
            folder = Path(name) / str(run)
            folder.mkdir()
            tool = arms_tool(folder, COPIES, expected)
            words = [str(paths.libexec(tool[0])), *tool[1:], "--discard", "--run", f"{folder}/run"]
            try:
                subprocess.run([*words, "--", *argv], check=True, timeout=HUNG_S,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            except subprocess.TimeoutExpired:
                found.hung += 1
                continue
            folders.append(folder)
            account(folder, found)
            if sum(found.outcomes.values()) >= 3 * COPIES * 3:
                break
        found.arms = measured_in_arms(folders, user)
    return found


def account(folder: Path, found: Found) -> None:
    """Every slice of a run, and the differences of two on base pages."""
    times: dict[tuple[str, str], dict[str, float]] = {}
    for path in folder.glob("slices.*.tsv"):
        for row in read_table(path, formats.SLICES).records():
            found.outcomes[row["outcome"] or ""] += 1
            if row["outcome"] == "good":
                key = (row["window"] or "", row["slice"] or "")
                times.setdefault(key, {})[row["arm"] or ""] = float(row["time_ns"] or 0)
    found.nulls += [
        2 * (arms["base"] - arms["repeat"]) / (arms["base"] + arms["repeat"])
        for arms in times.values()
        if {"base", "repeat"} <= arms.keys()
    ]


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def gain(found: MeasuredGain | str) -> str:
    """The share of CPU time that user mode saved, with its interval; or why there is none."""
    if isinstance(found, str):
        return found.partition(":")[0]
    share = found.user_fraction
    return f"{percent(share.value)} ({percent(share.low)} to {percent(share.high)})"


def row(command: str, found: Found) -> str:
    name = Path(shlex.split(command)[0]).name
    off = ""
    if isinstance(found.truth, MeasuredGain) and isinstance(found.arms, MeasuredGain):
        off = percent(found.arms.user_fraction.value - found.truth.user_fraction.value)
    left = ", ".join(f"{word} {n}" for word, n in sorted(found.outcomes.items()))
    copies = found.arms.rounds if isinstance(found.arms, MeasuredGain) else 0
    null = percent(median(found.nulls)) if found.nulls else ""
    both = f"{gain(found.truth)} | {gain(found.arms)}"
    return f"| {name} | {both} | {off} | {copies} | {null} | {left} |"


def summary(all_found: list[Found]) -> tuple[list[str], int]:
    """Sentences, and how many programs are beyond the limit."""
    offs, outside, beyond = [], 0, 0
    for found in all_found:
        if isinstance(found.truth, MeasuredGain) and isinstance(found.arms, MeasuredGain):
            truth, arms = found.truth.user_fraction, found.arms.user_fraction
            off = abs(arms.value - truth.value)
            offs.append(off)
            outside += arms.high < truth.low or arms.low > truth.high
            beyond += off > POINTS + (truth.high - truth.low) / 2
    nulls = sorted(null for found in all_found for null in found.nulls)
    slices = sum(sum(found.outcomes.values()) for found in all_found)
    good = sum(found.outcomes["good"] for found in all_found)
    hung = sum(found.hung for found in all_found)
    lines = [f"{slices} slices of arms, {good} of them good; {hung} runs hung."]
    if offs:
        lines.append(
            f"{len(offs)} programs were measured in both ways: arms were off by "
            f"{percent(fmean(offs))} points on average, {percent(max(offs))} at most; the "
            f"intervals of {outside} do not meet."
        )
    if len(nulls) > 20:
        low, high = nulls[len(nulls) // 20], nulls[-len(nulls) // 20]
        lines.append(
            f"Two arms on base pages differed by {100 * fmean(nulls):+.2f} points on average "
            f"(standard deviation of a slice {percent(stdev(nulls))}; nine of ten between "
            f"{percent(low)} and {percent(high)})."
        )
    return lines, beyond + hung


def commands() -> list[str]:
    """The first command of the suite for each of PROGRAMS."""
    found: dict[str, str] = {}
    for line in (TREE / "data/suite.tsv").read_text(encoding="utf-8").splitlines():
        key, _, command = line.removeprefix("# ").partition(": ")
        if not key.startswith("command_"):
            continue
        name = shlex.split(command)[0].removeprefix("{workloads}/")
        found.setdefault(name, command.replace("{workloads}", str(TREE / "build/workloads")))
    return [found[name] for name in PROGRAMS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="these programs alone")
    only = parser.parse_args().only
    chosen = [
        command
        for command in commands()
        if not only or any(f"/{name} " in command or command.startswith(name) for name in only)
    ]
    lines = [
        "| program | whole runs in turns | arms | off | copies | null | slices |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    results: list[Found] = []
    for command in chosen:
        began = time.monotonic()
        try:
            results.append(measure(command))
        except (ValueError, subprocess.CalledProcessError) as error:
            print(f"{command}: {error}", file=sys.stderr)
            continue
        lines.append(row(command, results[-1]))
        print(f"{lines[-1]} {time.monotonic() - began:.0f} s", flush=True)
    words, beyond = summary(results)
    print("\n".join(words))
    if not only:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        body = "\n".join([*lines, "", *words, ""])
        PAGE.write_text(f"{before}{BEGIN}{body}{END}{after}", encoding="utf-8")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
