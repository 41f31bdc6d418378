# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the progress line tell how much is left, on a terminal alone?"""

from __future__ import annotations

import pytest
from tlbcost.common.progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("tlbcost.common.progress.time.monotonic", lambda: now[0])
    return now


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.removeprefix("\r\033[K")


def test_the_bar_and_the_time_left(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.calibrating(0)
    assert shown(capsys) == "tlbcost: calibrating [>                   ] 0 %"
    clock[0] += 5
    progress.calibrating(50)
    assert shown(capsys) == "tlbcost: calibrating [==========>         ] 50 %, 5 s left"
    clock[0] += 5
    progress.calibrating(100)
    assert shown(capsys) == "tlbcost: calibrating [====================] 100 %, 0 s left"


def test_what_was_done_before_the_first_word_does_not_count(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress()
    progress.calibrating(40)
    clock[0] += 2
    progress.calibrating(60)
    assert shown(capsys).endswith("60 %, 4 s left")


def test_a_second_calibration_begins_anew(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress()
    progress.calibrating(90)
    clock[0] += 60
    progress.calibrating(10)
    assert shown(capsys).endswith("10 %")
    clock[0] += 1
    progress.calibrating(20)
    assert shown(capsys).endswith("20 %, 8 s left")


def test_an_announcement_clears_the_line_and_stays(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.calibrating(1)
        progress.announce("measuring again")
    assert capsys.readouterr().err.endswith("\r\033[Ktlbcost: measuring again\n")


def test_no_line_where_stderr_is_no_terminal() -> None:
    assert not Progress().shown
