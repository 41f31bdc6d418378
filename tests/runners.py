# SPDX-License-Identifier: GPL-2.0-or-later
"""Start and end runners of tests, with all that they start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
# A runner that a signal ends puts settings back first: how long each signal is given.
ENDING_S = ((signal.SIGINT, 15.0), (signal.SIGTERM, 30.0), (signal.SIGKILL, 5.0))
# In the environment of all that a runner starts, even of what made a session of its own.
MARK = "TLBCOST_TESTS_RUNNER"


@dataclass(slots=True)
class Ended:
    """How a command ended: its exit code (None: it took too long), what it printed and left."""

    code: int | None
    text: str
    left: list[str]


class Runners:
    """The commands that run now, each the leader of a process group; to be ended all at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._started = 0
        self.stopped = False

    def run(self, command: list[str], seconds: float) -> Ended:
        """Run a command to its end, and end and remove what it leaves behind. Raises Interrupted.

        bats removes its folder itself, but not when a signal comes while it does.
        """
        with (
            tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as folder,
            tempfile.TemporaryFile("w+", errors="replace") as printed,
        ):
            # As /tmp is: some tests run as another user.
            Path(folder).chmod(0o1777)
            with self._lock:
                if self.stopped:
                    raise Interrupted
                self._started += 1
                mark = f"{os.getpid()}-{self._started}"
                process = subprocess.Popen(
                    command,
                    cwd=TREE,
                    env=environment(mark, folder),
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    text=True,
                    start_new_session=True,
                )
                self._running[mark] = process
            code: int | None = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(seconds)
            left = [] if code is None else left_behind(mark)
            end(process, mark)
            with self._lock:
                del self._running[mark]
            if self.stopped:
                raise Interrupted
            printed.seek(0)
            return Ended(code, printed.read(), left)

    def stop(self) -> None:
        """End all that runs, and let nothing more start."""
        with self._lock:
            self.stopped = True
            running = dict(self._running)
        with ThreadPoolExecutor() as pool:
            for mark, process in running.items():
                pool.submit(end, process, mark)


class Interrupted(Exception):
    """The tests were asked to end."""


@contextlib.contextmanager
def sole_changer(changes: bool) -> Iterator[None]:
    """Wait, if tests change this machine's settings, until those of no other tree do."""
    folder = Path("/sys/kernel/mm")
    if not changes or MARK in os.environ or not folder.is_dir():
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def environment(mark: str, folder: str) -> dict[str, str]:
    """Ours, without make's: a make that a test starts must not look for our jobserver.

    Calibrations do not wait for quiet, which two lanes seldom leave.
    """
    ours = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    return {"TLBCOST_WAIT_S": "0", **ours, MARK: mark, "TMPDIR": folder}


def end(process: subprocess.Popen[str], mark: str) -> None:
    """End a runner's processes, gently at first: its tests put settings back."""
    for number, seconds in ENDING_S:
        if process.poll() is not None and not marked(mark):
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        for pid in marked(mark):
            if number != signal.SIGINT:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        wait_until(lambda: process.poll() is not None, seconds)
        # What puts settings back lives a little longer than its test.
        wait_until(lambda: not marked(mark), 3.0)


def left_behind(mark: str) -> list[str]:
    """Name what a runner that has ended left running; what is just ending is not meant."""
    wait_until(lambda: not marked(mark), 5.0)
    names = []
    for pid in marked(mark):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            names.append(f"{pid} ({words.decode(errors='replace').strip()})")
    return names


def marked(mark: str) -> list[int]:
    """Find the processes that have a runner's mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        # One that has just ended, or another user's.
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until a condition holds, but no longer than that."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
