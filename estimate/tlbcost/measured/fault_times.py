# SPDX-License-Identifier: GPL-2.0-or-later
"""Page faults of a program, timed in two runs of their own by software events, without a PMU.

The kernel counts a fault as `page-faults` when it begins and as `minor-faults` once it has been
served (mm_account_fault() in mm/memory.c, Linux 5.9). Both records have the thread and the address.
"""

from __future__ import annotations

import mmap
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tlbcost.common.cleanup import Stopped
from tlbcost.common.errors import TlbcostError
from tlbcost.common.progress import RunProgress, say
from tlbcost.counters.profile import perf
from tlbcost.measured import catalog
from tlbcost.measured.whole_runs import PairRunner, PairsRequest, have_at_hand, ready
from tlbcost.memory.first_touch import Stalls, TouchTimes
from tlbcost.system.huge_pages import kernel_counts
from tlbcost.system.machine import huge_page_bytes

# Both runs in all. Two records a fault are 100 bytes of perf's file.
_MOST_S, _MOST_FAULTS = 10.0, 500_000
_EVENTS = "page-faults,minor-faults,major-faults"
_RECORD = re.compile(r"\s*(\d+)\s+(\d+)\.(\d{9}):\s+(page|minor|major)-faults:\S*\s+([0-9a-f]+)")


def with_fault_times(stalls: Stalls, asked: PairsRequest, name: str) -> Stalls:
    """Run the program on base pages and on huge pages by the method of this name.

    Without perf, or where the runs would take too long, nothing is added.
    """
    methods = catalog.candidates(
        asked.seen, system=asked.system, traced=True, code="text" in asked.also
    )
    method = next((each for each in methods if each.name == name), None)
    if method is None or 2 * asked.run_s > _MOST_S:
        return stalls
    base = None
    have_at_hand(asked.run)
    try:
        with RunProgress("runs whose page faults are timed", 2) as progress, ready(method):
            runner = PairRunner(asked.launcher, asked.argv, asked.path, progress, asked.first.code)
            if asked.run.minor_faults <= _MOST_FAULTS:
                base = _timed(runner.base, asked.launcher.folder, mmap.PAGESIZE)
            size = method.page_bytes or huge_page_bytes() or mmap.PAGESIZE
            before = kernel_counts()
            huge = _timed(partial(runner.huge, method), asked.launcher.folder, size)
            work = {name: n - before.get(name, 0) for name, n in kernel_counts().items()}
            work = {name: n for name, n in work.items() if n > 0}
            return replace(stalls, base_faults=base, huge_faults=huge, huge_kernel=work)
    except TlbcostError as error:
        say(f"page faults were not timed: {error}")
    except Stopped as stop:
        if stop.number != signal.SIGINT:
            raise
    return stalls


def _timed(
    run: Callable[[Sequence[str]], object], folder: Path, page_bytes: int
) -> TouchTimes | None:
    """The faults of a run, given the command to record them with."""
    file = folder / "faults.data"
    run(recorder(file))
    times = sorted(fault_times(printed(file)))
    file.unlink()
    if not times:
        return None
    median, p99, p999 = (times[int(part * len(times))] for part in (0.5, 0.99, 0.999))
    return TouchTimes(
        page_size_bytes=page_bytes, touches=len(times),
        median_ns=median, p99_ns=p99, p999_ns=p999, worst_ns=times[-1], total_ns=sum(times),
    )  # fmt: skip


def recorder(file: Path) -> list[str]:
    """The command to run a program with."""
    words = [perf(), "record", "--quiet", "--no-buildid-cache", "--data", "--output", str(file)]
    return [*words, "--count", "1", "--event", _EVENTS, "--"]


def printed(file: Path) -> list[str]:
    words = [perf(), "script", "--force", "--ns", "-i", str(file), "-F", "tid,time,event,addr"]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True
    )
    return done.stdout.splitlines()


def fault_times(lines: Iterable[str]) -> list[int]:
    """ns of each fault that `perf script` shows, without those that waited for a disk."""
    begun: dict[str, tuple[str, int]] = {}
    times: list[int] = []
    for line in lines:
        match = _RECORD.match(line)
        if match is None:
            continue
        thread, seconds, rest, kind, address = match.groups()
        at = int(seconds) * 1_000_000_000 + int(rest)
        if kind == "page":
            begun[thread] = address, at
            continue
        # A record may be lost: of the two, or between them.
        start, began = begun.pop(thread, ("", 0))
        if kind == "minor" and start == address:
            times.append(at - began)
    return times
