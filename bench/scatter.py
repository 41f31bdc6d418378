# SPDX-License-Identifier: GPL-2.0-or-later
"""What is a gain where base pages are scattered, and where they lie in a row?

Pairs of runs of a hash table in Perl, in turns. Before each, memory is touched and freed on the CPU
of the runs, or on another CPU, which then keeps the scattered pages. After them, as many plain
runs, one by one. Root, two CPUs and a VM that reports free pages to its host; five minutes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean, stdev

from packaged import FILES
from tlbcost.common.progress import RunProgress
from tlbcost.measured import catalog, whole_runs
from tlbcost.memory.peak import PeakMemory
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.run.launch import launcher_of, resolve
from tlbcost.run.turns import on_cpus
from tlbcost.system.machine import reports_free_pages

METHOD = "glibc-thp"


class Frames(PeakSampler):
    """Knows the share of the program's pages that lie alone in 32 KiB."""

    made: list[Frames] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(frames=True)
        self.alone = 0.0
        self.made.append(self)

    def stop(self) -> PeakMemory | None:
        found = super().stop()
        if found is not None:
            self.alone = 4096 * (self.isolated_pages() or 0) / found.resident_bytes
        return found


def user_s(argv: list[str], environment: dict[str, str]) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    return user, user + after.ru_stime - before.ru_stime


def plain(argv: list[str], pairs: int) -> list[float]:
    """Gains in percent of pairs without tlbcost."""
    gains = []
    huge = catalog.named(METHOD).environment_of(os.environ)
    for n in range(pairs):
        ways = [dict(os.environ), huge][:: -1 if n % 2 else 1]
        base, other = [user_s(argv, way) for way in ways][:: -1 if n % 2 else 1]
        gains.append(100 * (base[0] - other[0]) / base[1])
    return gains


def words(gains: list[float]) -> str:
    error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
    return f"{fmean(gains):.1f} ± {error:.1f} %, {len(gains)} pairs" if gains else "no pairs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=12, help="of each kind")
    asked = parser.parse_args()
    allowed = sorted(os.sched_getaffinity(0))
    if os.geteuid() != 0 or len(allowed) < 2 or not reports_free_pages():
        print("needs root, two CPUs, and a VM that reports free pages", file=sys.stderr)
        return 4
    at_hand, own, other = whole_runs.have_at_hand, allowed[-1], allowed[0]
    seen: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder, launcher_of(None) as launcher:
        script = Path(folder) / "h.pl"
        script.write_text(FILES["h.pl"], encoding="utf-8")
        argv = ["perl", str(script)]
        method = catalog.named(METHOD)
        with RunProgress("pairs of runs", 4 * asked.pairs) as progress:
            runner = whole_runs.PairRunner(launcher, argv, resolve("perl"), progress)
            runner.take_turns(runner.base().run)
            runner.cpus = frozenset([own])
            vars(whole_runs)["PeakSampler"] = Frames
            for n in range(2 * asked.pairs):
                on = other if n % 2 else own
                vars(whole_runs)["have_at_hand"] = lambda run, _, on=on: at_hand(run, [on])
                Frames.made.clear()
                base, huge = runner.pair(method, huge_first=n // 2 % 2 == 1)
                gain = 100 * (base.run.user_ns - huge.run.user_ns) / base.run.cpu_ns
                seen.append((Frames.made[0].alone, gain))
                print(f"alone {seen[-1][0]:.2f}, gain {gain:.1f} %", flush=True)
        print(
            "in a row (at most 5 % alone):", words([gain for alone, gain in seen if alone <= 0.05])
        )
        print("scattered (10 % or more):", words([gain for alone, gain in seen if alone >= 0.1]))
        with on_cpus([own]):
            print("plain runs:", words(plain(argv, asked.pairs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
