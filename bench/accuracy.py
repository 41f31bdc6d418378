# SPDX-License-Identifier: GPL-2.0-or-later
"""How far are estimates from what huge pages give on this machine?

Has `tlbcost validate` run the suite and keeps the record below data/samples. From the records of
all machines it writes the summary in doc/accuracy.md, and doc/accuracy/<machine>.md with a figure
for each. With --written nothing is run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from tlbcost.accuracy.record import RECORD, Accuracy, Record, accuracy, format_record, read_record
from tlbcost.accuracy.report import draw_record, markdown
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.common.output import write_file
from tlbcost.processors.published import record_name
from tlbcost.system.machine import current_machine
from tlbcost.validation.session import read_suite

TREE = Path(__file__).resolve().parent.parent

SAMPLES = TREE / "data" / "samples"
PAGE = TREE / "doc" / "accuracy.md"
PAGES = PAGE.with_suffix("")
# How well a trial has to know what huge pages save: then its standard error is one point.
POINTS = 2
MARKS = ("<!-- machines: begin -->", "<!-- machines: end -->")
HEAD = "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n# Estimates and trials on {name}\n\n"
EXPLAINED = """Shares of the base run time; errors are estimated less saved in the trial, in points.
The bound and the expected gain, which is the measured one where there is one, are of cheaper
translation and are compared with the user time that huge pages saved. Expected gain and page faults
together are compared with all time saved. Summary of all machines: [accuracy.md](../accuracy.md).
"""


def run_suite(record: Path, pairs: int, names: Sequence[str]) -> int:
    """Run these programs of the suite, whose earlier trials they replace; the exit code."""
    record.parent.mkdir(parents=True, exist_ok=True)
    command = [str(TREE / "build" / "tlbcost"), "validate"]
    command += ["--pairs", str(pairs), "--precision", str(POINTS)]
    # Once: the memory that a calibration leaves free is less in pieces than what programs leave.
    anew = ["--recalibrate"]
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / RECORD
        for name in names:
            code = subprocess.run(
                [*command, *anew, "--only", name, "--table", str(table)], check=False
            ).returncode
            anew = []
            if code not in (0, CANNOT_MEASURE):
                return code
            # After each: an interrupted run is continued with --only.
            keep(record, read_record(table))
    return 0


def keep(path: Path, new: Record) -> None:
    """Write the record with the programs of an earlier one that were not run again."""
    repeated = {program.name for program in new.programs}
    earlier = read_record(path).programs if path.exists() else ()
    kept = tuple(program for program in earlier if program.name not in repeated)
    write_file(path, format_record(replace(new, programs=(*kept, *new.programs))))


def write_machine(path: Path) -> None:
    """The page of one machine, and its figure."""
    record = read_record(path)
    name = path.parent.name
    draw_record(record, PAGES / f"{name}.png")
    text = f"{HEAD.format(name=name)}{EXPLAINED}\n{markdown(record)}\n"
    text += f"\n![expected and measured gains]({name}.png)\n"
    (PAGES / f"{name}.md").write_text(text, encoding="utf-8")


def summary(records: dict[str, Record]) -> str:
    """One row for each machine, then a figure for each."""
    lines = [
        "| machine | programs | measured: off by | at worst | within the interval "
        "| modelled: off by | at worst | within the interval | always saying zero "
        "| misses times cost | bound |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, record in records.items():
        found = accuracy(record.checks)
        modelled, bound = found.get("overlap", found["expected"]), found["bound"]
        zero = fmean(abs(check.gain.user.value) for check in record.checks)
        simple = f"{100 * found['simple'].mean:.1f}" if "simple" in found else "NA"
        lines.append(
            f"| [{name}](accuracy/{name}.md) | {len(record.checks)} | "
            f"{cells(found.get('measured'))} | {cells(modelled)} | {100 * zero:.1f} | {simple} "
            f"| {100 * bound.mean:.1f} |"
        )
    for name in records:
        lines += ["", f"![expected and measured gains on {name}](accuracy/{name}.png)"]
    return "\n".join(lines)


def cells(errors: Accuracy | None) -> str:
    """Three: the mean and the largest error, and how many are within their interval."""
    if errors is None:
        return "NA | NA | NA"
    return (
        f"{100 * errors.mean:.1f} | {100 * errors.largest:.1f} ({errors.worst}) | "
        f"{errors.inside} of {errors.programs}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Judge estimates by runs on huge pages.")
    parser.add_argument("--written", action="store_true", help="run nothing; use what is recorded")
    parser.add_argument("--only", metavar="NAMES", help="run only these, separated by commas")
    parser.add_argument("--pairs", type=int, default=5, help="fewest pairs of a program (5)")
    arguments = parser.parse_args()
    if not arguments.written:
        record = SAMPLES / record_name(current_machine()) / RECORD
        only = [] if arguments.only is None else arguments.only.split(",")
        names = [task.name for task in read_suite(only)]
        code = run_suite(record, arguments.pairs, names)
        if code != 0:
            return code
    text = PAGE.read_text(encoding="utf-8")
    head, begin, rest = text.partition(MARKS[0])
    _, end, tail = rest.partition(MARKS[1])
    if not begin or not end:
        print(f"bench-accuracy: {PAGE}: no section between {' and '.join(MARKS)}", file=sys.stderr)
        return 1
    paths = sorted(SAMPLES.glob(f"*/{RECORD}"))
    for path in paths:
        write_machine(path)
    text = summary({path.parent.name: read_record(path) for path in paths})
    PAGE.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
