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
from tlbcost.answer import obtain
from tlbcost.answer.caveats import caveats
from tlbcost.answer.conclude import AskedModel, Ingredients, assemble
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
    content = assemble(
        Ingredients(
            argv=("app",),
            path=Path("app"),
            machine=MACHINE,
            surroundings=None,
            huge_page_bytes=HUGE,
            calibrated=calibrated(),
            calibration_notes=("a note",),
            native=tuple(native),
            geometry=GEOMETRY,
            simulation=simulation,
        )
    )
    assert content.calibration is not None
    assert content.base_costs is not None
    assert content.huge_costs is not None
    assert content.codes == (0, 139)
    assert content.calibration.notes == ("a note",)
    assert content.base_costs.footprint_entries == 65736
    assert content.huge_costs.footprint_entries == 129
    # The calibration's own figure at the next footprint is 35 ns.
    assert content.base_costs.walk_serial_ns is not None
    assert content.base_costs.walk_serial_ns.value == pytest.approx(35, rel=0.01)
    assert content.base_costs.fault_ns is not None
    assert content.base_costs.fault_ns.value == 520
    assert content.version == paths.version()


def test_splintered_pages_are_priced_at_the_base_pages_counts() -> None:
    geometry = replace(GEOMETRY, huge=replace(GEOMETRY.huge, entry_bytes=BASE))
    native = [Outcome(RUN, "", None, 0, None, None)]
    content = assemble(
        Ingredients(
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
    assert content.simulated is not None
    assert content.base_costs is not None
    assert content.huge_costs is not None
    counts = content.simulated.counts
    assert counts[HUGE, "load"] == counts[BASE, "load"]
    assert content.huge_costs.footprint_entries == content.base_costs.footprint_entries


def ingredients(model: AskedModel, windows: int, no_core: str | None = None) -> Ingredients:
    """A simulation of one process that left so many windows, which save a tenth."""
    native = Outcome(RUN, "", None, 0, None, None)
    modelled = ImageWindows(100, "/app", 10**9, "width=6", (Window(10**5, 1000, 900),) * windows)
    return Ingredients(
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
        tried={model: TRIED for model in MODELS},
    )


TRIED = TrackRecord(True, "2026-01-01T00:00:00Z", 16, 12, 0.0812, 0.264)


def test_the_overlap_model_is_taken_where_it_can_be() -> None:
    content = assemble(replace(ingredients("auto", 50), tried={"overlap": TRIED}))
    found = content.estimate
    assert found.model == "overlap"
    assert found.expected_fraction == found.models["overlap"]
    assert found.expected_fraction.value == pytest.approx(0.1 * 0.9)
    simple = assemble(replace(ingredients("simple", 50), simulation=Simulation(
        (process(),), Outcome(RUN, "", None, 0, None, None)))).estimate  # fmt: skip
    assert found.models["simple"] == simple.expected_fraction
    assert found.bound_fraction == simple.bound_fraction
    assert simple.models == {"simple": simple.expected_fraction}
    assert content.tried == TRIED


def test_the_verdict_is_that_of_the_model() -> None:
    nothing = ingredients("auto", 0)
    assert nothing.simulation is not None
    same = ImageWindows(100, "/app", 10**9, "width=6", (Window(10**5, 1000, 1000),) * 50)
    content = assemble(replace(nothing, simulation=replace(nothing.simulation, windows=(same,))))
    assert content.estimate.expected_fraction.value == 0
    assert content.estimate.verdict != assemble(nothing).estimate.verdict


def set_up(monkeypatch: pytest.MonkeyPatch, core: Core | None, *options: str) -> obtain._Setup:
    """What is decided before a program runs, where a calibration gives this core."""
    monkeypatch.setattr(obtain, "find_valgrind", lambda: Path("/v"))
    monkeypatch.setattr(obtain, "core_for", lambda *_: core)
    found = parse("--backend", "sim", "--calibration", str(CALIBRATION), *options, "true")
    return obtain._set_up(found, MACHINE, Path("/bin/true"))


MODELLED = Core((("width", 6),), ("the caches are those of CPUID",))


def test_the_core_is_from_the_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set_up(monkeypatch, MODELLED)
    assert found.core == MODELLED
    assert found.no_core is None
    assert MODELLED.notes[0] in found.notes
    simple = set_up(monkeypatch, MODELLED, "--model", "simple")
    assert (simple.core, simple.no_core) == (None, None)


def test_the_simulator_gets_the_core_and_windows_for_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native = Outcome(replace(RUN, user_ns=1_000_000_000), "", None, 0, None, None)
    asked: list[tuple[object, ...]] = []

    def simulate(*options: object) -> Simulation:
        asked.append(options[-2:])
        return Simulation((process(),), native, ())

    monkeypatch.setattr(obtain, "simulate", simulate)
    setup = set_up(monkeypatch, MODELLED)
    with launcher_of(None) as launcher:
        obtain._simulate(launcher, setup, ["app"], [native], setup.core)
        obtain._simulate(launcher, setup, ["app"], [native], None)
    # At 30 references in a microsecond, 64 windows of a second.
    assert asked == [(WindowPlan(period=468_750, most=64), "width=6"), (None, None)]


def test_without_a_core_the_simple_model_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set_up(monkeypatch, None).no_core == "the calibration does not tell what loads cost"
    assert set_up(monkeypatch, None, "--model", "simple").no_core is None
    with pytest.raises(TlbcostError, match="what loads cost") as error:
        set_up(monkeypatch, None, "--model", "overlap")
    assert error.value.exit_code == 4
    assert "--model simple" in str(error.value.hint)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (ingredients("auto", 3), "3 of its windows"),
        (ingredients("auto", 0), "none of its windows"),
        (ingredients("auto", 0, "no loads"), "no loads"),
    ],
)
def test_the_simple_model_stands_in_and_says_so(given: Ingredients, why: str) -> None:
    content = assemble(replace(given, tried={"overlap": TRIED}))
    assert content.estimate.model == "simple"
    assert content.estimate.expected_fraction == content.estimate.models["simple"]
    assert "overlap" not in content.estimate.models
    (told,) = [caveat for caveat in caveats(content) if caveat.code == "T35"]
    assert why in told.sentence
    # How the other model held is not to be quoted.
    assert content.tried is None


def test_a_model_that_is_asked_for_is_not_replaced() -> None:
    with pytest.raises(TlbcostError, match="3 of its windows") as error:
        assemble(ingredients("overlap", 3))
    assert error.value.exit_code == 4
    assert "--model simple" in str(error.value.hint)
    simple = assemble(ingredients("simple", 0, "not asked for"))
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
        monkeypatch.setattr(estimate, "_estimate", lambda _, n=number: os.kill(os.getpid(), n))
        assert estimate.run(parse("app")) == code
        assert number.name in capsys.readouterr().err
        assert signal.getsignal(number) == before


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(estimate, "_estimate", lambda _: os.kill(os.getpid(), signal.SIGHUP))
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
