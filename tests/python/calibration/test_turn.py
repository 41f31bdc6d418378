# SPDX-License-Identifier: GPL-2.0-or-later
"""Does one process calibrate at a time, and does none wait for ever?"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tlbcost.calibration import turn
from tlbcost.calibration.turn import our_turn

# Has the lock, says so, and then does what its standard input says.
HOLDER = """
import sys
from pathlib import Path
from tlbcost.calibration.turn import our_turn
with our_turn(Path(sys.argv[1]), 60, lambda text: None) as turn:
    print("mine", flush=True)
    turn.leave(sys.stdin.readline().strip())
"""
# Waits for it, and says what it was left.
WAITER = """
import sys
from pathlib import Path
from tlbcost.calibration.turn import our_turn
with our_turn(Path(sys.argv[1]), 60, lambda text: print(text, flush=True)) as turn:
    print(turn.waited, turn.left, flush=True)
"""
WAITING = "another tlbcost is calibrating this machine: waiting for it"


def start(program: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def never(sentence: str) -> None:
    raise AssertionError(sentence)


def test_it_is_our_turn_at_once_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "c.lock"
    for _ in range(2):
        with our_turn(path, 5, never) as mine:
            assert path.exists()
            assert (mine.waited, mine.left) == (False, "")
        assert not path.exists()


@pytest.mark.parametrize("left", ["a poor calibration", ""])
def test_all_who_wait_get_what_is_left_and_nobody_later(tmp_path: Path, left: str) -> None:
    path = tmp_path / "c.lock"
    holder = start(HOLDER, path)
    assert line(holder) == "mine"
    waiters = [start(WAITER, path) for _ in range(3)]
    assert [line(waiter) for waiter in waiters] == [WAITING] * 3
    holder.communicate(left + "\n", timeout=30)
    assert [line(waiter) for waiter in waiters] == [f"True {left}".strip()] * 3
    for waiter in waiters:
        waiter.communicate(timeout=30)
    assert not path.exists()
    with our_turn(path, 5, never) as mine:
        assert (mine.waited, mine.left) == (False, "")


def test_a_killed_holder_keeps_nobody(tmp_path: Path) -> None:
    path = tmp_path / "c.lock"
    holder = start(HOLDER, path)
    assert line(holder) == "mine"
    waiter = start(WAITER, path)
    assert line(waiter) == WAITING
    holder.send_signal(signal.SIGKILL)
    assert line(waiter) == "True"
    for process in (holder, waiter):
        process.communicate(timeout=30)
    assert not path.exists()


def test_one_that_does_not_end_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "c.lock"
    holder = start(HOLDER, path)
    assert line(holder) == "mine"
    said: list[str] = []
    begun = time.monotonic()
    with our_turn(path, 0.3, said.append) as mine:
        assert mine.waited
        mine.leave("not ours to write to")
    assert time.monotonic() - begun >= 0.3
    assert said == [WAITING, "the other tlbcost does not end: measuring alongside it"]
    assert path.exists()
    assert path.read_text() == ""
    holder.communicate("\n", timeout=30)


def test_what_a_killed_one_left_is_for_nobody(tmp_path: Path) -> None:
    path = tmp_path / "c.lock"
    path.write_text("of a holder that was killed")
    with our_turn(path, 5, never) as mine:
        assert mine.left == ""
        assert path.read_text() == ""
    assert not path.exists()


def test_where_no_lock_can_be_had_it_is_our_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with our_turn(Path("/proc/no-such-place/c.lock"), 5, never) as mine:
        mine.leave("to nobody")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with our_turn(tmp_path / "link", 5, never):
        assert not (tmp_path / "elsewhere").exists()

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with our_turn(tmp_path / "c.lock", 5, never) as mine:
        assert not mine.waited


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_under_sudo_it_is_the_calling_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents:
        if folder != Path("/") and not folder.stat().st_mode & 1:
            folder.chmod(folder.stat().st_mode | 0o11)
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    path = tmp_path / "c.lock"
    with our_turn(path, 5, never):
        assert path.stat().st_uid == 65534
    assert not path.exists()
    assert turn._POLL_S > 0
