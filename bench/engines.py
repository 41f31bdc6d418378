# SPDX-License-Identifier: GPL-2.0-or-later
"""Do copies of a program count what Valgrind's whole run counts? Writes doc/benchmarks.md.

Estimates each program twice, with --engine copies and --engine valgrind: walks per thousand
references on base and on huge pages, the expected gain, and how long each took. Valgrind's walks
are divided by the references of a third run, which is followed itself: Valgrind counts those behind
an early exit of a block, too. Takes about half an hour. Exits 1 if a program's walks differ by more
than 5 % and 0.02, or its gain by more than 2 points.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tlbcost.calibration.request import calibration_for
from tlbcost.common import paths
from tlbcost.copies.run import CopyPlan, copies_tool, was_followed_to_its_end
from tlbcost.copies.tables import read_tables
from tlbcost.simulator.geometry import geometry_for
from tlbcost.system.machine import current_machine, huge_page_or_assumed

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- engines: begin -->\n", "<!-- engines: end -->\n"
# Of data/suite.tsv: one thread each, seconds long.
PROGRAMS = (
    "stream", "random-read", "chase", "hash-lookup", "binary-search", "bfs", "map-lookup", "sort",
    "column-walk", "spmv", "sqlite3", "random-update", "triad", "merge-sort", "btree", "hash-join",
    "pagerank", "lru-cache", "event-queue", "stencil",
)  # fmt: skip
# The limits of the comparison: of walks, relative or per thousand references; of the gain.
RELATIVE, ABSOLUTE, POINTS = 0.05, 0.02, 0.02


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


def estimate(command: str, engine: str) -> Result:
    """Run `tlbcost estimate` once. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "estimate.json"
        options = ["--engine", engine, "--no-measure", "--json", str(document)]
        # More copies than an estimate takes: what is compared is not what chance does.
        options += ["--runs", "1"] if engine == "valgrind" else ["--runs", "6", "--copies", "20"]
        started = time.monotonic()
        subprocess.run(
            [TREE / "build/tlbcost", "estimate", *options, "--", *shlex.split(command)],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "TLBCOST_WAIT_S": "0"},
        )  # fmt: skip
        seconds = time.monotonic() - started
        return result_of(json.loads(document.read_text(encoding="utf-8")), seconds)


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


def whole_run(command: str) -> Result:
    """Of a run that is followed itself, without timing. Raises ValueError if it was let go."""
    calibration = calibration_for(None, recalibrate=False).calibration
    machine = current_machine()
    geometry = geometry_for(calibration, machine, huge_page_or_assumed(machine)[0])
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tool = copies_tool(CopyPlan(geometry, None, 1.0), folder, whole=True)
        subprocess.run(
            [paths.libexec(tool[0]), *tool[1:], "--", *shlex.split(command)],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        tables = read_tables([folder])
    if not was_followed_to_its_end(tables):
        raise ValueError(f"{command} starts a thread or a process")
    counts = tables.counts[tables.counts["side"] != "fetch"]
    walks = (counts["stlb_misses"] + counts["unknown_misses"]).groupby(counts["page_size_bytes"])
    base, huge = (float(each) / 1e6 for each in walks.sum().sort_index())
    if geometry.huge.entry_bytes == geometry.base.page_size_bytes:
        # The hypervisor splits huge pages: misses are those of its pages.
        huge = base
    references = float(tables.windows["references"].sum()) / 1e6
    return Result(base, huge, references, None, len(tables.windows), time.monotonic() - started)


def differs(copies: float, whole: float) -> bool:
    """Are walks per thousand references further apart than they may be?"""
    return abs(copies - whole) > max(RELATIVE * whole, ABSOLUTE)


def gains_differ(copies: float | None, valgrind: float | None) -> bool:
    """Are gains further apart than they may be, or is there only one?"""
    if copies is None or valgrind is None:
        return copies is not valgrind
    return abs(copies - valgrind) > POINTS


def table(programs: list[str]) -> tuple[list[str], int]:
    """The rows, and how many of them are beyond a limit."""
    lines = [
        "| program | walks, 4 KiB: copies | followed itself | Valgrind | 2 MiB: copies "
        "| followed itself | Valgrind | gain: copies | Valgrind | windows | s: copies | Valgrind |",
        "| --- |" + " ---: |" * 11,
    ]
    beyond = 0
    for command in programs:
        copies = estimate(command, "copies")
        # Counts do not depend on what else runs.
        with ThreadPoolExecutor(1) as other:
            followed = other.submit(whole_run, command)
            valgrind = estimate(command, "valgrind")
            whole = followed.result()
        # Valgrind counts references behind an early exit of a block, too.
        triples = [
            tuple(1000 * each / references for each, references in both)
            for both in (
                ((copies.base_walks, copies.references), (whole.base_walks, whole.references),
                 (valgrind.base_walks, whole.references)),
                ((copies.huge_walks, copies.references), (whole.huge_walks, whole.references),
                 (valgrind.huge_walks, whole.references)),
            )
        ]  # fmt: skip
        wrong = any(differs(triple[0], triple[2]) or differs(triple[1], triple[2])
                    for triple in triples)  # fmt: skip
        wrong = wrong or gains_differ(copies.gain, valgrind.gain)
        beyond += wrong
        cells = [f"`{shlex.join(Path(w).name for w in shlex.split(command))}`"]
        cells += [f"{walks:.3f}" for triple in triples for walks in triple]
        cells += [
            "NA" if each.gain is None else f"{100 * each.gain:.1f} %" for each in (copies, valgrind)
        ]
        cells += [str(copies.windows), f"{copies.seconds:.1f}", f"{valgrind.seconds:.1f}"]
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
