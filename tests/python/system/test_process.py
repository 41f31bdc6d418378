# SPDX-License-Identifier: GPL-2.0-or-later
"""Is /proc/PID read of this process, of a child, and of one that is gone?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tlbcost.system import process

NOBODY = 2**31 - 2


def test_this_process() -> None:
    stat, status = process.read_stat(os.getpid()), process.status("self")
    assert (stat.parent, stat.state) == (os.getppid(), "R")
    assert status["Pid"] == str(os.getpid())
    assert process.is_running("/proc/self/task/" + str(os.getpid()))
    assert process.executable(os.getpid()) == str(Path("/proc/self/exe").readlink())
    assert process.owner(os.getpid()) == os.geteuid()


def test_a_child_until_it_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in (process.children(os.getpid()) or [child.pid])
        assert process.start_ticks(child.pid) is not None
        child.communicate(b"\n")
    assert not process.is_running(child.pid)


def test_one_that_is_not_there() -> None:
    assert process.stat(NOBODY) is process.start_ticks(NOBODY) is process.name(NOBODY) is None
    assert process.owner(NOBODY) is None
    assert process.status(NOBODY) == {}
    assert process.children(NOBODY) == []
    assert str(process.gone(NOBODY)) == f"there is no process {NOBODY}"
