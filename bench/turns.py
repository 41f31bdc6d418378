# SPDX-License-Identifier: GPL-2.0-or-later
"""Do two trials in turns agree better than two whose runs follow one another?

Four trials of each program, in turns and one by one alternately: the share of CPU time that huge
pages saved in user mode, and what the two of one kind differ by. Those in turns have pairs until
they know it to two points, as `make accuracy` has them; those one by one have as many. Writes
doc/benchmarks.md; takes about half an hour. Exits 1 if those in turns differ by more than
1.5 points on average, or a trial was not obtained.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from engines import TREE, commands

PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- turns: begin -->\n", "<!-- turns: end -->\n"
# Of data/suite.tsv: one thread each, seconds long, gains of all sizes.
PROGRAMS = (
    "chase", "hash-lookup", "binary-search", "bfs", "map-lookup", "sort", "column-walk",
    "random-update", "btree", "hash-join",
)  # fmt: skip
# The most that two trials in turns may differ by on average.
CONTRACT = 0.015
ALONE = "--no-turns"
# To how many points those in turns know it; and pairs of those one by one, at least.
POINTS, FEWEST = "2", 5
_LIMIT_S = 900


@dataclass(frozen=True, slots=True)
class Share:
    """The user time saved, of the CPU time on base pages."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Found:
    """Two trials of a program in turns, two one by one; None: not obtained."""

    command: str
    turns: tuple[Share | None, Share | None]
    alone: tuple[Share | None, Share | None]


def trial(command: str, options: list[str]) -> tuple[Share | None, int]:
    """One trial, and its pairs; None, and its words, if it has no result of the kind asked for."""
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "trial.json"
        words = [str(TREE / "build/tlbcost"), "trial", "--no-estimate", "--with", "run-thp"]
        words += ["--quiet", "--time-limit", str(_LIMIT_S)]
        words += [*options, "--json", str(document), "--", *shlex.split(command)]
        ran = subprocess.run(
            words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TLBCOST_WAIT_S": "0"},
        )  # fmt: skip
        if ran.returncode != 0:
            print(ran.stderr, file=sys.stderr)
            return None, 0
        found = json.loads(document.read_text(encoding="utf-8"))["trials"][0]
    if found["in_turns"] == (ALONE in options):
        print(f"{command}: its pairs did not run in turns", file=sys.stderr)
        return None, 0
    share, pairs = found["measured_user_fraction"], len(found["pairs"])
    return None if share is None else Share(share["value"], share["low"], share["high"]), pairs


def four(command: str) -> Found:
    """Four trials, alternately: what drifts meets both kinds."""
    turns: list[Share | None] = []
    alone: list[Share | None] = []
    for _ in range(2):
        share, pairs = trial(command, ["--precision", POINTS])
        turns.append(share)
        alone.append(trial(command, [ALONE, "--pairs", str(max(pairs, FEWEST))])[0])
    return Found(command, (turns[0], turns[1]), (alone[0], alone[1]))


def difference(shares: tuple[Share | None, Share | None]) -> float | None:
    """What two trials differ by; None: one was not obtained."""
    first, second = shares
    return None if first is None or second is None else abs(first.value - second.value)


def mean(differences: list[float | None]) -> float | None:
    """Of those that were obtained."""
    known = [each for each in differences if each is not None]
    return fmean(known) if known else None


def row(found: Found) -> str:
    """A line of the table."""
    name = shlex.join(Path(word).name for word in shlex.split(found.command))
    cells = [f"`{name}`"]
    for shares in (found.turns, found.alone):
        cells += [_share(share) for share in shares] + [_points(difference(shares))]
    return f"| {' | '.join(cells)} |"


def _share(share: Share | None) -> str:
    if share is None:
        return "NA"
    value, low, high = (100 * each for each in (share.value, share.low, share.high))
    return f"{value:.1f} % ({low:.1f} to {high:.1f})"


def _points(value: float | None) -> str:
    return "NA" if value is None else f"{100 * value:.1f}"


def main() -> int:
    """Try, and write the section; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="the program of this name alone; nothing is written")
    arguments = parser.parse_args()
    only = arguments.only
    lines = [
        "| program | in turns | again | points | one by one | again | points |",
        "| --- |" + " ---: |" * 6,
    ]
    found = []
    for command in commands(PROGRAMS):
        if only is None or Path(shlex.split(command)[0]).name == only:
            found.append(four(command))
            lines.append(row(found[-1]))
            print(lines[-1], file=sys.stderr, flush=True)
    in_turns, alone = (
        [difference(shares) for shares in kind]
        for kind in ([each.turns for each in found], [each.alone for each in found])
    )
    lines.append(f"| mean | | | {_points(mean(in_turns))} | | | {_points(mean(alone))} |")
    print(lines[-1], file=sys.stderr)
    if only is None:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN, 1)
        section = f"{BEGIN}{chr(10).join(lines)}\n{END}"
        PAGE.write_text(before + section + rest.split(END, 1)[1], encoding="utf-8")
    overall = mean(in_turns)
    return 1 if overall is None or overall > CONTRACT or None in in_turns else 0


if __name__ == "__main__":
    sys.exit(main())
