# SPDX-License-Identifier: GPL-2.0-or-later
"""Do runs take turns, and is nothing stopped or left when that ends in any way?"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tlbcost.common.cleanup import Stopped
from tlbcost.common.errors import TlbcostError
from tlbcost.run import process_tree, turns
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Run
from tlbcost.run.process_tree import is_copy, is_helper
from tlbcost.run.stdin import ProgramInput
from tlbcost.run.turns import NotTogetherError, Way, cpus_for, objection, run_in_turns
from tlbcost.thp import program as thp

pytestmark = pytest.mark.usefixtures("leaves_nothing")

ALL = frozenset(os.sched_getaffinity(0))
BUSY = Run(1_000_000_000, 990_000_000, 0, 100, 0, 1 << 20)


def spin(seconds: float, *, more: str = "") -> tuple[str, ...]:
    """Uses so much CPU time, whatever the time of day."""
    code = f"import os, sys, time\n{more}\nwhile time.process_time() < {seconds}: pass"
    return (sys.executable, "-c", code)


def test_all_end_with_their_own_codes_and_times(launcher: Launcher) -> None:
    ways = [Way(spin(0.6)), Way(spin(0.15)), Way(("sh", "-c", "exit 3"))]
    begun = time.monotonic_ns()
    found = run_in_turns(launcher, ways, ALL)
    took_ns = time.monotonic_ns() - begun
    assert [outcome.code for outcome in found] == [0, 0, 3]
    first, second = found[0].run, found[1].run
    assert first is not None
    assert second is not None
    # No upper bound: a guest's CPU time may contain time that its host took.
    assert first.cpu_ns > 590_000_000
    assert second.cpu_ns > 140_000_000
    # The time of its turns: not that in which others ran, however busy the machine is.
    assert first.wall_ns + second.wall_ns <= took_ns


def test_the_time_after_the_others_ended_counts(launcher: Launcher) -> None:
    alone = ("sh", "-c", "sleep 2.4")
    found = run_in_turns(launcher, [Way(("true",)), Way(alone)], ALL)
    assert found[1].run is not None
    # Most of it, if the other one takes a while to start on a busy machine.
    assert found[1].run.wall_ns > 1_500_000_000


def state(pid: int) -> str:
    """As in /proc; of a process that has ended, as if it were stopped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
    except OSError:
        return "T"


def test_one_at_a_time_is_running(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[list[str]] = []
    take = turns._Run.turn

    def watched(self: turns._Run) -> None:
        family = process_tree.offspring([self.started.process.pid])
        # Signals take a moment; what never stops is reported below.
        until(lambda: {state(pid) for pid in family} <= {"T", "Z"})
        states.append([state(pid) for pid in family])
        take(self)

    monkeypatch.setattr(turns._Run, "turn", watched)
    run_in_turns(launcher, [Way(spin(0.2)), Way(spin(0.2))], ALL)
    # However many turns there were: each was stopped when its turn came, but perhaps at its start.
    assert states[1:]
    assert {found for each in states[1:] for found in each} <= {"T", "Z"}


def test_a_program_that_writes_a_file_is_not_run_twice(launcher: Launcher, tmp_path: Path) -> None:
    file = tmp_path / "result"
    writer = spin(5, more=f"f = open({str(file)!r}, 'w')")
    with pytest.raises(NotTogetherError, match=str(file)):
        run_in_turns(launcher, [Way(writer), Way(writer)], ALL)
    assert launcher.runs == 1


def test_what_may_not_be_stopped_is_not_run_twice(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = os.kill

    # As of a program that is another user's (setuid).
    def refused(pid: int, number: int) -> None:
        if number == signal.SIGSTOP:
            raise PermissionError
        kill(pid, number)

    monkeypatch.setattr(os, "kill", refused)
    with pytest.raises(NotTogetherError, match="another user"):
        run_in_turns(launcher, [Way(spin(5)), Way(spin(5))], ALL)
    assert launcher.runs == 1


def test_who_is_interrupted_leaves_nothing_stopped(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise Stopped(15)

    monkeypatch.setattr(turns, "_take_turns", interrupted)
    with pytest.raises(Stopped):
        run_in_turns(launcher, [Way(spin(60)), Way(spin(60))], ALL)
    assert launcher.transparent is None


def test_what_cannot_be_fed_any_more_is_ended(tmp_path: Path) -> None:
    ends = os.pipe()
    stdin = ProgramInput(ends[0], limit_bytes=1)
    with contextlib.closing(stdin):
        os.write(ends[1], b"more than that")
        os.close(ends[1])
        launcher = Launcher(tmp_path, stdin)
        way = Way(("sh", "-c", "cat >/dev/null; sleep 60"))
        with pytest.raises(TlbcostError, match="standard input"):
            run_in_turns(launcher, [way, way], ALL)
    os.close(ends[0])


def test_programs_that_wait_or_are_made_ready_do_not_take_turns(launcher: Launcher) -> None:
    assert objection(launcher, BUSY) is None
    idle = Run(1_000_000_000, 100_000_000, 0, 100, 0, 1 << 20)
    assert "waits" in (objection(launcher, idle) or "")
    large = Run(1_000_000_000, 990_000_000, 0, 100, 0, 1 << 50)
    assert "too little memory" in (objection(launcher, large) or "")
    launcher.prepare = "true"
    assert "--prepare" in (objection(launcher, BUSY) or "")


def test_threads_at_the_same_time_keep_all_cpus() -> None:
    parallel = Run(1_000_000_000, 1_900_000_000, 0, 100, 0, 1 << 20)
    assert cpus_for(parallel) == ALL
    assert len(cpus_for(BUSY)) == 1


@pytest.mark.parametrize("busy", [None, 0, 1])
def test_the_cpu_that_others_use_least_is_taken(
    busy: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(turns.time, "sleep", lambda _: None)
    looks = Counter[int]()

    def ticks(cpu: int) -> list[int]:
        looks[cpu] += 30
        # A tick more or less is no difference.
        idle = 0 if cpu == busy else looks[cpu] - cpu
        return [looks[cpu] - idle, 0, 0, idle, 0, 0, 0, 0]

    monkeypatch.setattr(turns, "cpu_ticks", ticks)
    assert cpus_for(BUSY) == {0 if busy == 1 else 1}


def marked(marker: str) -> dict[int, str]:
    """The states of the processes with this word among their arguments."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker in (folder / "cmdline").read_text(encoding="utf-8", errors="replace"):
                found[int(folder.name)] = state(int(folder.name))
    return found


def in_turns_elsewhere(prefix: Sequence[str], marker: str) -> subprocess.Popen[bytes]:
    """Two families that take turns, started by a process of their own."""
    inner = f"import time\nwhile time.process_time() < 5: pass  # {marker}"
    family = (*prefix, "sh", "-c", f"'{sys.executable}' -c '{inner}'; true")
    code = (
        "import os\nfrom tlbcost.run.launch import launcher_of\n"
        "from tlbcost.run.turns import Way, run_in_turns\n"
        f"way = Way({family!r})\n"
        "with launcher_of(None) as launcher:\n"
        "    run_in_turns(launcher, [way, way], frozenset(os.sched_getaffinity(0)))"
    )
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)


def until(seen: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether it is so before that time has passed."""
    end = time.monotonic() + seconds
    while not (now := seen()) and time.monotonic() < end:
        time.sleep(0.02)
    return now


@pytest.mark.parametrize("huge", [False, True])
def test_who_is_killed_leaves_nothing_stopped(huge: bool, tmp_path: Path) -> None:
    if huge and not thp.is_here():
        pytest.skip("needs tlbcost-thp")
    marker = f"mark-{tmp_path.name}-{os.getpid()}"
    owner = in_turns_elsewhere(thp.launcher() if huge else (), marker)
    try:
        # Both are there, and one of them has its turn.
        assert until(lambda: list(marked(marker).values()).count("T") >= 2)
        owner.kill()
        owner.wait()
        assert until(lambda: not set(marked(marker).values()) & {"T", "t"})
    finally:
        owner.kill()
        for pid in marked(marker):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("name", "ours"),
    [("tlbcost-calibrator", True), ("tlbcost-copies", True), ("tlbcost-program", False)],
)
def test_helpers_are_known_by_their_names(tmp_path: Path, name: str, ours: bool) -> None:
    program = tmp_path / name
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as process:
        # The kernel names it a little after it has closed what Popen waits for.
        comm = Path(f"/proc/{process.pid}/comm")
        while comm.read_text(encoding="utf-8").strip() != name[:15]:
            time.sleep(0.001)
        assert is_helper(process.pid) is ours
        process.kill()


@pytest.mark.parametrize(
    ("opened", "copied"), [("pidfd_open(os.getpid())", True), ("dup(1)", False)]
)
def test_a_copy_has_pidfds_alone(opened: str, copied: bool) -> None:
    program = (
        "import os, time; open('/proc/self/oom_score_adj', 'w').write('1000');"
        f"fd = os.{opened}; os.closerange(0, fd); os.closerange(fd + 1, 999); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        files = Path(f"/proc/{process.pid}/fd")
        assert until(lambda: len(list(files.iterdir())) == 1)
        assert is_copy(process.pid) is copied
        process.kill()
    # One that ended while it was looked at is never taken for the program.
    assert is_copy(process.pid)
