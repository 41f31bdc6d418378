# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of a program in turns, for a machine whose speed changes by the second.

They run at the same time, on the same CPUs, in turns: all but one are stopped (SIGSTOP), and after
TURN_S the next one continues. What disturbs the machine meets all of them alike.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tlbcost.common.cleanup import check_time
from tlbcost.run import process_tree
from tlbcost.run.launch import Launcher, Started
from tlbcost.run.outcome import Outcome, Run
from tlbcost.run.stdin import ProgramInput
from tlbcost.system.machine import cpu_ticks, meminfo_bytes
from tlbcost.system.process import memory_limit

# Long enough that caches, refilled after each change, matter little; short against disturbances.
TURN_S = 0.04
# A run that used its CPU for a larger part of the time than this had no second thread at work.
_PARALLEL = 1.05
# A program that waits continues to do so while it is stopped, which would hide that time.
_BUSY = 0.8
# For so long it is looked at how busy each CPU is.
_LOOK_S = 0.3
# Memory that must be free, for each byte of one run.
_ROOM = 3.5


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run the program; `transparent` as in Launcher.

    `started` is called with the launcher's process id.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] | None = None
    transparent: bool | None = None
    started: Callable[[int], None] | None = None


class NotTogetherError(Exception):
    """Why two of them must not run at the same time. None is left; what it wrote is incomplete."""


def objection(launcher: Launcher, run: Run) -> str | None:
    """Why a program that took this must not run twice at the same time; None: it may."""
    if launcher.region is not None:
        return "a region is timed in one run at a time"
    if launcher.prepare is not None:
        return "--prepare makes ready for one run at a time"
    if run.cpu_ns + (run.waited_ns or 0) < _BUSY * run.wall_ns:
        return "the program waits for much of its time"
    if not has_room(run):
        return "there is too little memory for several runs at the same time"
    return None


def has_room(run: Run) -> bool:
    rooms = [meminfo_bytes("MemAvailable"), memory_limit().limit_bytes]
    return all(room is None or room >= _ROOM * run.max_rss_bytes for room in rooms)


def cpus_for(run: Run) -> frozenset[int]:
    """Where to run it in turns: the idlest CPU, or all if its threads ran at the same time."""
    allowed = os.sched_getaffinity(0)
    if run.cpu_ns > _PARALLEL * run.wall_ns:
        return frozenset(allowed)
    return frozenset([_idlest(allowed)])


def _idlest(cpus: Collection[int]) -> int:
    """The CPU that other programs use least, to a quarter; of several the last one."""
    if len(cpus) == 1:
        return min(cpus)
    before = {cpu: cpu_ticks(cpu) for cpu in cpus}
    time.sleep(_LOOK_S)

    def idle(cpu: int) -> int:
        then, now = before[cpu], cpu_ticks(cpu)
        if then is None or now is None:
            return 0
        spent = [after - earlier for earlier, after in zip(then, now, strict=True)]
        return round(4 * (spent[3] + spent[4]) / (sum(spent) or 1))

    return max(cpus, key=lambda cpu: (idle(cpu), cpu))


def run_in_turns(
    launcher: Launcher,
    ways: Sequence[Way],
    cpus: frozenset[int],
    tick: Callable[[float], None] | None = None,
) -> tuple[Outcome, ...]:
    """Run the program once in each way, in turns. What it prints is dropped.

    `wall_ns` of each run is the time of its turns. Raises TlbcostError as Launcher.execute() does,
    and NotTogetherError; then none of them is left.
    """
    runs: list[_Run] = []
    try:
        return _together(launcher, ways, cpus, tick, runs)
    except NotTogetherError:
        # Ctrl-C while they were ended.
        for number in (run.signalled for run in runs):
            if number is not None:
                signal.raise_signal(number)
        raise


def _together(
    launcher: Launcher,
    ways: Sequence[Way],
    cpus: frozenset[int],
    tick: Callable[[float], None] | None,
    runs: list[_Run],
) -> tuple[Outcome, ...]:
    found: list[Outcome] = []
    with contextlib.ExitStack() as stack:
        inherited = launcher.transparent
        stack.callback(setattr, launcher, "transparent", inherited)
        for way in ways:
            launcher.transparent = way.transparent
            with on_cpus(cpus):
                started = launcher.begin(way.argv, stack, discard=True, environment=way.environment)
            runs.append(_Run(started))
            stack.callback(runs[-1].close)
            # A thread that it starts has the CPUs of all our threads, not those of the program.
            if way.started is not None:
                way.started(started.process.pid)
            runs[-1].stop()
            if len(runs) == 1:
                # Is it one that may run twice? What runs alone for longer gets better memory.
                runs[0].turn()
        _take_turns(runs, launcher.stdin, tick)
        for run in runs:
            outcome = launcher.finish(run.started)
            if outcome.run is not None:
                outcome = replace(
                    outcome, run=replace(outcome.run, wall_ns=round(run.active_s * 1e9))
                )
            found.append(outcome)
    return tuple(found)


class _Run:
    """A run that is under way, and how long its turns were."""

    def __init__(self, started: Started) -> None:
        self.started = started
        self.active_s = 0.0
        self.signalled: int | None = None  # a signal that came while it was ended
        self._since: float | None = time.monotonic()
        self._handle = os.pidfd_open(started.process.pid)
        self._stopped: dict[int, int] = {}

    def ended(self) -> bool:
        """Whether it is over; then the time of its last turn is known."""
        if not self._wait(0):
            return False
        self._pause()
        return True

    def _wait(self, milliseconds: float) -> bool:
        """Whether it is over by then."""
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(milliseconds))

    def stop(self) -> None:
        """Stop parents first, and what they then start. Raises NotTogetherError if refused."""
        for _ in range(3):
            family = process_tree.offspring([self.started.process.pid])
            new = {pid: start for pid, start in family.items() if pid not in self._stopped}
            if not new:
                break
            for pid, start in new.items():
                try:
                    os.kill(pid, signal.SIGSTOP)
                except ProcessLookupError:
                    continue
                except PermissionError as error:
                    why = "it starts a program of another user, which may not be stopped"
                    raise NotTogetherError(why) from error
                self._stopped[pid] = start
        self._pause()

    def turn(self) -> None:
        """Let it run for a while. Raises NotTogetherError as stop(), and if it writes a file."""
        self.go_on()
        self._wait(1000 * TURN_S)
        if not self.ended():
            self.stop()
            inherited = _written_files("self")
            for pid in self._stopped:
                for file, name in _written_files(pid).items():
                    if file not in inherited:
                        raise NotTogetherError(f"it writes to {name}")

    def go_on(self) -> None:
        if self._since is None:
            self._since = time.monotonic()
        for pid, start in reversed(self._stopped.items()):
            if process_tree.is_alive(pid, start):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGCONT)
        self._stopped.clear()

    def finish(self) -> None:
        self.go_on()
        self._wait(1000)

    def close(self) -> None:
        if self.started.process.poll() is None:
            self.go_on()
            self.signalled = process_tree.end(self.started.process)
        os.close(self._handle)

    def _pause(self) -> None:
        if self._since is not None:
            self.active_s += time.monotonic() - self._since
            self._since = None


def _take_turns(
    runs: Sequence[_Run], stdin: ProgramInput, tick: Callable[[float], None] | None
) -> None:
    """Until all have ended. Raises TlbcostError if they cannot be fed any more."""
    begun = ticked = time.monotonic()
    left = list(runs)
    while left:
        check_time()
        stdin.check()
        random.shuffle(left)
        for run in tuple(left):
            if run.ended():
                left.remove(run)
                continue
            if len(left) > 1:
                run.turn()
            else:
                # No other run is left to take turns with.
                run.finish()
        if tick is not None and time.monotonic() - ticked > 1:
            ticked = time.monotonic()
            tick(ticked - begun)


def _written_files(pid: int | str) -> dict[tuple[int, int], str]:
    """Regular files with a name that it has open for writing, by device and inode."""
    found: dict[tuple[int, int], str] = {}
    folder = Path(f"/proc/{pid}/fd")
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            with contextlib.suppress(OSError):
                link = folder / name
                file = os.stat(link)  # noqa: PTH116
                writable = os.lstat(link).st_mode & stat.S_IWUSR
                if writable and stat.S_ISREG(file.st_mode) and file.st_nlink:
                    found[file.st_dev, file.st_ino] = os.readlink(link)  # noqa: PTH115
    return found


@contextlib.contextmanager
def on_cpus(cpus: Collection[int]) -> Iterator[None]:
    """What this thread does, and starts, in the block is done on these CPUs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
