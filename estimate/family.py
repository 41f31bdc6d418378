# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a program ended together with all the processes that it started?"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

_GRACE_S = 3.0
_ROUND_S = 0.5
_MOST_ROUNDS = 20
_POLL_S = 0.02
_PR_SET_CHILD_SUBREAPER = 36


def end(process: subprocess.Popen[bytes]) -> None:
    """End a launcher, its program and all that the program started.

    It must be the only child of this process. SIGTERM first; SIGKILL to what is left after a
    while. Signals that ask us to end wait until this is done.
    """
    before = [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGTERM)]
    try:
        _adopt_orphans()
        _signal_all(descendants(os.getpid()), signal.SIGTERM)
        _await(process, _GRACE_S)
        for _ in range(_MOST_ROUNDS):
            left = descendants(os.getpid())
            if not left:
                break
            _signal_all(left, signal.SIGKILL)
            _await(process, _ROUND_S)
        process.wait()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)


def _adopt_orphans() -> None:
    """From now on a process whose parent dies becomes our child, and cannot be lost sight of.

    Not before: a program that starts a daemon may look at who its parent is.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _await(process: subprocess.Popen[bytes], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        process.poll()
        if not descendants(os.getpid()):
            return
        time.sleep(_POLL_S)


def _processes() -> dict[int, tuple[int, str]]:
    """(parent, start time) of every process; zombies left out: they have ended."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may hold anything.
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            fields = text.rpartition(")")[2].split()
            if fields[0] != "Z":
                found[int(folder.name)] = (int(fields[1]), fields[19])
    return found


def descendants(pid: int) -> dict[int, str]:
    """The processes below `pid`, with the start times that tell them from later ones."""
    processes = _processes()
    children: dict[int, list[int]] = {}
    for child, (parent, _) in processes.items():
        children.setdefault(parent, []).append(child)
    found: dict[int, str] = {}
    waiting = children.get(pid, [])
    while waiting:
        child = waiting.pop()
        found[child] = processes[child][1]
        waiting.extend(children.get(child, []))
    return found


def _signal_all(family: Mapping[int, str], number: int) -> None:
    processes = _processes()
    for pid, start in family.items():
        if processes.get(pid, (0, ""))[1] == start:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
