# SPDX-License-Identifier: GPL-2.0-or-later
"""What is decided before a program runs, and what does the simulator get?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from builders.answer import MACHINE, RUN, process
from builders.tree import GOLDEN, fails, there
from tlbcost.answer import record, runs
from tlbcost.answer.request import EstimateRequest
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.copies.estimator import CopiedRun
from tlbcost.run.launch import Launcher, launcher_of
from tlbcost.run.outcome import Outcome, Run
from tlbcost.simulator.core import Core
from tlbcost.simulator.memory_tables import WindowPlan
from tlbcost.simulator.run import Simulation

CALIBRATION = GOLDEN / "calibration.tsv"
IN_VALGRIND = EstimateRequest(("true",), backend="sim", engine="valgrind")


def plan_by(
    monkeypatch: pytest.MonkeyPatch,
    core: Core | None,
    request: EstimateRequest = IN_VALGRIND,
    why: str | None = None,
) -> record.RunPlan:
    """What is decided before a program runs, where a calibration gives this core.

    Copies can be followed, but for `why`.
    """
    monkeypatch.setattr(record, "find_valgrind", lambda: Path("/v"))
    monkeypatch.setattr(record, "core_for", lambda *_: core)
    monkeypatch.setattr(record, "unavailable", lambda: why)
    path = None if request.pid is not None else Path("/bin/true")
    return record.plan_runs(replace(request, calibration=CALIBRATION), MACHINE, path)


MODELLED = Core((("width", 6),), ("the caches are those of CPUID",))


def test_the_core_is_from_the_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_by(monkeypatch, None).no_core == "the calibration has no costs of loads"
    found = plan_by(monkeypatch, MODELLED)
    assert found.core == MODELLED
    assert found.no_core is None
    assert MODELLED.notes[0] in found.notes


def test_the_simulator_gets_the_core_and_windows_for_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native = Outcome(replace(RUN, user_ns=1_000_000_000), "", None, 0, None, None)
    asked: list[tuple[object, ...]] = []

    def simulate(*options: object) -> Simulation:
        asked.append(options[-2:])
        return Simulation((process(),), native, ())

    monkeypatch.setattr(runs, "simulate", simulate)
    plan = plan_by(monkeypatch, MODELLED)
    with launcher_of(None) as launcher:
        request = EstimateRequest(("app",), engine="valgrind")
        runs._simulate(request, plan, launcher, [native], plan.core)
        runs._simulate(request, plan, launcher, [native], None)
    # At 30 references in a microsecond, 64 windows of a second.
    assert asked == [(WindowPlan(period=468_750, most=64), "width=6"), (None, None)]


def test_copies_are_what_simulates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = EstimateRequest(("true",), backend="sim")
    found = plan_by(monkeypatch, MODELLED, asked)
    assert found.valgrind is None
    copies = there(found.copies)
    assert (copies.overhead, copies.copies) == (0.05, None)
    asked = replace(asked, engine="copies", copies=7)
    found = plan_by(monkeypatch, MODELLED, asked)
    assert there(found.copies).copies == 7
    assert capsys.readouterr().err == ""
    found = plan_by(monkeypatch, MODELLED, replace(asked, engine="valgrind"), "not built")
    assert (found.valgrind, found.copies) == (Path("/v"), None)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("core", "why", "words"),
    [(MODELLED, "not built", "not built"), (None, None, "the calibration has no costs of loads")],
)
def test_without_copies_valgrind_simulates_and_the_reason_is_reported(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    core: Core | None,
    why: str | None,
    words: str,
) -> None:
    asked = EstimateRequest(("true",), backend="sim")
    found = plan_by(monkeypatch, core, asked, why)
    assert (found.valgrind, found.copies) == (Path("/v"), None)
    assert f"simulated by Valgrind, not in copies: {words}" in capsys.readouterr().err
    refused = {
        "no estimate by copies": replace(asked, engine="copies"),
        "process 1 cannot be followed": EstimateRequest(pid=1),
    }
    for start, request in refused.items():
        with fails(f"{start}: {words}", 4) as error:
            plan_by(monkeypatch, core, request, why)
        assert error.value.hint


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

    monkeypatch.setattr(runs.copies, "run_tool", tool)
    record = SimpleNamespace(calling=calling, windows=10)
    run = Run(10**9, 990_000_000, 0, 100, 0, 1 << 20)
    found = runs.measure_process(
        asked(), 1, tmp_path, run, cast(CopiedRun, SimpleNamespace(record=record))
    )
    assert found == "the process may not be copied"
    # --arms sets it, too: --record comes after that.
    assert words.index("--arms") < words.index("--record")
    assert words[words.index("--record") + 1] == recorded


def copied(folder: Path, request: EstimateRequest, ns: int) -> tuple[object, Sequence[str]]:
    """What comes of measuring a program that takes so long, and the words of the one tool."""
    tools: list[Sequence[str]] = []

    def execute(*_: object, tool: Sequence[str], **__: object) -> Outcome:
        tools.append(tool)
        return Outcome(None, "", None, 0, None, None)

    first = Outcome(Run(ns, ns, 0, 100, 0, 1 << 20), "", 0, 0, None, None)
    launcher = cast(Launcher, SimpleNamespace(folder=folder, execute=execute))
    found = runs.measure_program(request, launcher, Path("/bin/true"), [first], (), None)[0]
    [words] = tools
    return found, words


@pytest.mark.parametrize(("wall_s", "until"), [(10, "24"), (60, "72")])
def test_copies_of_a_run_have_a_time_limit(tmp_path: Path, wall_s: int, until: str) -> None:
    found, words = copied(tmp_path, asked(5), wall_s * 10**9)
    assert "the run that copies were made of" in str(found)
    assert words[words.index("--until-seconds") + 1] == until


def test_text_is_measured_in_copies_however_short_the_program(tmp_path: Path) -> None:
    request = replace(asked(), also=("text", "shared memory"))
    assert {"--arms", "--text", "--shared"} <= set(copied(tmp_path, request, 10**8)[1])
