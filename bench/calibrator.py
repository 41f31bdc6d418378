# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the calibrator find the same figures each time, and with other programs alongside?

Calibrates this machine alternately quiet and with `stress-ng --cpu 1 --vm 1` alongside (A B A B
...), so that a machine that changes over the day changes both, and writes the table to
doc/calibrator.md. Each calibration is kept as JSON in a folder; given that folder again, an
interrupted run continues where it was. Full calibrations take two minutes each.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tlbcost.common import paths
from tlbcost.common.cleanup import Stopped, signals_raise
from tlbcost.common.errors import TlbcostError
from tlbcost.processors import published as geometry
from tlbcost.system.machine import current_machine

TREE = Path(__file__).resolve().parent.parent
BUILD = TREE / "build"

STRESS = ["stress-ng", "--cpu", "1", "--vm", "1"]
# Calibrations are ended by themselves long before; a run that hangs must not stay for ever.
TIMEOUT_S = 400
WALK_PAGES = 8192
# What is asked of the calibrator: entries near the published ones, and the same walk each time.
NEAR = {"dtlb_entries": 0.10, "stlb_entries": 0.20}
MARKS = ("<!-- ten runs: begin -->", "<!-- ten runs: end -->")


@dataclass(frozen=True, slots=True)
class Turn:
    """One calibration; figures are None if it did not obtain them (an unconfirmed knee too)."""

    load: str
    number: int
    figures: dict[str, float | None]
    duration_s: float

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.load} {self.number}"


FIGURES = ("dtlb_entries", "stlb_entries", "stlb_hit_ns", "walk_ns")


@contextlib.contextmanager
def other_programs(wanted: bool) -> Iterator[None]:
    """Keep the machine busy inside the block. Raises TlbcostError if that cannot be."""
    if not wanted:
        yield
        return
    # Should we be killed, it ends by itself.
    command = [*STRESS, "--timeout", f"{TIMEOUT_S}s", "--quiet"]
    try:
        process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise TlbcostError(
            f"cannot start stress-ng: {error.strerror}", "apt install stress-ng"
        ) from error
    try:
        # Its memory is touched first.
        time.sleep(2)
        if process.poll() is not None:
            raise TlbcostError(f"stress-ng ended at once: exit code {process.returncode}")
        yield
        if process.poll() is not None:
            raise TlbcostError("stress-ng ended before the calibration did")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def calibrate(extent: str, file: Path) -> None:
    """Calibrate into `file`, whole or not at all. Raises TlbcostError."""
    new = file.with_suffix(".new")
    command = [str(BUILD / "tlbcost"), "calibrate", f"--{extent}", "--recalibrate"]
    # The user's own calibration stays as it is. In a cache of its own a poor one does not give way
    # to a good one, and is measured as often as a good one.
    environment = os.environ | {
        "XDG_CACHE_HOME": str(file.parent / "cache" / file.stem),
        "TLBCOST_WAIT_S": "0",
    }
    with subprocess.Popen(
        [*command, "--json", str(new), "--output", "/dev/null"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            _, said = process.communicate(timeout=TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        last = " ".join(said.split()) or "nothing was said"
        raise TlbcostError(f"tlbcost calibrate: exit code {process.returncode}: {last}")
    new.rename(file)


def read_turn(file: Path, load: str, number: int) -> Turn:
    """The figures of one calibration. Raises TlbcostError naming the file and its defect."""
    try:
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        base = document["machine"]["base_page_bytes"]
        figures: dict[str, float | None] = dict.fromkeys(FIGURES)
        for cost in document["costs"]:
            name = cost["quantity"]
            if name not in FIGURES or cost["page_size_bytes"] != base:
                continue
            if cost["access"] in (None, "serial") and (
                name != "walk_ns" or cost["footprint_pages"] == WALK_PAGES
            ):
                figures[name] = cost["value"]
        return Turn(load, number, figures, float(document["duration_s"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TlbcostError(f"{file}: not a calibration: {error!r}", f"rm {file}") from error


def run_turns(extent: str, runs: int, folder: Path) -> list[Turn]:
    """All calibrations, quiet and busy in turns; those that the folder has are not repeated."""
    turns = []
    for number in range(1, runs + 1):
        for load in ("quiet", "stress-ng"):
            file = folder / f"{extent}-{load}-{number}.json"
            kept = file.exists()
            if not kept:
                with other_programs(load != "quiet"):
                    calibrate(extent, file)
            turn = read_turn(file, load, number)
            turns.append(turn)
            said = "  ".join(f"{name} {_text(turn.figures[name])}" for name in FIGURES)
            print(f"{turn.name:<12}{turn.duration_s:6.1f} s  {said}{'  (kept)' if kept else ''}",
                  flush=True)  # fmt: skip
    return turns


def table(turns: list[Turn], extent: str, runs: int) -> str:
    """The section between the marks."""
    lines = [
        f"Measured by `bench/calibrator.py --runs {runs} --extent {extent}` on "
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, tlbcost {paths.version()},",
        f"{current_machine().cpu_name or platform.machine()}, {os.cpu_count()} CPUs, kernel "
        f"{platform.release()}.",
        f"Runs named stress-ng had `{' '.join(STRESS)}` alongside. NA: not obtained, or not",
        "confirmed by the second pass.",
        "",
        "| run | L1 dTLB entries | STLB entries | STLB hit ns | walk ns | took s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for turn in turns:
        cells = " | ".join(_text(turn.figures[name]) for name in FIGURES)
        lines.append(f"| {turn.name} | {cells} | {turn.duration_s:.1f} |")
    lines += ["", f"Walk ns: serial, base pages, {WALK_PAGES} pages.", ""]
    lines += [f"- {line}" for line in conclusions(turns)]
    return "\n".join(lines)


def conclusions(turns: list[Turn]) -> list[str]:
    """What the table comes to."""
    machine = current_machine()
    core = geometry.published(machine)
    lines = []
    for name, near in NEAR.items():
        level: Any = name.removesuffix("_entries")
        published = core.levels.get((level, machine.base_page_bytes)) if core else None
        if published is None or published.entries is None:
            lines.append(f"{name}: nothing published to compare with")
            continue
        values = [turn.figures[name] for turn in turns]
        good = sum(v is not None and abs(v / published.entries - 1) <= near for v in values)
        lines.append(
            f"{name}: within {near * 100:.0f} % of the published {published.entries} in {good} of "
            f"{len(turns)} runs; not obtained in {values.count(None)}"
        )
    for load in ("quiet", "stress-ng"):
        found = [t.figures["walk_ns"] for t in turns if t.load == load]
        walks = [v for v in found if v is not None]
        if len(walks) < 2:
            lines.append(f"walk_ns, {load}: too few figures for a variation")
            continue
        share = statistics.stdev(walks) / statistics.mean(walks)
        lines.append(
            f"walk_ns, {load}: {statistics.mean(walks):.1f} ns on average, coefficient of "
            f"variation {share * 100:.1f} %"
        )
    return lines


def put_between_marks(page: Path, text: str) -> None:
    """Replace what the page has between the marks. Raises TlbcostError."""
    content = page.read_text(encoding="utf-8")
    before, begin, rest = content.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise TlbcostError(f"{page}: no lines {MARKS[0]} and {MARKS[1]}")
    new = page.with_name(page.name + ".new")
    new.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
    new.rename(page)


def _text(value: float | None) -> str:
    return "NA" if value is None else f"{value:.0f}" if value >= 50 else f"{value:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--extent", choices=("quick", "full"), default="full")
    parser.add_argument("--folder", type=Path, help="where calibrations are kept (a new one)")
    parser.add_argument("--output", type=Path, default=TREE / "doc" / "calibrator.md")
    parser.add_argument("--runs", type=int, default=5, help="of each kind (5)")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error("nothing to measure")
    folder: Path | None = arguments.folder
    try:
        with signals_raise():
            if folder is None:
                folder = Path(tempfile.mkdtemp(prefix="tlbcost-bench-"))
            folder.mkdir(parents=True, exist_ok=True)
            print(f"calibrations are kept in {folder}", flush=True)
            turns = run_turns(arguments.extent, arguments.runs, folder)
            text = table(turns, arguments.extent, arguments.runs)
            print(text)
            put_between_marks(arguments.output, text)
    except Stopped as stopped:
        print(
            f"tlbcost: interrupted\ntlbcost: hint: the same with --folder {folder} continues",
            file=sys.stderr,
        )
        return 128 + stopped.number
    except (TlbcostError, OSError, subprocess.TimeoutExpired) as error:
        print(f"tlbcost: cannot measure the calibrator: {error}", file=sys.stderr)
        hint = getattr(error, "hint", None) or f"the same with --folder {folder} continues"
        print(f"tlbcost: hint: {hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
