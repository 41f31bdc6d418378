# SPDX-License-Identifier: GPL-2.0-or-later
"""Does progress tell how much is left: a line on a terminal, one a minute elsewhere?"""

from __future__ import annotations

import pytest
from tlbcost.common import progress as module
from tlbcost.common.progress import Progress, RunProgress, duration, say, so_far

ERASE = "\r\033[K"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("tlbcost.common.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr(module, "_STDERR", module._Stderr())
    return now


@pytest.fixture
def terminal(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module._Stderr, "is_terminal", lambda _: True)
    return clock


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.removeprefix(ERASE)


def test_the_bar_and_the_time_left(
    terminal: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress("calibration")
    progress.calibrating(0)
    assert shown(capsys) == "tlbcost: calibrating [>                   ] 0 %"
    terminal[0] += 5
    progress.calibrating(50)
    assert shown(capsys) == "tlbcost: calibrating [==========>         ] 50 %, 5 s left"
    terminal[0] += 5
    progress.calibrating(100)
    assert shown(capsys) == "tlbcost: calibrating [====================] 100 %, 0 s left"


def test_what_was_done_before_the_first_word_does_not_count(
    terminal: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress("calibration")
    progress.calibrating(40)
    terminal[0] += 2
    progress.calibrating(60)
    assert shown(capsys).endswith("60 %, 4 s left")


def test_a_second_calibration_begins_anew(
    terminal: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress("calibration")
    progress.calibrating(90)
    terminal[0] += 60
    progress.calibrating(10)
    assert shown(capsys).endswith("10 %")
    terminal[0] += 1
    progress.calibrating(20)
    assert shown(capsys).endswith("20 %, 8 s left")


@pytest.mark.usefixtures("terminal")
def test_a_message_clears_the_line_and_stays(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("calibration") as progress:
        progress.calibrating(1)
        say("measuring again")
    assert capsys.readouterr().err.endswith(f"{ERASE}tlbcost: measuring again\n")


@pytest.mark.usefixtures("terminal")
def test_the_line_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_columns", lambda: 30)
    Progress("calibration").calibrating(1)
    assert len(shown(capsys)) == 29


def test_a_line_a_minute_where_stderr_is_no_terminal(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress("calibration")
    for second in range(119):
        clock[0] = 100 + second
        progress.calibrating(second // 2)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["tlbcost: calibrating [======>             ] 30 %, 2 min left"]


@pytest.mark.parametrize("term", ["dumb", ""])
def test_no_escape_sequence_on_a_terminal_that_knows_none(
    term: str,
    terminal: list[float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TERM", term)
    with Progress("calibration") as progress:
        progress.calibrating(1)
        terminal[0] += 61
        progress.calibrating(2)
    assert capsys.readouterr().err == "tlbcost: calibrating [>                   ] 2 %\n"


def test_quiet_says_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    module.be_quiet()
    clock[0] += 61
    Progress("calibration").calibrating(2)
    say("measuring again")
    assert capsys.readouterr().err == ""


def test_the_time_left_of_runs_is_from_those_before(
    terminal: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with RunProgress("3 native runs", 3) as runs:
        with runs.run(own_output=True) as tick:
            # The terminal is the program's.
            assert tick is None
            terminal[0] += 10
        with runs.run() as tick:
            assert tick is not None
            tick(4)
            assert shown(capsys) == "tlbcost: 3 native runs: run 2 of 3, about 16 s left"
            tick(25)
            assert shown(capsys) == ("tlbcost: 3 native runs: run 2 of 3, longer than those before")
    assert so_far() == "finished: 3 native runs"


def test_the_simulation_says_what_is_usual(
    terminal: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    # One second of CPU time in 3 s: sleeping is not slowed down.
    tick = Progress("simulation").simulating(1_000_000_000, 3_000_000_000)
    tick(5)
    assert shown(capsys) == "tlbcost: simulating: 5 s so far, usually 12 s to 27 s"
    assert terminal


@pytest.mark.usefixtures("clock")
def test_what_was_under_way_is_known() -> None:
    def stop() -> None:
        with Progress("calibration"):
            pass
        with Progress("simulation"):
            raise KeyboardInterrupt

    assert so_far() == "finished: nothing"
    with pytest.raises(KeyboardInterrupt):
        stop()
    assert so_far() == "during the simulation; finished: calibration"


def test_durations() -> None:
    assert [duration(s) for s in (0.2, 119, 120, 7199, 7500)] == [
        "1 s", "119 s", "2 min", "2 h 0 min", "2 h 5 min",
    ]  # fmt: skip
