# SPDX-License-Identifier: GPL-2.0-or-later
"""What do four machines cost in one simulated run, compared with one? Writes doc/benchmarks.md.

Each program is simulated as tlbcost estimate --machine does it, windows and all, and with
--backend's counts alone; the median of the rounds. Needs a quiet machine and three minutes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from tlbcost.common.errors import TlbcostError
from tlbcost.machines.estimate import windows_for
from tlbcost.machines.plan import BASE_BYTES, HUGE_BYTES, machine_named, plan_pass
from tlbcost.run.launch import Launcher, launcher_of, native_runs
from tlbcost.simulator.run import find_valgrind, simulate

TREE = Path(__file__).resolve().parent.parent

PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- machines: begin -->\n", "<!-- machines: end -->\n"
ONE, FOUR = ("skx",), ("skx", "snb", "icx", "zen4")
PROGRAMS = (
    "hash-lookup --size 64M --count 2000000",
    "map-lookup --keys 200000 --count 300000",
    "sort --size 16M --bits 11",
    "btree --keys 800000 --count 800000",
    "stream --rounds 2",
)


def seconds(launcher: Launcher, argv: list[str], names: tuple[str, ...], timed: bool) -> float:
    """What one simulated run for these machines takes."""
    machines = [machine_named(name, (BASE_BYTES, HUGE_BYTES), None, None) for name in names]
    plan = plan_pass(machines)
    native = native_runs(launcher, argv, Path(argv[0]), 1, ignore_failure=False)
    windows = windows_for(len(plan.cells)) if timed else None
    core = plan.core.option if timed and plan.core is not None else None
    found = simulate(
        launcher, find_valgrind(), plan.geometry, argv, native[0], windows, core, plan.options
    )
    assert found.outcome.run is not None
    return (found.outcome.run.user_ns + found.outcome.run.system_ns) / 1e9


def rows(launcher: Launcher, rounds: int) -> list[str]:
    """The table."""
    lines = [
        "| program | one, counts | four, counts | ratio | one, windows | four, windows | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    ratios: list[list[float]] = [[], []]
    for program in PROGRAMS:
        name, *rest = program.split()
        argv = [str(TREE / "build/workloads" / name), *rest]
        cells = [f"`{program}`"]
        for which, timed in enumerate((False, True)):
            times: dict[tuple[str, ...], list[float]] = {ONE: [], FOUR: []}
            for _ in range(rounds):
                for names in times:
                    times[names].append(seconds(launcher, argv, names, timed))
            one, four = (statistics.median(times[names]) for names in (ONE, FOUR))
            ratios[which].append(four / one)
            cells += [f"{one:.1f} s", f"{four:.1f} s", f"{four / one:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr)
    counts, windows = (statistics.geometric_mean(each) for each in ratios)
    lines.append(f"| geometric mean | | | {counts:.2f} | | | {windows:.2f} |")
    return lines


def main() -> int:
    """Measure, and write the section; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    with launcher_of(None) as launcher:
        table = "\n".join(rows(launcher, rounds))
    text = PAGE.read_text(encoding="utf-8")
    section = f"{BEGIN}CPU time of the simulation, {rounds} round(s).\n\n{table}\n{END}"
    before, rest = text.split(BEGIN, 1)
    PAGE.write_text(before + section + rest.split(END, 1)[1], encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TlbcostError as error:
        print(f"bench-machines: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
