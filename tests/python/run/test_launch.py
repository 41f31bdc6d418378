# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a program run and measured, its failures reported, and nothing left of it?"""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest
from builders.tree import fails, needs_launcher, there
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.run import launch
from tlbcost.run.launch import Launcher, native_runs
from tlbcost.run.outcome import Outcome

pytestmark = needs_launcher


def sh(launcher: Launcher, text: str, n: int = 1, *, ignore_failure: bool = False) -> list[Outcome]:
    return native_runs(
        launcher, ["sh", "-c", text], Path("/bin/sh"), n, ignore_failure=ignore_failure
    )


def test_runs_are_measured(launcher: Launcher) -> None:
    outcomes = sh(launcher, "exit 0", 2)
    assert [outcome.code for outcome in outcomes] == [0, 0]
    for outcome in outcomes:
        assert outcome.run is not None
        assert outcome.run.wall_ns > 0
        assert outcome.run.minor_faults > 0
        assert not outcome.failed


def test_failures_can_be_ignored(launcher: Launcher) -> None:
    outcomes = sh(launcher, "exit 7", 2, ignore_failure=True)
    assert [outcome.code for outcome in outcomes] == [7, 7]


def test_what_cannot_be_repeated_is_reported(launcher: Launcher, tmp_path: Path) -> None:
    text = f"mkdir {tmp_path}/made"
    with pytest.raises(TlbcostError, match=r"cannot be repeated.*File exists") as error:
        sh(launcher, text, 3)
    assert "--prepare" in str(error.value.hint)
    launcher.prepare = f"rm -rf {tmp_path}/made"
    assert len(sh(launcher, text, 3)) == 3


def test_a_failing_preparation_is_our_failure(launcher: Launcher) -> None:
    launcher.prepare = "exit 4"
    with fails("prepare a run failed: exit code 4", 125):
        sh(launcher, "true")


def test_a_full_disk_is_our_failure(launcher: Launcher) -> None:
    launcher.folder = launcher.folder / "not-there"
    with fails("cannot time the program", 125):
        sh(launcher, "true")


def test_ticks_come_while_a_program_runs(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_TICK_S", 0.01)
    ticks: list[float] = []
    launcher.execute(["sleep", "1"], discard=True, tick=ticks.append)
    assert ticks
    assert ticks == sorted(ticks)


@pytest.mark.parametrize(("long_s", "n"), [(0.1, 1), (3600.0, 2)])
def test_a_long_run_is_the_only_one(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, long_s: float, n: int
) -> None:
    monkeypatch.setattr(launch, "_TICK_S", 0.02)
    started: list[int] = []
    outcomes = native_runs(
        launcher, ["sleep", "0.5"], Path("/bin/sleep"), 2, ignore_failure=False,
        last_started=started.append, long_s=long_s,
    )  # fmt: skip
    assert (len(outcomes), len(started)) == (n, 1)


@pytest.mark.long
@pytest.mark.usefixtures("leaves_nothing")
def test_an_exception_ends_the_whole_family(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "_TICK_S", 0.02)
    pids = tmp_path / "pids"

    def stop(_: float) -> None:
        if pids.exists() and len(pids.read_text().split()) == 2:
            raise KeyboardInterrupt

    stubborn = f"(trap '' TERM; echo $$ >>{pids}; sleep 60; sleep 60)"
    text = f"{stubborn} | (sleep 60 & echo $! >>{pids}; wait)"
    with pytest.raises(KeyboardInterrupt):
        launcher.execute(["sh", "-c", text], discard=True, tick=stop)
    for pid in pids.read_text().split():
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()


def test_a_run_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    def start() -> None:
        words = [paths.libexec("tlbcost-run"), "--output", tmp_path / "run", "--"]
        program = ["sh", "-c", "echo; sleep 0.3; exit 7"]
        run = subprocess.Popen([*words, *program], stdout=subprocess.PIPE)
        there(run.stdout).readline()
        runs.append(run)

    runs: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with runs[0]:
        assert runs[0].wait() == 7
