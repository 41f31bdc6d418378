# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the calibrator end with us, and are its failures reported in its own words?"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from builders.tree import TREE, fails, put, there
from tlbcost.calibration import calibrator
from tlbcost.calibration.calibrator import Load, load_of, our_turn, run_calibrator, wait_for_quiet
from tlbcost.common import formats
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.formats import Table

SAMPLES = TREE / "data" / "samples" / "emerald-rapids-guest" / "samples.tsv"
# Has the lock, says so, and then does what its standard input says.
HOLDER = """
import sys
from pathlib import Path
from tlbcost.calibration.calibrator import our_turn
with our_turn(Path(sys.argv[1]), 60, lambda text: None) as turn:
    print("mine", flush=True)
    turn.leave(sys.stdin.readline().strip())
"""
# Waits for it, and says what it was left.
WAITER = """
import sys
from pathlib import Path
from tlbcost.calibration.calibrator import our_turn
with our_turn(Path(sys.argv[1]), 60, lambda text: print(text, flush=True)) as turn:
    print(turn.waited, turn.left, flush=True)
"""
WAITING = "another tlbcost is calibrating this machine: waiting for it"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "probe"
    monkeypatch.setattr(calibrator, "libexec", lambda _: path)
    return path


def run(program: Path, script: str, progress: Callable[[int], None] | None = None) -> Table:
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    return run_calibrator(["--measure", "near"], 2.5, progress)


def test_options_progress_and_samples_pass(program: Path) -> None:
    words = "--measure near --time-limit 2.50 --output - --progress-fd"
    script = f'[[ $* == "{words} "* ]] || exit 9; echo progress 50 >&"${{@: -1}}"; cat "{SAMPLES}"'
    percents: list[int] = []
    table = run(program, script, percents.append)
    assert percents == [50]
    assert table.complete
    assert table.rows


def test_its_own_words_are_reported(program: Path) -> None:
    script = "echo 'tlbcost: no room: 3 MiB' >&2; echo 'tlbcost: hint: buy some' >&2; exit 4"
    with fails(r"^no room: 3 MiB$", CANNOT_MEASURE) as caught:
        run(program, script)
    assert caught.value.hint == "buy some"


@pytest.mark.parametrize(
    ("script", "words"),
    [("kill -9 $$", "killed by SIGKILL"), ("exit 1", "no reason was given"),
     (f"head -c 3000 '{SAMPLES}'", "expected|truncated"),
     ("echo garbage", "not a tlbcost samples table")],
)  # fmt: skip
def test_failures_are_reported(program: Path, script: str, words: str) -> None:
    with pytest.raises(TlbcostError, match=words):
        run(program, script)


def test_a_probe_that_is_missing_has_a_hint(program: Path) -> None:
    with pytest.raises(TlbcostError, match="cannot run") as caught:
        run_calibrator([], 1, None)
    assert caught.value.hint
    assert not program.exists()


def start(program: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def line(process: subprocess.Popen[str]) -> str:
    return there(process.stdout).readline().strip()


def never(sentence: str) -> None:
    raise AssertionError(sentence)


@pytest.mark.parametrize("left", ["a poor calibration", ""])
def test_all_who_wait_get_what_is_left_and_nobody_later(tmp_path: Path, left: str) -> None:
    path = tmp_path / "cache" / "c.lock"
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


def table(**header: str) -> Table:
    return Table("x", header, formats.SAMPLES.columns, (), True)


def test_the_runs_together() -> None:
    found = load_of(
        [
            table(measured_ns="600", waited_ns="100", stolen_ns="NA"),
            table(measured_ns="400", waited_ns="200", stolen_ns="50"),
            table(),
        ]
    )
    assert found == Load(1000, 300, 50)
    assert found.waited_fraction == 0.3
    assert found.stolen_fraction == 0.05
    assert load_of([table()]) == Load(0, None, None)
    assert load_of([table()]).waited_fraction is None


@pytest.mark.parametrize(
    ("found", "disturbed", "reasons"),
    [(Load(100, None, None), False, ()), (Load(100, 4, 4), False, ()),
     (Load(100, 25, 10), True, ()),
     (Load(1000, 251, 0), True, ("the calibrator waited for a CPU 25 % of the time",)),
     (Load(100, None, 12), True, ("the hypervisor took the CPU 12 % of the time (steal)",))],
)  # fmt: skip
def test_what_disturbs(found: Load, disturbed: bool, reasons: tuple[str, ...]) -> None:
    assert (found.disturbed, found.reasons) == (disturbed, reasons)


class Kernel:
    """/proc of a machine whose load changes while it is looked at."""

    def __init__(self, root: Path, running: Sequence[int], stolen: Sequence[int]) -> None:
        self.now = 0.0
        self._root = root
        self._running = list(running)
        self._stolen = list(stolen)
        self._ticks = 1000
        self._stolen_ticks = 0
        self._write()

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._ticks += 100
        self._write()

    def _write(self) -> None:
        running = self._running[min(int(self.now), len(self._running) - 1)]
        stolen = self._stolen[min(int(self.now), len(self._stolen) - 1)]
        self._stolen_ticks += stolen
        put(self._root, "proc/loadavg", f"3.00 2.00 1.00 {running + 1}/120 4711\n")
        idle = self._ticks - self._stolen_ticks
        text = f"cpu  0 0 0 {idle} 0 0 0 {self._stolen_ticks} 0 0\ncpu0 0\n"
        put(self._root, "proc/stat", text)


def waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: Sequence[int], stolen: Sequence[int]
) -> tuple[bool, list[str], float]:
    kernel = Kernel(tmp_path, running, stolen)
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    monkeypatch.setattr(calibrator.time, "sleep", kernel.sleep)
    monkeypatch.setattr(calibrator.time, "monotonic", lambda: kernel.now)
    monkeypatch.setattr(calibrator.os, "cpu_count", lambda: 2)
    said: list[str] = []
    return wait_for_quiet(20, said.append), said, kernel.now


def test_a_free_cpu_is_quiet_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(tmp_path, monkeypatch, [1], [0]) == (True, [], 1.0)


def test_it_waits_until_a_cpu_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, said, took = waited(tmp_path, monkeypatch, [2, 2, 2, 2, 2, 1], [0])
    assert quiet
    assert said == [
        "the machine is busy (load: 2 other runnable tasks on 2 CPUs, steal 0 %): "
        "waiting up to 20 s for quiet"
    ]
    assert 5 <= took <= 7


def test_it_waits_no_longer_than_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, said, took = waited(tmp_path, monkeypatch, [0], [12])
    assert not quiet
    assert "steal 12 %): waiting up to 20 s" in said[0]
    assert 20 <= took <= 21


@pytest.mark.usefixtures("root")
def test_a_kernel_that_tells_nothing_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrator.time, "sleep", lambda _: None)
    assert wait_for_quiet(20, lambda _: None)
