# SPDX-License-Identifier: GPL-2.0-or-later
"""What is decided before a program runs, and what does the simulator get?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import MACHINE, RUN, process
from builders.tree import GOLDEN
from tlbcost.answer import run_plan, runs
from tlbcost.answer.request import AskedModel, EstimateRequest
from tlbcost.common.errors import TlbcostError
from tlbcost.run.launch import launcher_of
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.core import Core
from tlbcost.simulator.run import Simulation
from tlbcost.simulator.windows import WindowPlan

CALIBRATION = GOLDEN / "calibration.tsv"


def set_up(
    monkeypatch: pytest.MonkeyPatch, core: Core | None, model: AskedModel = "auto"
) -> run_plan.RunPlan:
    """What is decided before a program runs, where a calibration gives this core."""
    monkeypatch.setattr(run_plan, "find_valgrind", lambda: Path("/v"))
    monkeypatch.setattr(run_plan, "core_for", lambda *_: core)
    request = EstimateRequest(
        ("true",), backend="sim", engine="valgrind", model=model, calibration=CALIBRATION
    )
    return run_plan.plan_runs(request, MACHINE, Path("/bin/true"))


MODELLED = Core((("width", 6),), ("the caches are those of CPUID",))


def test_the_core_is_from_the_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set_up(monkeypatch, MODELLED)
    assert found.core == MODELLED
    assert found.no_core is None
    assert MODELLED.notes[0] in found.notes
    simple = set_up(monkeypatch, MODELLED, "simple")
    assert (simple.core, simple.no_core) == (None, None)


def test_the_simulator_gets_the_core_and_windows_for_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native = Outcome(replace(RUN, user_ns=1_000_000_000), "", None, 0, None, None)
    asked: list[tuple[object, ...]] = []

    def simulate(*options: object) -> Simulation:
        asked.append(options[-2:])
        return Simulation((process(),), native, ())

    monkeypatch.setattr(runs, "simulate", simulate)
    plan = set_up(monkeypatch, MODELLED)
    with launcher_of(None) as launcher:
        request = EstimateRequest(("app",), engine="valgrind")
        runs._simulate(request, plan, launcher, [native], plan.core)
        runs._simulate(request, plan, launcher, [native], None)
    # At 30 references in a microsecond, 64 windows of a second.
    assert asked == [(WindowPlan(period=468_750, most=64), "width=6"), (None, None)]


def test_without_a_core_the_simple_model_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set_up(monkeypatch, None).no_core == "the calibration has no costs of loads"
    assert set_up(monkeypatch, None, "simple").no_core is None
    with pytest.raises(TlbcostError, match="no costs of loads") as error:
        set_up(monkeypatch, None, "overlap")
    assert error.value.exit_code == 4
    assert "--model simple" in str(error.value.hint)


def plan_by(
    monkeypatch: pytest.MonkeyPatch, request: EstimateRequest, core: Core | None, why: str | None
) -> run_plan.RunPlan:
    """The plan where copies can be followed, but for `why`."""
    monkeypatch.setattr(run_plan, "find_valgrind", lambda: Path("/v"))
    monkeypatch.setattr(run_plan, "core_for", lambda *_: core)
    monkeypatch.setattr(run_plan, "unavailable", lambda: why)
    path = None if request.pid is not None else Path("/bin/true")
    return run_plan.plan_runs(replace(request, calibration=CALIBRATION), MACHINE, path)


def test_copies_are_what_simulates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = EstimateRequest(("true",), backend="sim")
    found = plan_by(monkeypatch, asked, MODELLED, None)
    assert found.valgrind is None
    assert found.copies is not None
    assert (found.copies.overhead, found.copies.copies) == (0.05, None)
    asked = replace(asked, engine="copies", copies=7)
    found = plan_by(monkeypatch, asked, MODELLED, None)
    assert found.copies is not None
    assert found.copies.copies == 7
    assert capsys.readouterr().err == ""
    found = plan_by(monkeypatch, replace(asked, engine="valgrind"), MODELLED, "not built")
    assert (found.valgrind, found.copies) == (Path("/v"), None)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("core", "why", "words"),
    [
        (MODELLED, "not built", "not built"),
        (None, None, "the calibration has no costs of loads"),
    ],
)
def test_without_copies_valgrind_simulates_and_the_reason_is_reported(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    core: Core | None,
    why: str | None,
    words: str,
) -> None:
    asked = EstimateRequest(("true",), backend="sim")
    found = plan_by(monkeypatch, asked, core, why)
    assert (found.valgrind, found.copies) == (Path("/v"), None)
    assert f"simulated by Valgrind, not in copies: {words}" in capsys.readouterr().err
    refused = {
        "no estimate by copies": replace(asked, engine="copies"),
        "process 1 cannot be followed": EstimateRequest(pid=1),
    }
    for start, request in refused.items():
        with pytest.raises(TlbcostError, match=f"{start}: {words}") as error:
            plan_by(monkeypatch, request, core, why)
        assert error.value.exit_code == 4
        assert error.value.hint


def test_the_simple_model_is_of_a_whole_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = EstimateRequest(("true",), backend="sim", model="simple")
    found = plan_by(monkeypatch, asked, MODELLED, None)
    assert (found.valgrind, found.copies) == (Path("/v"), None)
    assert "the simple model needs the counts of a whole run" in capsys.readouterr().err
