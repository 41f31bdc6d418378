# SPDX-License-Identifier: GPL-2.0-or-later
"""How much slower does a program run while its placement is followed?

Prints rows of the table in doc/numa.md: natively, simulated for the TLBs alone, with every
reference followed, and with a sample; the medians of three turns, on a quiet machine. Takes a
minute.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"

PROGRAMS = {
    "hash-lookup": ["--size", "128M", "--count", "1M"],
    "spmv": ["--rows", "300k"],
    "matmul": ["--order", "500"],
    "numa-vector": ["--rounds", "4"],
    "numa-graph": ["--size", "64M", "--count", "700k"],
}
TURNS = 3
WAYS: dict[str, list[str] | None] = {
    "natively": None,
    "TLBs alone": [],
    "every reference": ["--placement=1:0:1"],
    "a sample": ["--placement=4000000:250000:750000"],
}


def seconds(command: list[str], options: list[str] | None) -> float:
    """Wall time of one run; under the simulator with these options, unless None."""
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        if options is not None:
            environment["VALGRIND_LIB"] = str(BUILD / "libexec" / "valgrind")
            tool = ["valgrind.bin", "--tool=tlbsim", "--vgdb=no", "--fair-sched=try"]
            tool += [f"--log-file={folder}/log", f"--counts-dir={folder}", *options]
            command = [*tool, *command]
        start = time.monotonic()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - start


def main() -> None:
    """Print the table."""
    print("| program |", " | ".join(f"{way}, s" for way in WAYS), "| times |")
    print("| --- |" + " --- |" * (len(WAYS) + 1))
    for name, arguments in PROGRAMS.items():
        command = [str(BUILD / "workloads" / name), *arguments]
        turns = [[seconds(command, way) for way in WAYS.values()] for _ in range(TURNS)]
        found = [statistics.median(times) for times in zip(*turns, strict=True)]
        times = " / ".join(f"{each / found[0]:.1f}" for each in found[1:])
        shown = " ".join([name, *arguments])
        print(f"| {shown} |", " | ".join(f"{each:.2f}" for each in found), f"| {times} |")


if __name__ == "__main__":
    main()
