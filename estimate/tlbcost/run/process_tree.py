# SPDX-License-Identifier: GPL-2.0-or-later
"""End a program with all the processes that it started; tell its copies and helpers from them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from tlbcost.system.process import children, name, start_ticks, stat

_GRACE_S = 3.0
_ROUND_S = 0.5
_MOST_ROUNDS = 20
_POLL_S = 0.02
_PR_SET_CHILD_SUBREAPER = 36
# Of tlbcost-copies, and of the probe that runs between two runs. The kernel keeps 15 characters.
_HELPERS = frozenset({"tlbcost-injecto", "tlbcost-worker", "tlbcost-copies", "tlbcost-calibra"})
_FIRST_TO_BE_KILLED = "1000"


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
        # From now on a process whose parent dies becomes our child. Not before: a program that
        # starts a daemon may look at who its parent is.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
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


def _await(process: subprocess.Popen[bytes], since: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        process.poll()
        if not descendants(os.getpid(), since):
            return
        time.sleep(_POLL_S)


def descendants(pid: int, since: int = 0) -> dict[int, int]:
    """Living processes below `pid` that started at `since` or later, in clock ticks, and when."""
    starts: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for number in map(int, filter(str.isdecimal, os.listdir("/proc"))):  # noqa: PTH208
        found = stat(number)
        if found is not None and found.state != "Z" and found.started >= since:
            starts[number] = found.started
            children.setdefault(found.parent, []).append(number)
    below: dict[int, int] = {}
    waiting = children.get(pid, [])
    while waiting:
        child = waiting.pop()
        below[child] = starts[child]
        waiting.extend(children.get(child, []))
    return below


def offspring(pids: Iterable[int]) -> dict[int, int]:
    """The same by the kernel's lists of children, if it has them, not by reading all processes."""
    found: dict[int, int] = {}
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        own = children(pid)
        if own is None:
            found.update(descendants(pid))
            continue
        for child in own:
            start = start_ticks(child)
            if start is not None and child not in found:
                found[child] = start
                waiting.append(child)
    return found


def is_alive(pid: int, started: int) -> bool:
    return start_ticks(pid) == started


def _signal_all(family: Mapping[int, int], number: int) -> None:
    for pid, start in family.items():
        if is_alive(pid, start):
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def is_helper(pid: int) -> bool:
    return name(pid) in _HELPERS


def is_copy(pid: int) -> bool:
    """A copy is killed first, and has no file open but pidfds; what has ended counts as one.

    Its memory is that of another process.
    """
    folder = Path(f"/proc/{pid}")
    try:
        score = (folder / "oom_score_adj").read_text(encoding="ascii").strip()
        return score == _FIRST_TO_BE_KILLED and all(
            "pidfd" in str(file.readlink()) for file in (folder / "fd").iterdir()
        )
    except OSError:
        return not folder.exists()
