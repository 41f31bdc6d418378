# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a process's own switch for huge pages put back, by who changed it or after it was killed?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from builders.tree import TREE
from tlbcost.numa.watch.process import undo
from tlbcost.settings.change import system_settings
from tlbcost.settings.journal import read_journal
from tlbcost.system.process import start_ticks, status

pytestmark = pytest.mark.settings

KILLED = """
import os, signal, sys
from tlbcost.settings.change import system_settings
with system_settings() as settings:
    settings.outlive()
    settings.switch_thp(int(sys.argv[1]), int(sys.argv[2]), on=False)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def process() -> Iterator[int]:
    if os.geteuid() != 0:
        pytest.skip("not root")
    if not (TREE / "build/libexec/tlbcost-thp").exists():
        pytest.skip("build/libexec/tlbcost-thp is not built")
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        try:
            time.sleep(0.1)
            if enabled(sleeping.pid) is None:
                pytest.skip("this kernel does not report THP_enabled")
            yield sleeping.pid
        finally:
            sleeping.kill()


def enabled(pid: int) -> str | None:
    return status(pid).get("THP_enabled")


def start(pid: int) -> int:
    found = start_ticks(pid)
    assert found is not None
    return found


def test_it_stays_switched_until_its_owner_leaves(process: int) -> None:
    with system_settings() as settings:
        settings.outlive()
        settings.switch_thp(process, start(process), on=False)
    assert enabled(process) == "0"
    with system_settings() as settings:
        settings.outlive()
        settings.switch_thp(process, start(process), on=True)
    assert enabled(process) == "1"
    assert [change.after for change in read_journal() if change.kind == "thp"] == ["0", "1"]
    with system_settings():
        pass
    assert enabled(process) == "1"
    assert not [change for change in read_journal() if change.kind == "thp"]


@pytest.mark.usefixtures("process")
def test_what_it_started_since_inherited_that_and_is_switched_back() -> None:
    words = ["sh", "-c", "sleep 600 & echo; read -r line; sleep 600 & echo $!; wait"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        try:
            shell.stdout.readline()
            with system_settings() as settings:
                settings.switch_thp(shell.pid, start(shell.pid), on=False)
                shell.stdin.write("\n")
                shell.stdin.flush()
                child = int(shell.stdout.readline())
                assert enabled(child) == "0"
            assert (enabled(shell.pid), enabled(child)) == ("1", "1")
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def kill_an_owner(process: int) -> None:
    words = [sys.executable, "-c", KILLED, str(process), str(start(process))]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert enabled(process) == "0"


def test_pool_restore_puts_it_back_after_a_kill(process: int) -> None:
    kill_an_owner(process)
    subprocess.run([TREE / "build/tlbcost", "pool", "restore"], check=True)
    assert enabled(process) == "1"


def test_undo_puts_it_back_after_a_kill(process: int) -> None:
    kill_an_owner(process)
    assert undo(process) == 0
    assert enabled(process) == "1"


def test_a_process_that_is_gone_has_nothing_to_put_back(process: int) -> None:
    kill_an_owner(process)
    os.kill(process, signal.SIGKILL)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    with system_settings():
        pass
    assert not [change for change in read_journal() if change.kind == "thp"]
