# SPDX-License-Identifier: GPL-2.0-or-later
"""How much slower does a program run while its TLB misses are counted?

Runs each program natively and simulated in turns (A B A B ...), so that a machine whose speed
drifts slows both, and writes the ratios to doc/benchmarks.md. Needs a quiet machine and about five
minutes. Exits 1 if a ratio is above its limit, or a program could not be run.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.processors.published import Geometry, PageSizeGeometry, TlbLevel
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import read_counts
from tlbcost.simulator.memory_tables import MEASURED, WARM, plan_for
from tlbcost.simulator.run import find_valgrind, simulator_command

TREE = Path(__file__).resolve().parent.parent
BUILD = TREE / "build"

# A current server core; the ratios hardly depend on it.
GEOMETRY = Geometry(
    base=PageSizeGeometry(4096, TlbLevel(96, 6), TlbLevel(256, 8), TlbLevel(2048, 16)),
    huge=PageSizeGeometry(2 << 20, TlbLevel(32, 4), TlbLevel(32, 8), TlbLevel(2048, 16)),
)
# The core that the overlap model times: as it is built, in a guest on base pages, and with
# neighbours, so that ages are noted.
CORE = "host-shift=12,isolated-pages=8192,l3-half-life-cycles=14000000"
# The median over the programs must not exceed it.
MODEL_LIMIT = 15
TEXT_BYTES = 50_000_000

SQL = """
CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
INSERT INTO t SELECT i, (i * 7919) % 100003, 'name ' || ((i * 104729) % 99991) FROM n;
CREATE INDEX by_k ON t(k);
CREATE INDEX by_name ON t(name);
"""
# Long enough for the simulator's own start to be a small part of it.
QUERIES = """
SELECT count(*), sum(a.id) FROM t a JOIN t b ON a.k = b.id WHERE b.name > 'name 5';
SELECT k % 100, count(*), max(name) FROM t GROUP BY k % 100 ORDER BY 2 DESC LIMIT 3;
UPDATE t SET k = k + 1 WHERE id % 3 = 0;
SELECT count(DISTINCT name) FROM t;
"""

DICTIONARIES = """
counts = {}
state = 1
for i in range(3000000):
    state = (state * 1103515245 + 12345) % 2147483648
    key = "word%d" % (state % 50021)
    counts[key] = counts.get(key, 0) + 1
groups = {}
for key, n in counts.items():
    groups.setdefault(n, []).append(key)
print(len(counts), max(groups), sum(len(v) for v in groups.values()))
"""


@dataclass(slots=True)
class Case:
    """One program, the ratio that it must not exceed (None: no limit), and its times."""

    name: str
    what: str
    command: list[str]
    limit: float | None
    stdin: str = ""
    native_s: list[float] = field(default_factory=list)
    simulated_s: list[float] = field(default_factory=list)
    modelled_s: list[float] = field(default_factory=list)

    def ratio(self) -> float:
        """Slowdown: the median simulated time over the median native one."""
        return statistics.median(self.simulated_s) / statistics.median(self.native_s)

    def modelled_ratio(self) -> float:
        """The same with the overlap model's windows."""
        return statistics.median(self.modelled_s) / statistics.median(self.native_s)

    def ratios(self) -> list[float]:
        """Slowdown in each turn, smallest first."""
        return sorted(s / n for n, s in zip(self.native_s, self.simulated_s, strict=True))


def make_text(path: Path) -> None:
    """Write 50 MB that compress like prose; the same bytes everywhere."""
    if path.exists() and path.stat().st_size == TEXT_BYTES:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    generator = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    shares = [1 / (i + 1) for i in range(len(letters))]
    words = [
        "".join(generator.choices(letters, shares, k=generator.randint(2, 10)))
        for _ in range(20000)
    ]
    # Zipf's law: the n-th most frequent word has 1/n of the first one's frequency.
    sums = [0.0]
    for rank in range(1, len(words) + 1):
        sums.append(sums[-1] + 1 / rank)
    left = TEXT_BYTES
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        while left > 0:
            line = " ".join(generator.choices(words, cum_weights=sums[1:], k=100_000))
            left -= file.write(line.encode()[: left - 1] + b"\n")
    Path(file.name).rename(path)


def cases() -> list[Case]:
    """The programs and their limits."""
    text, workloads = str(BUILD / "bench" / "text"), BUILD / "workloads"
    # The interpreter itself, not a script that looks for one.
    python = os.path.realpath(sys.executable)
    return [
        Case("gzip", "gzip -6 of 50 MB of text", ["gzip", "-6", "-c", text], 4),
        Case("xz", "xz -1 of the same", ["xz", "-1", "-T1", "-c", text], 9),
        Case(
            "sqlite3", "build and query 100k rows", ["sqlite3", ":memory:"], 10, SQL + 12 * QUERIES
        ),
        Case("python3", "dictionaries of words", [python, "-S", "-c", DICTIONARIES], 14),
        # By STREAM's rule: beyond the caches.
        Case("triad", "a = b + s * c, 1 GiB", [str(workloads / "triad"), "--size", "1G"], 3),
        Case("random", "random reads over 1 GiB", [str(workloads / "random-read")], 5),
        Case("updates", "random updates over 1 GiB", [str(workloads / "random-update")], None),
        Case("threads", "two threads, 512 MiB", [str(workloads / "threads")], None),
    ]


def timed(case: Case, before: list[str], environment: dict[str, str]) -> float:
    """Run the program once; the seconds it took. Raises TlbcostError if it fails."""
    start = time.monotonic()
    result = subprocess.run(
        [*before, *case.command],
        input=case.stdin.encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
    )
    seconds = time.monotonic() - start
    if result.returncode != 0:
        how = "simulated" if before else "native"
        last = result.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise TlbcostError(f"{case.name}, {how}: exit code {result.returncode}: {last}")
    return seconds


def measure(case: Case, valgrind: Path, rounds: int) -> None:
    """Fill in the case's times."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    simulating = {**environment, "VALGRIND_LIB": str(paths.valgrind_lib())}
    # The first run reads the program from the disk.
    timed(case, [], environment)
    for _ in range(rounds):
        case.native_s.append(timed(case, [], environment))
        ns = round(case.native_s[-1] * 1e9)
        with tempfile.TemporaryDirectory() as folder:
            plan = plan_for([Run(ns, ns, 0, 0, 0, 0)])
            command = simulator_command(valgrind, Path(folder), GEOMETRY, plan, CORE)
            case.modelled_s.append(timed(case, command, simulating))
        with tempfile.TemporaryDirectory() as folder:
            command = simulator_command(valgrind, Path(folder), GEOMETRY)
            case.simulated_s.append(timed(case, command, simulating))
            counts = [process.counts for process in read_counts(Path(folder))]
        # A simulator that counts nothing would be quick.
        if not counts or not all(c and any(s.l1_tlb_misses for s in c.values()) for c in counts):
            raise TlbcostError(f"{case.name}: the simulator counted nothing")


def cpu_name() -> str:
    """Name of the processor, as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def report(measured: list[Case], valgrind: Path, rounds: int) -> str:
    """The page for doc/benchmarks.md."""
    version = subprocess.run([valgrind, "--version"], capture_output=True, text=True).stdout
    lines = [
        "# How much slower a program runs while it is simulated",
        "",
        f"Measured by `make bench NAME=simulator_slowdown` on "
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d} with tlbcost "
        f"{paths.version()}, {version.strip() or 'valgrind'},",
        f"on {cpu_name()} with {os.cpu_count()} CPUs, kernel {platform.release()}.",
        f"Each program ran alternately natively and simulated, rounds: {rounds}. Slowdown is the",
        "median simulated wall time over the median native one; the range is of single rounds.",
        "",
        "| program | native s | simulated s | slowdown | range | limit | with the overlap model |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in measured:
        limit = "" if case.limit is None else f"{case.limit:g}"
        low, *_, high = [*case.ratios(), case.ratios()[-1]]
        lines.append(
            f"| {case.name}: {case.what} | {statistics.median(case.native_s):.2f} "
            f"| {statistics.median(case.simulated_s):.2f} | {case.ratio():.1f} "
            f"| {low:.1f} to {high:.1f} | {limit} | {case.modelled_ratio():.1f} |"
        )
    lines += [
        "",
        f"With the overlap model: with as many windows of {MEASURED} references, after {WARM} for",
        "warming up, as `tlbcost estimate` uses. The median of the programs is "
        f"{median_modelled(measured):.1f}; the limit is {MODEL_LIMIT}.",
        "",
        "Threads have no limit: Valgrind runs one thread at a time, so a program on n processors",
        "is n times slower before anything is counted.",
        "",
        "Each program is simulated by the command that `tlbcost estimate` uses, for a TLB of 96",
        "entries in 6 ways and 2048 in 16; `bench/simulator_slowdown.py --help` has the details.",
    ]
    return "\n".join(lines) + "\n"


def median_modelled(measured: list[Case]) -> float:
    """Median over the programs of the slowdown with the overlap model."""
    return statistics.median(case.modelled_ratio() for case in measured)


def others_sections(page: Path) -> str:
    """What stands on the page below this program's part, if anything."""
    old = page.read_text() if page.is_file() else ""
    _, heading, rest = old.partition("\n## ")
    return heading + rest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--only", metavar="NAME", action="append", help="measure this one")
    parser.add_argument("--output", type=Path, default=TREE / "doc" / "benchmarks.md")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each program (3)")
    arguments = parser.parse_args()
    chosen = [c for c in cases() if arguments.only is None or c.name in arguments.only]
    if not chosen or arguments.rounds < 1:
        parser.error("nothing to measure")
    try:
        valgrind = find_valgrind()
        make_text(BUILD / "bench" / "text")
        for case in chosen:
            measure(case, valgrind, arguments.rounds)
            limit = "" if case.limit is None else f" (limit {case.limit:g})"
            print(
                f"{case.name:<9}{case.ratio():6.1f}{limit}, modelled {case.modelled_ratio():.1f}",
                flush=True,
            )
        text = report(chosen, valgrind, arguments.rounds)
        arguments.output.write_text(text + others_sections(arguments.output))
    except (TlbcostError, OSError) as error:
        print(f"tlbcost: cannot measure the simulator: {error}", file=sys.stderr)
        return 1
    slow = [c.name for c in chosen if c.limit is not None and c.ratio() > c.limit]
    if median_modelled(chosen) > MODEL_LIMIT:
        slow.append("the median with the overlap model")
    if slow:
        print(f"tlbcost: above the limit: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
