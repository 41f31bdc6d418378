# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the remedy for a file in /dev/shm give what was predicted? Into doc/acceptance.md.

    make bench NAME=acceptance     (root, a quiet machine, three minutes)

A numpy program that indexes a file of /dev/shm at random is estimated; then each remedy that the
report gives for the file is followed, and the program runs on base and on huge pages in turn.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parent.parent
BUILD = TREE / "build"

PAIRS = 12
FILE = "/dev/shm/tlbcost-acceptance"
PAGE = TREE / "doc" / "acceptance.md"
REMEDIES = ("tmpfs-huge", "hugetlbfs")
PROGRAM = (
    str(BUILD / "venv" / "bin" / "python"),
    str(BUILD / "workloads" / "numpy-index.py"),
    "--elements", "32000000", "--count", "4000000", "--rounds", "10", "--memory", f"file:{FILE}",
)  # fmt: skip
NAMES = {"tmpfs-huge": "a tmpfs with huge=always", "hugetlbfs": "a hugetlbfs"}


def estimate() -> dict[str, Any]:
    """What tlbcost says of the program."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [
            str(BUILD / "tlbcost"),
            "estimate",
            "--recalibrate",
            "--runs",
            "5",
            "--json",
            str(report),
            "--",
        ]
        subprocess.run([*command, *PROGRAM], check=True, stdout=subprocess.DEVNULL)
        document: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return document


def timed(command: str) -> tuple[float, float]:
    """User and system time of one run in s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(shlex.split(command), check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def shell(lines: Sequence[str]) -> None:
    """Type these commands."""
    for line in lines:
        subprocess.run(["bash", "-euc", line], check=True, stdout=subprocess.DEVNULL)


def tried(remedy: dict[str, Any]) -> tuple[list[float], list[float], float]:
    """Shares of the run time saved in user mode, and in all, pair by pair; and a base run in s."""
    *prepare, command = remedy["steps"]
    user, whole, runs = [], [], []
    shell(prepare)
    try:
        for _ in range(PAIRS):
            base, huge = timed(shlex.join(PROGRAM)), timed(command)
            user.append((base[0] - huge[0]) / sum(base))
            whole.append((sum(base) - sum(huge)) / sum(base))
            runs.append(sum(base))
    finally:
        shell(remedy["undo"])
    return sorted(user), sorted(whole), sorted(runs)[PAIRS // 2]


def middle_of(values: Sequence[float]) -> float:
    """The median of sorted values."""
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def percent(shares: Sequence[float]) -> str:
    """The median of the values, the smallest and the largest."""
    return f"{100 * middle_of(shares):.1f} % ({100 * shares[0]:.1f} to {100 * shares[-1]:.1f} %)"


def earlier() -> list[str]:
    """Rows of runs that are on record: none is taken away."""
    if not PAGE.exists():
        return []
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("| 2")]


def page(report: dict[str, Any], advice: dict[str, Any], rows: Sequence[str]) -> str:
    """The text of doc/acceptance.md."""
    machine = report["machine"]
    command = shlex.join(word.removeprefix(f"{TREE}/") for word in PROGRAM)
    found = textwrap.fill(
        f"The report names `{FILE}` as the memory that misses, on "
        f"{advice['page_bytes'] >> 10} KiB pages: {advice['why_not_huge']}.",
        100,
        break_on_hyphens=False,
    )
    table = "\n".join(rows)
    return f"""<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
# A slow file in /dev/shm, found and fixed

`make bench NAME=acceptance` estimates a numpy program that indexes a file in /dev/shm at random,
follows each
remedy that the report gives for the file to the letter, and runs the program on base and on huge
pages in turn. tests/bats/sneaky.bats proves that the file is on huge pages then.

    {command}

{machine["cpu_name"]}, {"virtual" if machine["hypervisor"] else "bare metal"}, Linux \
{machine["kernel"]}.

{found}

Shares of the run time. Expected: the gain from cheaper translation. Saved: median, smallest and
largest of the pairs of runs. Every run is listed, the latest last.

| date | remedy | expected | saved in user mode | within | saved in all |
| --- | --- | --- | --- | --- | --- |
{table}

"Saved in all" includes fewer page faults, which the estimate reports separately from translation.
"""


def main() -> int:
    """Write the page."""
    if os.geteuid() != 0:
        print("acceptance: mounting file systems needs root", file=sys.stderr)
        return 4
    report = estimate()
    [advice] = [a for a in report["what_to_do"] if a["regions"][0]["name"] == FILE]
    known = {remedy["code"]: remedy for remedy in advice["remedies"]}
    expected = report["expected_fraction"]
    low, value, high = (100 * expected[end] for end in ("low", "value", "high"))
    rows = earlier()
    for code in REMEDIES:
        saved = ["not available here", "", ""]
        if code in known:
            user, whole, base_s = tried(known[code])
            middle = 100 * middle_of(user)
            verdict = "yes" if low <= middle <= high else "no"
            saved = [percent(user), verdict, f"{percent(whole)} of {base_s:.2f} s"]
        expected_words = f"{value:.1f} % ({low:.1f} to {high:.1f} %)"
        rows.append(" | ".join([f"| {report['date']}", NAMES[code], expected_words, *saved]) + " |")
    PAGE.write_text(page(report, advice, rows), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
