# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import BASE, GEOMETRY, HUGE, MACHINE, RUN, process
from tlbcost import __main__
from tlbcost.accuracy.record import TrackRecord
from tlbcost.answer import runs
from tlbcost.answer.caveats.rules import caveats
from tlbcost.answer.estimate import conclude
from tlbcost.answer.record import Evidence
from tlbcost.answer.request import AskedModel, EstimateRequest
from tlbcost.calibration.costs import check_costs
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.calibration.request import calibration_for
from tlbcost.commands import estimate
from tlbcost.common import cleanup, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.model.gain import MODELS
from tlbcost.run.launch import launcher_of
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.core import Core
from tlbcost.simulator.run import Simulation
from tlbcost.simulator.windows import ImageWindows, Window, WindowPlan

CALIBRATION = Path(__file__).parents[2] / "golden" / "calibration.tsv"


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    estimate.add_arguments(parser)
    return parser.parse_args(arguments)


def calibrated() -> Obtained:
    return Obtained(read_calibration(CALIBRATION), "from a test")


def test_options() -> None:
    found = parse("--runs", "5", "--prepare", "rm x", "--", "app", "--runs", "7")
    assert (found.runs, found.prepare) == (5, "rm x")
    assert found.program[-3:] == ["app", "--runs", "7"]
    assert parse("app").runs == 3


@pytest.mark.parametrize("runs", ["0", "-1", "x", "1001", "1.5", "²"])
def test_a_wrong_number_of_runs_is_refused(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--runs", runs, "app")
    assert ended.value.code == 2
    assert runs in capsys.readouterr().err


def test_options_exclude_each_other() -> None:
    with pytest.raises(TlbcostError, match="exclude") as error:
        calibration_for(CALIBRATION, recalibrate=True)
    assert error.value.exit_code == 2


def test_a_calibration_without_base_costs_gives_no_estimate() -> None:
    whole = read_calibration(CALIBRATION)
    check_costs(whole, MACHINE)
    bare = replace(whole, costs=tuple(c for c in whole.costs if c.quantity != "stlb_hit_ns"))
    with pytest.raises(TlbcostError, match="what an STLB hit costs on 4 KiB pages") as error:
        check_costs(bare, MACHINE)
    assert error.value.exit_code == 4


def test_what_was_obtained_is_put_together() -> None:
    native = [Outcome(RUN, "", None, 0, None, None), Outcome(RUN, "", None, None, 11, None)]
    simulation = Simulation((process(),), native[0])
    found = conclude(
        Evidence(
            argv=("app",),
            path=Path("app"),
            machine=MACHINE,
            surroundings=None,
            huge_page_bytes=HUGE,
            calibrated=calibrated(),
            run_notes=("a note",),
            native=tuple(native),
            geometry=GEOMETRY,
            simulation=simulation,
        )
    )
    assert found.given.calibrated is not None
    assert found.base_costs is not None
    assert found.huge_costs is not None
    assert found.given.codes == (0, 139)
    assert found.given.cost_notes == ("a note",)
    assert found.base_costs.footprint_entries == 65736
    assert found.huge_costs.footprint_entries == 129
    # The calibration's own figure at the next footprint is 35 ns.
    assert found.base_costs.walk_serial_ns is not None
    assert found.base_costs.walk_serial_ns.value == pytest.approx(35, rel=0.01)
    assert found.base_costs.fault_ns is not None
    assert found.base_costs.fault_ns.value == 520
    assert found.version == paths.version()


def test_splintered_pages_are_priced_at_the_base_pages_counts() -> None:
    geometry = replace(GEOMETRY, huge=replace(GEOMETRY.huge, entry_bytes=BASE))
    native = [Outcome(RUN, "", None, 0, None, None)]
    found = conclude(
        Evidence(
            argv=("app",),
            path=Path("app"),
            machine=MACHINE,
            surroundings=None,
            huge_page_bytes=HUGE,
            calibrated=calibrated(),
            native=tuple(native),
            geometry=geometry,
            simulation=Simulation((process(),), native[0]),
        )
    )
    assert found.simulated is not None
    assert found.base_costs is not None
    assert found.huge_costs is not None
    counts = found.simulated.counts
    assert counts[HUGE, "load"] == counts[BASE, "load"]
    assert found.huge_costs.footprint_entries == found.base_costs.footprint_entries


def evidence(model: AskedModel, windows: int, no_core: str | None = None) -> Evidence:
    """A simulation of one process that left so many windows, which save a tenth."""
    native = Outcome(RUN, "", None, 0, None, None)
    modelled = ImageWindows(100, "/app", 10**9, "width=6", (Window(10**5, 1000, 900),) * windows)
    return Evidence(
        argv=("app",),
        path=Path("app"),
        machine=MACHINE,
        surroundings=None,
        huge_page_bytes=HUGE,
        calibrated=calibrated(),
        native=(native,),
        geometry=GEOMETRY,
        simulation=Simulation((process(),), native, (modelled,) if no_core is None else ()),
        model=model,
        no_core=no_core,
        track_records={model: TRIED for model in MODELS},
    )


TRIED = TrackRecord(True, "2026-01-01T00:00:00Z", 16, 12, 0.0812, 0.264)


def test_the_overlap_model_is_taken_where_it_can_be() -> None:
    found = conclude(replace(evidence("auto", 50), track_records={"overlap": TRIED}))
    gain = found.gain
    assert gain.model == "overlap"
    assert gain.expected_fraction == gain.models["overlap"]
    assert gain.expected_fraction.value == pytest.approx(0.1 * 0.9)
    simple = conclude(replace(evidence("simple", 50), simulation=Simulation(
        (process(),), Outcome(RUN, "", None, 0, None, None)))).gain  # fmt: skip
    assert gain.models["simple"] == simple.expected_fraction
    assert gain.bound_fraction == simple.bound_fraction
    assert simple.models == {"simple": simple.expected_fraction}
    assert found.track_record == TRIED


def test_the_verdict_is_that_of_the_model() -> None:
    nothing = evidence("auto", 0)
    assert nothing.simulation is not None
    same = ImageWindows(100, "/app", 10**9, "width=6", (Window(10**5, 1000, 1000),) * 50)
    found = conclude(replace(nothing, simulation=replace(nothing.simulation, windows=(same,))))
    assert found.gain.expected_fraction.value == 0
    assert found.gain.verdict != conclude(nothing).gain.verdict


def set_up(
    monkeypatch: pytest.MonkeyPatch, core: Core | None, model: AskedModel = "auto"
) -> runs.RunPlan:
    """What is decided before a program runs, where a calibration gives this core."""
    monkeypatch.setattr(runs, "find_valgrind", lambda: Path("/v"))
    monkeypatch.setattr(runs, "core_for", lambda *_: core)
    request = EstimateRequest(("true",), backend="sim", model=model, calibration=CALIBRATION)
    return runs.plan_runs(request, MACHINE, Path("/bin/true"))


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
        request = EstimateRequest(("app",))
        runs._simulate(request, plan, launcher, [native], plan.core)
        runs._simulate(request, plan, launcher, [native], None)
    # At 30 references in a microsecond, 64 windows of a second.
    assert asked == [(WindowPlan(period=468_750, most=64), "width=6"), (None, None)]


def test_without_a_core_the_simple_model_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set_up(monkeypatch, None).no_core == "the calibration does not tell what loads cost"
    assert set_up(monkeypatch, None, "simple").no_core is None
    with pytest.raises(TlbcostError, match="what loads cost") as error:
        set_up(monkeypatch, None, "overlap")
    assert error.value.exit_code == 4
    assert "--model simple" in str(error.value.hint)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (evidence("auto", 3), "3 of its windows"),
        (evidence("auto", 0), "none of its windows"),
        (evidence("auto", 0, "no loads"), "no loads"),
    ],
)
def test_the_simple_model_stands_in_and_says_so(given: Evidence, why: str) -> None:
    found = conclude(replace(given, track_records={"overlap": TRIED}))
    assert found.gain.model == "simple"
    assert found.gain.expected_fraction == found.gain.models["simple"]
    assert "overlap" not in found.gain.models
    (told,) = [caveat for caveat in caveats(found) if caveat.code == "T35"]
    assert why in told.sentence
    # How the other model held is not to be quoted.
    assert found.track_record is None


def test_a_model_that_is_asked_for_is_not_replaced() -> None:
    with pytest.raises(TlbcostError, match="3 of its windows") as error:
        conclude(evidence("overlap", 3))
    assert error.value.exit_code == 4
    assert "--model simple" in str(error.value.hint)
    simple = conclude(evidence("simple", 0, "not asked for"))
    assert "T35" not in [caveat.code for caveat in caveats(simple)]


@pytest.mark.parametrize(
    "options",
    [("--model", "simple", "--backend", "pmu", "app"), ("--model", "overlap", "--from", "file")],
)
def test_a_model_needs_a_simulation(options: tuple[str, ...]) -> None:
    with pytest.raises(TlbcostError, match="is of a simulation") as error:
        estimate.run(parse(*options))
    assert error.value.exit_code == 2


def test_signals_end_with_a_message_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
        before = signal.getsignal(number)
        monkeypatch.setattr(estimate, "_estimate", lambda _, n=number: os.kill(os.getpid(), n) or 0)
        assert estimate.run(parse("app")) == code
        assert number.name in capsys.readouterr().err
        assert signal.getsignal(number) == before


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(
            estimate, "_estimate", lambda _: os.kill(os.getpid(), signal.SIGHUP) or 0
        )
        assert estimate.run(parse("app")) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_temporary_folder_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    with pytest.raises(TlbcostError, match="TMPDIR") as error, cleanup.temporary_folder():
        pass
    assert error.value.exit_code == 125


def test_errors_are_printed_with_their_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["estimate", "no-such-program-anywhere"]) == 127
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("tlbcost: cannot run 'no-such-program-anywhere': ")
    assert lines[1].startswith("tlbcost: hint: ")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from tlbcost.__main__ import main\n"
        "try: main(['estimate', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('pandas', 'rich', 'numpy')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert ended.returncode == 0
    for option in ("--runs", "--model", "--prepare", "--calibration", "--json", "--output"):
        assert option.encode() in ended.stdout
