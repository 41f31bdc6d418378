# SPDX-License-Identifier: GPL-2.0-or-later
"""Does any arm of any program of the suite hang? Writes doc/benchmarks.md.

Every program of data/suite.tsv that is here runs with copies that have arms, again and again until
there were enough arms: first with slices between two system calls, then, in turns with that, with
calls that arms answer. An arm that cannot do its work has a reason, and each is counted. Twenty
minutes on a quiet machine. Exits 1 if a run hung, ended other than it should, or left processes.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import read_table
from tlbcost.validation.session import SuiteTask, check_there, read_suite

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- soak: begin -->\n", "<!-- soak: end -->\n"
ARMS, COPIES, SLICES = 1000, 4, 1
RECORDED_CALLS = (0, 2000)
# Programs of the suite take 1 to 3 s.
EXPECTED_NS = 1_500_000_000
# Copies that wait are given up 60 s after the program's end: whatever takes this long hangs.
HUNG_S = 240
_SUBREAPER, _THP_DISABLE = 36, 41


@dataclass(slots=True)
class Soaked:
    """What came of all runs. `outcomes`: of arms that ran; `left`: copies without arms."""

    programs: set[str] = field(default_factory=set)
    runs: int = 0
    copies: int = 0
    arms: int = 0
    pilots: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    hung: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    longest_s: float = 0.0

    def add(self, other: Soaked) -> None:
        """What another run came to."""
        self.programs |= other.programs
        self.runs += other.runs
        self.copies += other.copies
        self.arms += other.arms
        self.pilots += other.pilots
        self.outcomes += other.outcomes
        self.left += other.left
        self.hung += other.hung
        self.failed += other.failed
        self.longest_s = max(self.longest_s, other.longest_s)


def soak(task: SuiteTask, calls: int) -> Soaked:
    """One run of a program with copies that have arms."""
    found = Soaked(programs={task.name}, runs=1)
    with tempfile.TemporaryDirectory() as name:
        words = [
            str(paths.libexec("tlbcost-copies")), "--out", name, "--arms", str(SLICES),
            "--record", str(calls), "--copies", str(COPIES), "--expected-cpu-ns",
            str(EXPECTED_NS), "--discard", "--run", f"{name}/run", "--", *task.argv,
        ]  # fmt: skip
        begun = time.monotonic()
        code = run(words)
        found.longest_s = max(found.longest_s, time.monotonic() - begun)
        if code is None:
            found.hung.append(task.name)
        elif code != 0:
            found.failed.append(f"{task.name}: exit code {code}")
        if left := left_over():
            found.failed.append(f"{task.name}: left {', '.join(left)}")
        if code is not None:
            account(Path(name), found)
    return found


def run(words: Sequence[str]) -> int | None:
    """Its exit code; None: it hung, and was killed."""
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            return process.wait(HUNG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return None


def become_parent() -> None:
    """Runs are on base pages whatever the system's mode, and what outlives one is our child."""
    libc = ctypes.CDLL(None)
    if libc.prctl(_SUBREAPER, 1, 0, 0, 0) or libc.prctl(_THP_DISABLE, 1, 0, 0, 0):
        raise OSError("prctl() failed")


def left_over() -> list[str]:
    """Processes of a run that outlived it: they are our children now. They are killed."""
    time.sleep(0.2)
    left = []
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with contextlib.suppress(ChildProcessError, FileNotFoundError):
            status = Path(f"/proc/{pid}/stat").read_text()
            # Dead ones were left to be reaped by whoever comes.
            if os.waitpid(int(pid), os.WNOHANG)[0] == 0:
                left.append(" ".join(status.split()[1:3]))
                os.kill(int(pid), signal.SIGKILL)
                os.waitpid(int(pid), 0)
    return left


def account(folder: Path, found: Soaked) -> None:
    """Every copy and every arm of a run."""
    for row in read_table(folder / "copies.tsv", formats.COPIES).records():
        if row["result"] == "followed":
            found.copies += 1
        else:
            found.left[row["result"] or ""] += 1
    for path in folder.glob("slices.*.tsv"):
        last: dict[tuple[str, str], str] = {}
        for row in read_table(path, formats.SLICES).records():
            last[row["window"] or "", row["arm"] or ""] = row["outcome"] or ""
        for _, arms in itertools.groupby(sorted(last.items()), lambda item: item[0][0]):
            words = [outcome for _, outcome in arms]
            found.pilots += words != ["memory"]
            # One row alone: the pilot ended it, and says why.
            found.arms += len(words) if len(words) > 1 else 0
            found.outcomes.update(words)


def lines_of(found: Soaked) -> list[str]:
    """What is written of them."""
    outcomes = ", ".join(f"{word} {n}" for word, n in found.outcomes.most_common())
    left = ", ".join(f"{word} {n}" for word, n in found.left.most_common()) or "none"
    return [
        f"{found.arms + found.pilots} arms ran ({found.pilots} of them pilots), of {found.copies} "
        f"copies of {len(found.programs)} programs in {found.runs} runs: {len(found.hung)} runs "
        f"hung, {len(found.failed)} ended other than they should. The longest run took "
        f"{found.longest_s:.0f} s.",
        "",
        f"How arms ended: {outcomes}. Instants without arms: {left}.",
        *(f"Hung: {name}." for name in found.hung),
        *(f"Failed: {what}." for what in found.failed),
    ]


def there(only: Sequence[str]) -> list[SuiteTask]:
    """The programs of the suite that are on this system."""
    tasks = []
    for task in read_suite(only):
        try:
            check_there(task.argv)
        except TlbcostError as error:
            print(f"{task.name}: left out: {error}", file=sys.stderr)
            continue
        tasks.append(task)
    return tasks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", metavar="N", type=int, default=ARMS, help="this many at least")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="at the same time")
    parser.add_argument("--only", metavar="NAME", action="append", help="these programs alone")
    options = parser.parse_args()
    least = options.arms
    tasks, found = there(options.only or ()), Soaked()
    for turn in itertools.count():
        before = found.arms
        calls = RECORDED_CALLS[turn % len(RECORDED_CALLS)]
        with ProcessPoolExecutor(options.jobs, initializer=become_parent) as pool:
            for each in pool.map(soak, tasks, itertools.repeat(calls)):
                found.add(each)
                print(f"{found.arms + found.pilots} arms of {found.runs} runs", *each.programs,
                      *each.hung, *each.failed, flush=True)  # fmt: skip
                # All programs have had a run by then; those that wait are left out.
                if turn and found.arms + found.pilots >= least:
                    break
        if found.arms + found.pilots >= least or found.arms == before:
            break
    lines = lines_of(found)
    print("\n".join(lines))
    if not options.only:
        text = PAGE.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        _, _, tail = rest.partition(END)
        body = "\n".join([*lines, ""])
        PAGE.write_text(f"{head}{BEGIN}{body}{END}{tail}", encoding="utf-8")
    return 1 if found.hung or found.failed or found.arms + found.pilots < least else 0


if __name__ == "__main__":
    sys.exit(main())
