# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a plan's memory worth it? Writes doc/benchmarks.md.

Of each program a plan is made (`estimate --plan`), and then it runs in turn on base pages, with the
plan, and with THP `always`, as root: what part of the user time that huge pages save does the plan
save, for what part of the memory that they add? A minute or two a program. THP is put back. Exits 1
if a plan saves less than three quarters of the whole, or adds more than a quarter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, stdev

from tlbcost.attribution.document import words
from tlbcost.attribution.sites import SitePlan, plan_variables
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.document import from_json
from tlbcost.settings.change import Settings, system_settings
from tlbcost.system.machine import THP

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- plans: begin -->\n", "<!-- plans: end -->\n"
TLBCOST, MODE = str(TREE / "build" / "tlbcost"), f"{THP}/enabled"
ROUNDS = 6
GAIN, GROWTH = 0.75, 0.25
MIB = 1 << 20
# A load that ends the server; on one CPU, so that the other can follow copies.
REDIS = """#!/bin/sh
redis-server --port 7788 --save '' --appendonly no >/dev/null &
until redis-cli -p 7788 ping >/dev/null 2>&1; do sleep 0.1; done
redis-benchmark -p 7788 -q -n 400000 -r 1000000 -P 32 -t set -d 100 >/dev/null
redis-benchmark -p 7788 -q -n 1500000 -r 1000000 -P 32 -t get >/dev/null
redis-cli -p 7788 shutdown nosave
wait
"""
SQL = """PRAGMA temp_store=MEMORY;
CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v TEXT);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<1000000)
INSERT INTO t SELECT i, (i*2654435761)%1000003, hex(i*2654435761)||hex(i)||hex(i*7) FROM c;
CREATE INDEX tk ON t(k);
SELECT sum(length(b.v)) FROM t a CROSS JOIN t b ON b.k = (a.id*40503)%1000003;
"""


@dataclass(slots=True)
class Runs:
    """User time in s and peak memory in bytes, of each way to run."""

    user: dict[str, list[float]] = field(default_factory=dict)
    peak: dict[str, list[int]] = field(default_factory=dict)

    def saved(self, way: str) -> tuple[float, float]:
        """The part of the user time that a way saves, and its standard error."""
        parts = [1 - a / b for a, b in zip(self.user[way], self.user["base"], strict=True)]
        return fmean(parts), stdev(parts) / len(parts) ** 0.5

    def grown(self, way: str) -> float:
        return median(self.peak[way]) - median(self.peak["base"])


def programs(folder: Path) -> dict[str, list[str]]:
    """Commands by name."""
    (folder / "redis.sh").write_text(REDIS)
    (folder / "sqlite.sql").write_text(SQL)
    planted, service = str(folder / "planted"), str(folder / "service")
    subprocess.run(["g++", "-O2", "-g", "-o", planted, TREE / "bench" / "planted.cc"], check=True)
    found = {
        "C++, planted sites": [planted],
        "redis": ["taskset", "-c", "0", "sh", str(folder / "redis.sh")],
        "sqlite": ["sqlite3", ":memory:", f".read {folder / 'sqlite.sql'}"],
    }
    if shutil.which("go") is not None:
        subprocess.run(["go", "build", "-o", service, TREE / "bench" / "planted.go"], check=True)
        found["Go"] = [service]
    return {name: argv for name, argv in found.items() if shutil.which(argv[0])}


def measure(argv: list[str], plan: Path, settings: Settings) -> Runs:
    """In turn; each way has been first as often as the others."""
    # As `run --plan` starts it, whose own time is not the program's.
    planned = dict(os.environ) | plan_variables(plan)
    ways = {"base": ("madvise", None), "plan": ("madvise", planned), "huge": ("always", None)}
    found = Runs()
    for number in range(ROUNDS):
        names = list(ways)
        for name in names[number % 3 :] + names[: number % 3]:
            mode, environment = ways[name]
            settings.write(MODE, mode)
            child = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            if os.waitstatus_to_exitcode(status):
                raise SystemExit(f"{argv}: {os.waitstatus_to_exitcode(status)}")
            found.user.setdefault(name, []).append(usage.ru_utime)
            found.peak.setdefault(name, []).append(usage.ru_maxrss << 10)
    return found


def row(name: str, argv: list[str], folder: Path, settings: Settings) -> tuple[str, bool]:
    """A program's line of the table, and whether its plan does what it should."""
    settings.write(MODE, "madvise")
    plan, said = folder / "plan.json", folder / "said"
    plan.unlink(missing_ok=True)
    asked = ["estimate", "--plan", str(plan), "--no-measure", "--quiet", "--output", "/dev/null"]
    with said.open("w") as errors:
        subprocess.run([TLBCOST, *asked, "--", *argv], stdout=subprocess.DEVNULL,
                       stderr=errors, check=False)  # fmt: skip
    if not plan.exists():
        why = (
            (said.read_text().splitlines() or ["?"])[0]
            .removeprefix("tlbcost: ")
            .removeprefix("no plan: ")
        )
        return f"| {name} | no plan: {why} | | | | |", False
    made = from_json(plan.read_text(), SitePlan)
    runs = measure(argv, plan, settings)
    (gain, gain_error), (whole, whole_error) = runs.saved("plan"), runs.saved("huge")
    growth, all_growth = runs.grown("plan"), runs.grown("huge")
    place = words(made.sites[0].site)
    more = f" and {len(made.sites) - 1} more" if made.sites[1:] else ""
    shares = (
        f"{100 * gain:.1f} ± {100 * gain_error:.1f} | {100 * whole:.1f} ± {100 * whole_error:.1f}"
    )
    added = f"{growth / MIB:+.0f} | {all_growth / MIB:+.0f}"
    return (
        f"| {name} | {place}{more} | {shares} | {added} |",
        gain >= GAIN * whole and growth <= max(GROWTH * all_growth, 4 * MIB),
    )


def main() -> int:
    lines = [
        "| program | the plan's memory | user time saved by the plan, % | by THP always | memory "
        "added by the plan, MiB | by THP always |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    good = True
    with tempfile.TemporaryDirectory() as name, system_settings() as settings:
        for program, argv in programs(Path(name)).items():
            line, well = row(program, argv, Path(name), settings)
            print(line, flush=True)
            lines, good = [*lines, line], good and well
    head, _, tail = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    text = "\n".join(lines)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n\n{END}{tail.partition(END)[2]}", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(until_stopped(main))
