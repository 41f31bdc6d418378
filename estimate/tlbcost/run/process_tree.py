# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a program ended together with all the processes that it started?"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

_GRACE_S = 3.0
_ROUND_S = 0.5
_MOST_ROUNDS = 20
_POLL_S = 0.02
_PR_SET_CHILD_SUBREAPER = 36


def end(process: subprocess.Popen[bytes]) -> int | None:
    """End a launcher, its program and all that the program started.

    SIGTERM first; SIGKILL to what is left after a while. A signal that asks us to end during that
    is returned, for the caller to raise. Children that we were given with our process (by a shell's
    exec) are older than the launcher, and not touched.
    """
    since = start_ticks(process.pid)
    if process.returncode is not None or since is None:
        return None
    came: list[int] = []
    waiting = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.signal(n, lambda number, _: came.append(number)) for n in waiting]
    try:
        _adopt_orphans()
        _signal_all(descendants(os.getpid(), since), signal.SIGTERM)
        _await(process, since, _GRACE_S)
        for _ in range(_MOST_ROUNDS):
            left = descendants(os.getpid(), since)
            if not left:
                break
            _signal_all(left, signal.SIGKILL)
            _await(process, since, _ROUND_S)
        process.wait()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    finally:
        for number, handler in zip(waiting, before, strict=True):
            signal.signal(number, handler)
    return came[0] if came else None


def _adopt_orphans() -> None:
    """From now on a process whose parent dies becomes our child, and cannot be lost sight of.

    Not before: a program that starts a daemon may look at who its parent is.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _await(process: subprocess.Popen[bytes], since: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        process.poll()
        if not descendants(os.getpid(), since):
            return
        time.sleep(_POLL_S)


def _stat(folder: Path) -> tuple[str, int, int]:
    """State, parent and start time of a process. Raises OSError if it is gone."""
    # The name, in parentheses, may hold anything.
    text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def start_ticks(pid: int) -> int | None:
    """When it started, in clock ticks since boot; None: it is gone."""
    try:
        return _stat(Path(f"/proc/{pid}"))[2]
    except OSError:
        return None


def descendants(pid: int, since: int = 0) -> dict[int, int]:
    """The living processes below `pid` that started at `since` or later, with their start times.

    Start times are in clock ticks since boot; they tell a process from a later one of its number.
    """
    starts: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent, start = _stat(folder)
            if state != "Z" and start >= since:
                starts[int(folder.name)] = start
                children.setdefault(parent, []).append(int(folder.name))
    found: dict[int, int] = {}
    waiting = children.get(pid, [])
    while waiting:
        child = waiting.pop()
        found[child] = starts[child]
        waiting.extend(children.get(child, []))
    return found


def offspring(pids: Iterable[int]) -> dict[int, int]:
    """The living processes below these, with their start times, by the kernel's lists of children.

    Unlike descendants() it does not look at every process of the system, where the kernel has
    such lists (CONFIG_PROC_CHILDREN).
    """
    found: dict[int, int] = {}
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        children = _children(pid)
        if children is None:
            found.update(descendants(pid))
            continue
        for child in children:
            start = start_ticks(child)
            if start is not None and child not in found:
                found[child] = start
                waiting.append(child)
    return found


def is_alive(pid: int, started: int) -> bool:
    """Whether the process that started then is there still."""
    return start_ticks(pid) == started


def _children(pid: int) -> list[int] | None:
    """The children of all threads of a process; None: the kernel has no list of them."""
    found: list[int] = []
    threads = Path(f"/proc/{pid}/task")
    try:
        names = os.listdir(threads)  # noqa: PTH208
    except OSError:
        return []
    for name in names:
        try:
            text = (threads / name / "children").read_text(encoding="ascii")
        except FileNotFoundError:
            if (threads / name).exists():
                return None
        except OSError:
            continue
        else:
            found.extend(int(child) for child in text.split())
    return found


def _signal_all(family: Mapping[int, int], number: int) -> None:
    for pid, start in family.items():
        if start_ticks(pid) == start:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def resident_bytes(pid: int) -> int:
    """Bytes of all page sizes, by /proc/PID/status; 0 for a process that is gone."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        found = re.findall(r"^(?:VmRSS|HugetlbPages):\s+(\d+) kB$", text, re.MULTILINE)
        return 1024 * sum(int(n) for n in found)
    return 0
