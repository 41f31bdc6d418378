# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.tree import GOLDEN
from tlbcost.__main__ import main
from tlbcost.answer import run_plan
from tlbcost.answer.backend import Choice
from tlbcost.answer.request import EstimateRequest
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.system import glibc


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """`tlbcost trial` with a calibration from a file, and a program that sees how often it runs."""
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
