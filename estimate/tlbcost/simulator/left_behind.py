# SPDX-License-Identifier: GPL-2.0-or-later
"""The end of simulated processes that still run when the program has ended.

Natively they live on, as without tlbcost. Their copies in the simulator have no purpose: they are
asked to end, upon which the simulator writes what it has counted of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tlbcost.common.temporary import remove_left, temporary_place

_GRACE_S = 5.0
_SETTLING_S = 1.0
_POLL_S = 0.02


def end_left_behind(folder: Path) -> int:
    """End the simulated processes that write their tables into `folder`; how many there were."""
    found = _settled(folder)
    for number, seconds in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        deadline = time.monotonic() + seconds
        left = _simulated(folder)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        while _simulated(folder) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    # Valgrind's own files, if it was killed as it made them.
    remove_left(temporary_place())
    return len(found)


def _settled(folder: Path) -> list[int]:
    """Those that run, once none is just becoming another program: it has no command line then."""
    deadline = time.monotonic() + _SETTLING_S
    while True:
        found = _simulated(folder)
        logged = [log.name.rpartition(".")[2] for log in folder.glob("log.*")]
        becoming = [pid for pid in logged if _has_no_words(Path("/proc", pid))]
        if not becoming or time.monotonic() >= deadline:
            return found
        time.sleep(_POLL_S)


def _has_no_words(process: Path) -> bool:
    with contextlib.suppress(OSError):
        stat = (process / "stat").read_text(encoding="utf-8", errors="replace")
        return ") Z" not in stat and not (process / "cmdline").read_bytes()
    return False


def _simulated(folder: Path) -> list[int]:
    # The folder's name is used once, and each process of the simulator is started with it.
    option = os.fsencode(f"--counts-dir={folder}")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if option in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found
