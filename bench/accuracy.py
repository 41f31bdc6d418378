# SPDX-License-Identifier: GPL-2.0-or-later
"""How far are estimates from what huge pages give on this machine?

Has `tlbcost validate` run the suite, keeps the record below data/samples, and writes the section
of doc/accuracy.md from the records of all machines. With --written nothing is run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tlbcost.accuracy.checks import Record
from tlbcost.accuracy.figure import draw_record
from tlbcost.accuracy.record import RECORD, format_record, read_record
from tlbcost.accuracy.report import markdown
from tlbcost.common.output import write_file
from tlbcost.processors.published import record_name
from tlbcost.system.machine import current_machine

TREE = Path(__file__).resolve().parent.parent

SAMPLES = TREE / "data" / "samples"
PAGE = TREE / "doc" / "accuracy.md"
MARKS = ("<!-- machines: begin -->", "<!-- machines: end -->")


def run_suite(record: Path, pairs: int, only: str | None) -> int:
    """Run the suite, or these programs of it, whose earlier trials they replace; the exit code."""
    record.parent.mkdir(parents=True, exist_ok=True)
    command = [str(TREE / "build" / "tlbcost"), "validate", "--recalibrate"]
    command += ["--pairs", str(pairs)]
    if only is None:
        return subprocess.run([*command, "--table", str(record)], check=False).returncode
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / RECORD
        command += ["--only", only, "--table", str(table)]
        code = subprocess.run(command, check=False).returncode
        if code == 0:
            keep(record, read_record(table))
        return code


def keep(path: Path, new: Record) -> None:
    """Write the record with the programs of an earlier one that were not tried again."""
    tried = {program.name for program in new.programs}
    earlier = read_record(path).programs if path.exists() else ()
    kept = tuple(program for program in earlier if program.name not in tried)
    write_file(path, format_record(replace(new, programs=(*kept, *new.programs))))


def section(path: Path) -> str:
    """What the page says of one machine, whose figure is drawn beside it."""
    record = read_record(path)
    name = path.parent.name
    figure = PAGE.with_name(f"accuracy-{name}.png")
    draw_record(record, figure)
    return f"### {name}\n\n{markdown(record)}\n\n![expected and measured gains]({figure.name})\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Judge estimates by runs on huge pages.")
    parser.add_argument("--written", action="store_true", help="run nothing; use what is recorded")
    parser.add_argument("--only", metavar="NAMES", help="try only these, separated by commas")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs of each program (5)")
    arguments = parser.parse_args()
    if not arguments.written:
        record = SAMPLES / record_name(current_machine()) / RECORD
        code = run_suite(record, arguments.pairs, arguments.only)
        if code != 0:
            return code
    text = PAGE.read_text(encoding="utf-8")
    head, begin, rest = text.partition(MARKS[0])
    _, end, tail = rest.partition(MARKS[1])
    if not begin or not end:
        print(f"bench-accuracy: {PAGE}: no section between {' and '.join(MARKS)}", file=sys.stderr)
        return 1
    sections = "\n".join(section(path) for path in sorted(SAMPLES.glob(f"*/{RECORD}")))
    PAGE.write_text(f"{head}{begin}\n{sections}{end}{tail}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
