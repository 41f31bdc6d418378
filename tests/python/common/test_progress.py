# SPDX-License-Identifier: GPL-2.0-or-later
"""Does progress tell how much is left: a line on a terminal, one a minute elsewhere?"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tlbcost.common import progress as module
from tlbcost.common.progress import Progress, RunProgress, duration, say, so_far

ERASE = "\r\033[K"


@dataclass
class Screen:
    """What is shown, and the time."""

    capsys: pytest.CaptureFixture[str]
    now: float = 100.0

    def text(self) -> str:
        return self.capsys.readouterr().err

    def shown(self) -> str:
        return self.text().removeprefix(ERASE)


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Screen:
    screen = Screen(capsys)
    monkeypatch.setattr("tlbcost.common.progress.time.monotonic", lambda: screen.now)
    monkeypatch.setattr(module, "_STDERR", module._Stderr())
    return screen


@pytest.fixture
def terminal(file: Screen, monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module._Stderr, "is_terminal", lambda _: True)
    return file


def test_the_bar_and_the_time_left(terminal: Screen) -> None:
    progress = Progress("calibration")
    progress.calibrating(0)
    assert terminal.shown() == "tlbcost: calibrating [>                   ] 0 %"
    terminal.now += 5
    progress.calibrating(50)
    assert terminal.shown() == "tlbcost: calibrating [==========>         ] 50 %, 5 s left"
    terminal.now += 5
    progress.calibrating(100)
    assert terminal.shown() == "tlbcost: calibrating [====================] 100 %, 0 s left"


def test_what_was_done_before_the_first_word_does_not_count(terminal: Screen) -> None:
    progress = Progress("calibration")
    progress.calibrating(40)
    terminal.now += 2
    progress.calibrating(60)
    assert terminal.shown().endswith("60 %, 4 s left")


def test_a_second_calibration_begins_anew(terminal: Screen) -> None:
    progress = Progress("calibration")
    progress.calibrating(90)
    terminal.now += 60
    progress.calibrating(10)
    assert terminal.shown().endswith("10 %")
    terminal.now += 1
    progress.calibrating(20)
    assert terminal.shown().endswith("20 %, 8 s left")


def test_a_message_clears_the_line_and_stays(terminal: Screen) -> None:
    with Progress("calibration") as progress:
        progress.calibrating(1)
        say("measuring again")
    assert terminal.text().endswith(f"{ERASE}tlbcost: measuring again\n")


def test_the_line_fits_the_terminal(terminal: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_columns", lambda: 30)
    Progress("calibration").calibrating(1)
    assert len(terminal.shown()) == 29


def test_a_line_a_minute_where_stderr_is_no_terminal(file: Screen) -> None:
    progress = Progress("calibration")
    for second in range(119):
        file.now = 100 + second
        progress.calibrating(second // 2)
    lines = file.text().splitlines()
    assert lines == ["tlbcost: calibrating [======>             ] 30 %, 2 min left"]


@pytest.mark.parametrize("term", ["dumb", ""])
def test_no_escape_sequence_on_a_terminal_that_knows_none(
    term: str, terminal: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    with Progress("calibration") as progress:
        progress.calibrating(1)
        terminal.now += 61
        progress.calibrating(2)
    assert terminal.text() == "tlbcost: calibrating [>                   ] 2 %\n"


def test_quiet_says_nothing(file: Screen) -> None:
    module.be_quiet()
    file.now += 61
    Progress("calibration").calibrating(2)
    say("measuring again")
    assert file.text() == ""


def test_the_time_left_of_runs_is_from_those_before(terminal: Screen) -> None:
    with RunProgress("3 native runs", 3) as runs:
        with runs.run(own_output=True) as tick:
            # The terminal is the program's.
            assert tick is None
            terminal.now += 10
        with runs.run() as tick:
            assert tick is not None
            tick(4)
            assert terminal.shown() == "tlbcost: 3 native runs: run 2 of 3, about 16 s left"
            tick(25)
            assert terminal.shown() == (
                "tlbcost: 3 native runs: run 2 of 3, longer than those before"
            )
    assert so_far() == "finished: 3 native runs"


def test_the_simulation_says_what_is_usual(terminal: Screen) -> None:
    # One second of CPU time in 3 s: sleeping is not slowed down.
    tick = Progress("simulation").simulating(1_000_000_000, 3_000_000_000)
    tick(5)
    assert terminal.shown() == "tlbcost: simulating: 5 s so far, usually 12 s to 27 s"


@pytest.mark.usefixtures("file")
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
