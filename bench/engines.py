# SPDX-License-Identifier: GPL-2.0-or-later
"""Do copies of a program count what Valgrind's whole run counts? Writes doc/benchmarks.md.

Estimates each program three times, with copies, followed itself (--whole), and with Valgrind: walks
per thousand references on base and on huge pages, the expected gain, and how long each took.
Valgrind's walks are divided by the references of the program that was followed itself: Valgrind
counts those behind an early exit of a block, too. Takes about 40 minutes. Exits 1 if the walks of a
program that was followed itself differ from Valgrind's by more than 5 % and 0.02.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- engines: begin -->\n", "<!-- engines: end -->\n"
# Of data/suite.tsv: one thread each, seconds long.
PROGRAMS = (
    "stream", "random-read", "chase", "hash-lookup", "binary-search", "bfs", "map-lookup", "sort",
    "column-walk", "spmv", "sqlite3", "random-update", "triad", "merge-sort", "btree", "hash-join",
    "pagerank", "lru-cache", "event-queue", "stencil",
)  # fmt: skip
# The limits of the comparison of walks: relative, or per thousand references.
RELATIVE, ABSOLUTE = 0.05, 0.02


@dataclass(frozen=True, slots=True)
class Result:
    """Of one estimate: walks and references in millions, and the gain, if it was modelled."""

    base_walks: float
    huge_walks: float
    references: float
    gain: float | None
    windows: int
    seconds: float


def commands(programs: Sequence[str] = PROGRAMS) -> list[str]:
    """The first command of the suite for each of these programs."""
    found: dict[str, str] = {}
    for line in (TREE / "data/suite.tsv").read_text(encoding="utf-8").splitlines():
        key, _, command = line.removeprefix("# ").partition(": ")
        if not key.startswith("command_"):
            continue
        name = shlex.split(command)[0].removeprefix("{workloads}/")
        found.setdefault(name, command.replace("{workloads}", str(TREE / "build/workloads")))
    return [found[name] for name in programs]


# How each engine is asked for. More copies than an estimate takes: what is compared is not what
# chance does.
ENGINES = {
    "copies": ("--engine", "copies", "--runs", "6", "--copies", "20"),
    "whole": ("--engine", "copies", "--runs", "1", "--whole"),
    "valgrind": ("--engine", "valgrind", "--runs", "1"),
}


def estimate(command: str, engine: str) -> Result:
    """Run `tlbcost estimate` once. Raises CalledProcessError, and ValueError if it was let go."""
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "estimate.json"
        options = [*ENGINES[engine], "--no-measure", "--json", str(document)]
        started = time.monotonic()
        subprocess.run(
            [TREE / "build/tlbcost", "estimate", *options, "--", *shlex.split(command)],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "TLBCOST_WAIT_S": "0"},
        )  # fmt: skip
        seconds = time.monotonic() - started
        found = json.loads(document.read_text(encoding="utf-8"))
    if engine == "whole" and not found["simulation"]["copies"]["whole"]:
        raise ValueError(f"{command} starts a thread or a process")
    return result_of(found, seconds)


def result_of(document: dict[str, Any], seconds: float) -> Result:
    """What a document says of the simulation."""
    simulation = document["simulation"]
    references = simulation["modelled"]["references"]
    walks = {4096: 0.0, document["huge_page_bytes"]: 0.0}
    for row in simulation["counts"]:
        if row["access"] != "fetch":
            walks[row["page_size_bytes"]] += row["stlb_misses"]
    base, huge = (each / 1e6 for each in walks.values())
    expected = simulation["expected_overlap_fraction"]
    gain = None if expected is None else expected["value"]
    windows = simulation["modelled"]["windows"]
    return Result(base, huge, references / 1e6, gain, windows, seconds)


def differs(one: float, valgrind: float) -> bool:
    """Are walks per thousand references further apart than they may be?"""
    return abs(one - valgrind) > max(RELATIVE * valgrind, ABSOLUTE)


def table(programs: list[str]) -> tuple[list[str], int]:
    """The rows, and how many of them are beyond the limit."""
    names = ["copies", "whole", "Valgrind"]
    lines = [
        f"| program | walks, 4 KiB: {' | '.join(names)} | 2 MiB: {' | '.join(names)} "
        f"| gain: {' | '.join(names)} | windows | s: {' | '.join(names)} |",
        "| --- |" + " ---: |" * 13,
    ]
    beyond = 0
    for command in programs:
        found = {engine: estimate(command, engine) for engine in ENGINES}
        whole = found["whole"].references
        # Valgrind counts references behind an early exit of a block, too.
        references = {"copies": found["copies"].references, "whole": whole, "valgrind": whole}
        sizes = [
            [1000 * getattr(found[engine], size) / references[engine] for engine in ENGINES]
            for size in ("base_walks", "huge_walks")
        ]
        wrong = any(differs(size[1], size[2]) for size in sizes)
        beyond += wrong
        cells = [f"`{shlex.join(Path(w).name for w in shlex.split(command))}`"]
        cells += [f"{walks:.3f}" for size in sizes for walks in size]
        cells += [
            "NA" if each.gain is None else f"{100 * each.gain:.1f} %" for each in found.values()
        ]
        cells += [str(found["copies"].windows), *(f"{each.seconds:.1f}" for each in found.values())]
        lines.append(f"| {' | '.join(cells)} |{' <!-- beyond -->' if wrong else ''}")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines, beyond


def main() -> int:
    """Compare, and write the section; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="the program of this name alone; nothing is written")
    only = parser.parse_args().only
    found = [each for each in commands() if only is None or f"/{only} " in f"/{each} "]
    lines, beyond = table(found)
    print(f"{beyond} of {len(found)} beyond a limit", file=sys.stderr)
    if only is None:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN, 1)
        section = f"{BEGIN}{chr(10).join(lines)}\n{END}"
        PAGE.write_text(before + section + rest.split(END, 1)[1], encoding="utf-8")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
