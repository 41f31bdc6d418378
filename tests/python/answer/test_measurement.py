# SPDX-License-Identifier: GPL-2.0-or-later
"""Does an estimate wait for a machine that is too busy, as long as it may, and no longer?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tlbcost.answer import measurement
from tlbcost.answer.request import EstimateRequest
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.copies.record import CopiedRun
from tlbcost.measured.record import MeasuredGain, TooBusy, too_busy
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run

NONE = Interval(0.0, -0.01, 0.01)
GAIN = MeasuredGain("runs in turns", NONE, NONE, NONE, NONE, 4, {}, 0.9, 1.0)
BUSY = TooBusy("this machine is too busy to measure now: so it was said")


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses; time passes in them alone."""
    pauses: list[float] = []
    monkeypatch.setattr(measurement.time, "sleep", pauses.append)
    monkeypatch.setattr(measurement.time, "monotonic", lambda: sum(pauses))
    return pauses


def answers(*found: MeasuredGain | str | TlbcostError) -> Callable[[], MeasuredGain | str]:
    left: Iterator[MeasuredGain | str | TlbcostError] = iter(found)

    def measure() -> MeasuredGain | str:
        now = next(left)
        if isinstance(now, TlbcostError):
            raise now
        return now

    return measure


def asked(patience: float | None) -> EstimateRequest:
    return EstimateRequest(argv=("true",), measured=True, patience=patience)


def test_without_patience_there_is_one_attempt(slept: list[float]) -> None:
    assert measurement._patiently(asked(None), answers(BUSY, GAIN)) == str(BUSY)
    assert slept == []


def test_a_busy_machine_is_tried_again_until_it_can_measure(
    slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert measurement._patiently(asked(100), answers(BUSY, BUSY, GAIN)) is GAIN
    assert slept == [20.0, 20.0]
    said = capsys.readouterr().err
    assert said.count("so it was said; again in 20 s") == 2
    assert "not measured" not in said


def test_patience_ends(slept: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    found = measurement._patiently(asked(50), answers(BUSY, BUSY, BUSY, GAIN))
    assert found == str(BUSY)
    assert slept == [20.0, 20.0]
    assert "not measured: this machine is too busy" in capsys.readouterr().err


def test_another_reason_is_not_waited_for(slept: list[float]) -> None:
    assert measurement._patiently(asked(100), answers("it writes a file", GAIN)) == (
        "it writes a file"
    )
    assert slept == []


@pytest.mark.usefixtures("slept")
def test_a_process_that_is_gone_by_then_leaves_the_model() -> None:
    gone = TlbcostError("no such process", None, 125)
    assert measurement._patiently(asked(100), answers(BUSY, gone)) == str(BUSY)
    with pytest.raises(TlbcostError, match="no such process"):
        measurement._patiently(asked(100), answers(gone))


@pytest.mark.parametrize(("calling", "recorded"), [(3, "0"), (9, "10000")])
def test_calls_of_a_server_are_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, calling: int, recorded: str
) -> None:
    words: list[str] = []

    def tool(command: Sequence[str]) -> tuple[int, str]:
        words.extend(command)
        return CANNOT_MEASURE, ""

    monkeypatch.setattr(measurement, "run_tool", tool)
    record = SimpleNamespace(calling=calling, windows=10)
    run = Run(10**9, 990_000_000, 0, 100, 0, 1 << 20)
    found = measurement.measure_process(
        asked(None), 1, tmp_path, run, cast(CopiedRun, SimpleNamespace(record=record))
    )
    assert found == "the process may not be copied"
    # --arms sets it, too: --record comes after that.
    assert words.index("--arms") < words.index("--record")
    assert words[words.index("--record") + 1] == recorded


@pytest.mark.parametrize(("wall_s", "until"), [(10, "24"), (60, "72")])
def test_copies_of_a_run_have_a_time_limit(tmp_path: Path, wall_s: int, until: str) -> None:
    tools: list[Sequence[str]] = []

    def execute(*_: object, tool: Sequence[str], **__: object) -> Outcome:
        tools.append(tool)
        return Outcome(None, "", None, 0, None, None)

    run = Run(wall_s * 10**9, wall_s * 10**9, 0, 100, 0, 1 << 20)
    first = Outcome(run, "", 0, 0, None, None)
    launcher = cast(Launcher, SimpleNamespace(folder=tmp_path, execute=execute))
    found = measurement.measure_program(asked(None), launcher, [first], None)
    assert "the run that copies were made of" in str(found)
    [words] = tools
    assert words[words.index("--until-seconds") + 1] == until


def test_text_is_measured_in_copies_however_short_the_program(tmp_path: Path) -> None:
    tools: list[Sequence[str]] = []

    def execute(*_: object, tool: Sequence[str], **__: object) -> Outcome:
        tools.append(tool)
        return Outcome(None, "", None, 0, None, None)

    first = Outcome(Run(10**8, 10**8, 0, 100, 0, 1 << 20), "", 0, 0, None, None)
    launcher = cast(Launcher, SimpleNamespace(folder=tmp_path, execute=execute))
    request = EstimateRequest(argv=("true",), measured=True, also=("text", "shared memory"))
    measurement.measure_program(request, launcher, [first], None)
    [words] = tools
    assert {"--arms", "--text", "--shared"} <= set(words)


def test_only_a_null_beyond_two_points_is_busy() -> None:
    assert too_busy(Interval(0.02, -0.05, 0.09)) is None
    found = too_busy(Interval(-0.031, -0.04, -0.02))
    assert isinstance(found, TooBusy)
    assert "differ by 3.1 %" in found
