# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost top` itself use, with 500 processes to watch?

Writes doc/benchmarks.md. A program with children of some MiB each, of which some keep faulting, is
watched on a terminal, by process and by cgroup, and without one. Needs a quiet machine and 4 GiB;
three minutes. Exits 1 if it uses 1 % of a CPU or more.
"""

from __future__ import annotations

import json
import mmap
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from statistics import median

from prometheus_client.parser import text_string_to_metric_families

TREE = Path(__file__).resolve().parent.parent
TLBCOST = TREE / "build" / "tlbcost"
PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- top: begin -->\n", "<!-- top: end -->\n"
PROCESSES, BUSY, LARGE = 500, 50, 10
SMALL_BYTES, LARGE_BYTES, BURST_BYTES = 4 << 20, 128 << 20, 1 << 20
START_S, SECONDS, SHORTER_S = 4.0, 60.0, 30.0
LIMIT = 0.01
COLUMNS, LINES = 120, 50


@dataclass(frozen=True, slots=True)
class Use:
    """CPU seconds until START_S have passed, and the share of one CPU in the `seconds` after."""

    start_s: float
    fraction: float
    seconds: float


def touch(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for place in range(0, size, mmap.PAGESIZE):
        memory[place] = 1
    return memory


def child(number: int) -> None:
    """Memory that stays, and for some a MiB that comes and goes."""
    kept = touch(LARGE_BYTES if number < LARGE else SMALL_BYTES)
    while number < BUSY:
        time.sleep(1)
        touch(BURST_BYTES).close()
    signal.pause()
    kept.close()


def start_children() -> list[int]:
    pids = []
    for number in range(PROCESSES):
        pid = os.fork()
        if pid == 0:
            try:
                child(number)
            finally:
                os._exit(0)
        pids.append(pid)
    return pids


def cpu_s(pid: int) -> float:
    """CPU time of a process with one thread, by the scheduler's account in ns."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def watched(options: Sequence[str], seconds: float, *, terminal: bool) -> Use:
    """What it uses."""
    command = [str(TLBCOST), "top", *options]
    if terminal:
        own, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm"}
        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, env=environment, start_new_session=True
        )
        threading.Thread(target=drain, args=(own,), daemon=True).start()
    else:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(START_S)
        begin, first = time.monotonic(), cpu_s(process.pid)
        time.sleep(seconds)
        used = cpu_s(process.pid) - first
        return Use(first, used / (time.monotonic() - begin), seconds)
    finally:
        process.terminate()
        process.wait()


def drain(terminal: int) -> None:
    with suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


def ages(file: Path, name: str) -> dict[int, float]:
    """How old these figures of each process were when the file was last written."""
    return {
        int(sample.labels["pid"]): sample.value
        for family in text_string_to_metric_families(file.read_text(encoding="utf-8"))
        for sample in family.samples
        if sample.name == f"tlbcost_process_{name}"
    }


def words(found: dict[int, float], pids: Sequence[int]) -> str:
    """Of how many they are known, and how old they are."""
    known = sorted(found[pid] for pid in pids if pid in found)
    if not known:
        return f"| 0 of {len(pids)} | NA | NA"
    return f"| {len(known)} of {len(pids)} | {median(known):.0f} | {known[-1]:.0f}"


def once_s() -> float:
    """CPU seconds of one report of everything."""
    before = os.times()
    done = subprocess.run(
        [str(TLBCOST), "top", "--once", "--json", "-"], check=True, capture_output=True
    )
    after = os.times()
    assert len(json.loads(done.stdout)["rows"]) >= PROCESSES
    return after[2] + after[3] - before[2] - before[3]


def main() -> int:
    pids = start_children()
    try:
        time.sleep(3)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "top.prom"
            found = {
                "by process, on a terminal": watched([], SECONDS, terminal=True),
                "by cgroup, on a terminal": watched(["--cgroup"], SHORTER_S, terminal=True),
                "without a terminal, `--interval 15s --openmetrics FILE`": watched(
                    ["--interval", "15s", "--openmetrics", str(file)], SECONDS, terminal=False
                ),
            }
            pages = ages(file, "age_seconds")
            eligible = ages(file, "eligible_age_seconds")
        once = once_s()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
    rows = [
        f"| {name} | {use.start_s:.2f} | {use.seconds:.0f} | {100 * use.fraction:.2f} |"
        for name, use in found.items()
    ]
    text = "\n".join(
        [
            f"{PROCESSES} processes with {SMALL_BYTES >> 20} MiB each, {LARGE} of them "
            f"{LARGE_BYTES >> 20}, {BUSY} touching {BURST_BYTES >> 20} MiB a second; a "
            f"terminal of {COLUMNS} columns and "
            f"{LINES} lines.",
            "",
            f"| `tlbcost top` | first {START_S:.0f} s, CPU s | then for s | % of a CPU |",
            "| --- | ---: | ---: | ---: |",
            *rows,
            "",
            f"After the last row's {SECONDS + START_S:.0f} s:",
            "",
            "| processes | pages read | s ago, median | oldest | eligible read | s ago, median "
            "| oldest |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
            *(
                f"| {name} {words(pages, some)} {words(eligible, some)} |"
                for name, some in (("that touch memory", pids[:BUSY]), ("idle", pids[BUSY:]))
            ),
            "",
            f"`--once`, which has no budget, used {once:.1f} CPU s for reading everything twice.",
            "",
        ]
    )
    print(text)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")
    return 1 if any(use.fraction >= LIMIT for use in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
