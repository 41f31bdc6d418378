# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import estimated
from builders.tree import GOLDEN
from builders.trial import METHOD, MIB, made_trials, pair
from tlbcost.__main__ import main
from tlbcost.accuracy.record import read_record
from tlbcost.answer import run_plan
from tlbcost.answer.request import EstimateRequest
from tlbcost.answer.run_plan import Choice
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common import paths
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.run.launch import Launcher, Started
from tlbcost.run.outcome import Outcome
from tlbcost.run.stdin import ProgramInput
from tlbcost.system import glibc
from tlbcost.trial.comparison import Trial, judge
from tlbcost.trial.session import first_run, run_trial, to_table


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    if not paths.libexec("tlbcost-run").exists() or glibc.glibc_version() is None:
        pytest.skip("needs make, and glibc")
    golden = GOLDEN / "calibration.tsv"
    obtained = Obtained(read_calibration(golden), "from a file")
    monkeypatch.setattr(run_plan, "calibration_for", lambda _, **__: obtained)
    log = tmp_path / "log"
    script = f'echo "${{LD_PRELOAD-}}" >>{log}; echo out'
    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    options = ["--json", "report.json", "--pairs", "3", "--with", "glibc-thp"]
    yield ["trial", *options, "--", "sh", "-c", script]
    os.environ.clear()
    os.environ.update(before)


def test_the_estimate_accompanies_the_trial(
    command: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("valgrind") is None or not paths.valgrind_lib().exists():
        pytest.skip("needs valgrind, and make sim")
    # The shell ends too soon to be seen on huge pages, which is exit code 4.
    assert main(command) in (0, CANNOT_MEASURE)
    assert capfd.readouterr().out == "out\n"
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["estimate"]["bound_fraction"]["value"] >= 0
    assert report["notes"] == ["GLIBC_TUNABLES asks for huge pages here; that is left out"]
    # Three runs and a simulation for the estimate, one to learn the size, three pairs.
    runs = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert len(runs) == 3 + 1 + 1 + 6


def test_a_trial_goes_on_without_an_estimate(
    command: list[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_valgrind() -> Path:
        raise TlbcostError("Valgrind is not installed", None, CANNOT_MEASURE)

    monkeypatch.setattr(run_plan, "find_valgrind", no_valgrind)
    monkeypatch.setattr(run_plan, "choose", lambda *_: Choice(simulate=True))
    assert main(command) in (0, CANNOT_MEASURE)
    shown = capfd.readouterr()
    assert shown.out == "out\n"
    assert "no estimate to compare the trial with: Valgrind is not installed" in shown.err
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["estimate"], report["no_estimate"]) == (None, "Valgrind is not installed")


def test_the_estimate_is_by_the_engine_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    asked: list[str] = []

    def note(request: EstimateRequest, *_: object) -> None:
        asked.append(request.engine)
        raise TlbcostError("enough", exit_code=CANNOT_MEASURE)

    monkeypatch.setattr("tlbcost.answer.estimate.estimate", note)
    for engine in ("valgrind", "copies"):
        main([command[0], "--engine", engine, *command[1:]])
    assert asked == ["valgrind", "copies"]


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    with closing(ProgramInput()) as stdin:
        yield Launcher(tmp_path, stdin)


def grep(word: str, log: Path, file: str = "/proc/self/status") -> list[str]:
    return ["sh", "-c", f"grep {word} {file} >>{log}; sleep 0.1"]


def test_runs_alternate_and_base_runs_are_refused_transparent_pages(
    launcher: Launcher, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    argv = grep("THP_enabled", log)
    before = first_run(launcher, argv, Path("/bin/sh"))
    if not log.read_text(encoding="utf-8"):
        pytest.skip("this kernel does not report THP_enabled")
    trial = run_trial(launcher, argv, Path("/bin/sh"), METHOD, 3, None, first=before)
    seen = [line.split()[1] for line in log.read_text(encoding="utf-8").splitlines()]
    assert seen == ["0", "0", "1", "1", "0", "0", "1"]
    assert len(trial.pairs) == 3
    assert launcher.transparent is None


def test_pairs_follow_until_the_gain_is_known_well_enough(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    widths = [0.2, 0.1, 0.05, 0.01]

    def known(*_: object) -> Trial:
        half = widths.pop(0)
        return Trial(
            METHOD, (), True, None, measured_user_fraction=Interval(0.3, 0.3 - half, 0.3 + half)
        )

    argv = grep("THP_enabled", tmp_path / "log")
    monkeypatch.setattr("tlbcost.trial.session.judge", known)
    run_trial(launcher, argv, Path("/bin/sh"), METHOD, 3, None, within=0.05)
    # Three, one more for each of the first two, and none after the third look; then the last one.
    assert len((tmp_path / "log").read_text(encoding="utf-8").splitlines()) == 1 + 2 * 5
    assert not widths


@pytest.mark.long
def test_the_runs_of_a_pair_take_turns_and_change_places(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool | None] = []
    begin = Launcher.begin

    def noted(self: Launcher, *arguments: object, **options: object) -> Started:
        begun.append(self.transparent)
        return begin(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Launcher, "begin", noted)
    argv = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"]
    before = first_run(launcher, argv, Path(sys.executable))
    begun.clear()
    busy = replace(before, run=replace(before.run, user_ns=before.run.wall_ns))
    trial = run_trial(launcher, argv, Path(sys.executable), METHOD, 3, None, first=busy, turns=True)
    assert trial.in_turns
    assert begun == [False, True, True, False, False, True]
    # Who is which does not depend on who began.
    assert len(trial.pairs) == 3


@pytest.mark.long
def test_two_that_fail_at_the_same_time_run_one_after_the_other(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    # As a server does that finds its port taken.
    lock = f"mkdir {tmp_path}/lock || exit 9; {sys.executable} -c '{busy}'; rmdir {tmp_path}/lock"
    argv = ["sh", "-c", lock]
    before = first_run(launcher, argv, Path("/bin/sh"))
    run = replace(before.run, user_ns=before.run.wall_ns)
    trial = run_trial(
        launcher, argv, Path("/bin/sh"), METHOD, 3, None, first=replace(before, run=run), turns=True
    )
    assert not trial.in_turns
    assert len(trial.pairs) == 3
    assert "pairs of runs one after the other: two at the same time" in capsys.readouterr().err


def test_a_program_that_fails_on_huge_pages_is_reported(launcher: Launcher) -> None:
    method = replace(METHOD, environment={"HUGE": "1"}, pool_bytes=None)
    argv = ["sh", "-c", 'test -z "$HUGE" || { echo no such page >&2; exit 3; }']
    with pytest.raises(TlbcostError, match="on huge pages by a-method: no such page") as caught:
        run_trial(launcher, argv, Path("/bin/sh"), method, 3, None)
    assert caught.value.exit_code == 3


def test_a_pool_that_runs_out_is_reported(launcher: Launcher) -> None:
    method = replace(METHOD, environment={"HUGE": "1"})
    argv = ["sh", "-c", 'test -z "$HUGE" || kill -BUS $$']
    runs_out = replace(method, pool_bytes=4096)
    settings = type("Settings", (), {"reserve": lambda *_: 1})()
    with pytest.raises(TlbcostError, match="killed by SIGBUS") as caught:
        run_trial(launcher, argv, Path("/bin/sh"), runs_out, 3, settings)
    assert "the pool ran out" in (caught.value.hint or "")
    assert caught.value.exit_code == 128 + 7


@pytest.mark.parametrize(("most", "pairs"), [(6, None), (7, 3), (8, 3)])
def test_the_time_limit_leaves_a_result_from_three_pairs_on(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, most: int, pairs: int | None
) -> None:
    execute = Launcher.execute

    def limited(self: Launcher, *arguments: object, **options: object) -> Outcome:
        if self.runs == most:
            raise TimeLimitPassed
        return execute(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Launcher, "execute", limited)
    monkeypatch.setattr(TimeLimitPassed, "passed", False)
    argv, path = ["sleep", "0.1"], Path("/bin/sleep")
    if pairs is None:
        with pytest.raises(TimeLimitPassed):
            run_trial(launcher, argv, path, METHOD, 5, None)
        return
    trial = run_trial(launcher, argv, path, METHOD, 5, None)
    assert len(trial.pairs) == pairs
    assert trial.notes[-1] == "stopped by the time limit after 3 of 5 pairs"


def test_the_table_is_a_record(tmp_path: Path) -> None:
    report = made_trials(
        judge(METHOD, (pair(0.8),) * 3 + (pair(0.8, 0.0),)),
        judge(METHOD, (pair(0.8, 0.0),) * 3),
        estimate=estimated().gain,
    )
    file = tmp_path / "trials.tsv"
    file.write_text(to_table(report), encoding="utf-8")
    record = read_record(file)
    assert [len(program.pairs) for program in record.programs] == [3, 0]
    assert record.programs[0].command == "./app 'an arg'"
    assert record.programs[0].pairs[0].huge_bytes == 256 * MIB
    assert record.programs[1].excluded is not None
