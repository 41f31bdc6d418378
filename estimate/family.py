# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a program ended together with all the processes that it started?"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

_GRACE_S = 3.0


def end(process: subprocess.Popen[bytes]) -> None:
    """End a launcher, its program and all that the program started."""
    before = [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGTERM)]
    try:
        # A shell that is ended leaves its children to init, so they are noted down first.
        family = _descendants(process.pid)
        if process.poll() is None:
            process.terminate()
        _signal_all(family, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)
        deadline = time.monotonic() + _GRACE_S
        while _alive(family) and time.monotonic() < deadline:
            time.sleep(0.05)
        _signal_all({**family, **_descendants(process.pid)}, signal.SIGKILL)
        if process.poll() is None:
            process.kill()
            process.wait()
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)


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


def _descendants(pid: int) -> dict[int, str]:
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


def _alive(family: Mapping[int, str]) -> dict[int, str]:
    processes = _processes()
    return {pid: start for pid, start in family.items() if processes.get(pid, (0, ""))[1] == start}


def _signal_all(family: Mapping[int, str], number: int) -> None:
    for pid in _alive(family):
        with contextlib.suppress(OSError):
            os.kill(pid, number)
