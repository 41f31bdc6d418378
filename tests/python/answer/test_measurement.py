# SPDX-License-Identifier: GPL-2.0-or-later
"""How copies are made of a process, and of a run that is too long for pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tlbcost.answer import measurement
from tlbcost.answer.request import EstimateRequest
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.copies.record import CopiedRun
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run


def asked(time_budget: float | None = None) -> EstimateRequest:
    return EstimateRequest(argv=("true",), measured=True, time_budget=time_budget)


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
        asked(), 1, tmp_path, run, cast(CopiedRun, SimpleNamespace(record=record))
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
    found = measurement.measure_program(asked(5), launcher, Path("/bin/true"), [first], (), None)[0]
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
    measurement.measure_program(request, launcher, Path("/bin/true"), [first], (), None)
    [words] = tools
    assert {"--arms", "--text", "--shared"} <= set(words)
