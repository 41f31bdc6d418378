# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from builders.answer import MACHINE, content
from tlbcost.__main__ import main
from tlbcost.accuracy.record import read_record
from tlbcost.answer import obtain
from tlbcost.answer.backend import Choice
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.memory.peak import MemoryPart, PeakMemory
from tlbcost.model.gain import PredictedGain
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Run
from tlbcost.run.stdin import ProgramInput
from tlbcost.system import glibc
from tlbcost.trial.files import to_json, to_table
from tlbcost.trial.method import Method
from tlbcost.trial.report import Tried, bloat_bytes, print_trials, verdict
from tlbcost.trial.run import MIN_PAIRS, Pair, Trial, first_run, judge, run_trial

MIB = 1 << 20
MS = 1_000_000
SCHEMA = Path(__file__).parents[3] / "data" / "schema" / "trial.schema.json"
METHOD = Method("a-method", "malloc is asked", "malloc", 2 * MIB, notes=("know this",))
BASE = Run(1000 * MS, 900 * MS, 100 * MS, 70_000, 0, 256 * MIB)


def backing(huge: int, *, resident: int = 256 * MIB, mthp: int | None = None) -> PeakMemory:
    part = MemoryPart("[heap]", "heap", resident, huge)
    sizes = None if mthp is None else {65536: mthp}
    return PeakMemory(resident, huge, 0, 0, 0, sizes, (part,), 3)


def pair(wall: float, covered: float | None = 1.0, user: float = 0.0) -> Pair:
    """A pair whose huge run takes `wall` of the base run's time, and `user` of it less as user."""
    huge = replace(
        BASE, wall_ns=round(BASE.wall_ns * wall), user_ns=BASE.user_ns - round(user * BASE.wall_ns)
    )
    seen = None if covered is None else backing(round(covered * 256 * MIB))
    return Pair(BASE, huge, seen, backing(0))


def tried(*trials: Trial, estimate: PredictedGain | None = None) -> Tried:
    return Tried(
        "0.0.1", "2026-01-02T03:04:05Z", MACHINE, ("./app", "an arg"), trials, estimate,
        2 * MIB, None if estimate else "not asked for", ("a note",),
    )  # fmt: skip


def text_of(report: Tried) -> str:
    file = io.StringIO()
    print_trials(report, file)
    return file.getvalue()


def test_the_share_is_the_median_of_the_pairs() -> None:
    trial = judge(METHOD, tuple(pair(w, user=1 - w) for w in (0.9, 0.7, 0.8, 0.75, 0.85)))
    assert trial.proven
    assert trial.why_not is None
    assert trial.measured_fraction is not None
    assert trial.measured_fraction.value == pytest.approx(0.2)
    assert (trial.measured_fraction.low, trial.measured_fraction.high) == pytest.approx((0.1, 0.3))
    assert trial.measured_user_fraction is not None
    assert trial.measured_user_fraction.value == pytest.approx(0.2)
    assert trial.measured_system_fraction == Interval(0, 0, 0)
    assert trial.difference_proven


def test_an_interval_that_holds_0_proves_nothing() -> None:
    trial = judge(METHOD, tuple(pair(w) for w in (0.9, 1.1, 0.95, 0.97, 1.02)))
    assert trial.proven
    assert not trial.difference_proven
    assert "No difference proven" in text_of(tried(trial))


def test_half_of_the_memory_must_be_on_huge_pages() -> None:
    trial = judge(METHOD, (pair(0.5, 0.49),) * 5)
    assert not trial.proven
    assert trial.measured_fraction is None
    assert trial.why_not is not None
    assert "131 MiB of the 256 MiB that a-method should reach stayed" in trial.why_not
    shown = text_of(tried(trial))
    assert "No trial of huge pages" in shown
    assert "50 %" not in shown
    assert judge(METHOD, (pair(0.5, 0.5),) * 5).proven


def test_runs_that_did_not_get_huge_pages_are_left_out() -> None:
    trial = judge(METHOD, (pair(0.8),) * 3 + (pair(0.1, 0.0),) * 2)
    assert trial.measured_fraction is not None
    assert trial.measured_fraction.value == pytest.approx(0.2)
    assert (len(trial.pairs), len(trial.proven_pairs)) == (5, 3)
    assert any(note.startswith("2 of 5 pairs are left out") for note in trial.notes)
    assert not judge(METHOD, (pair(0.8),) * (MIN_PAIRS - 1) + (pair(0.8, 0.0),)).proven


def test_memory_that_was_not_seen_proves_nothing() -> None:
    trial = judge(METHOD, (pair(0.5, None),) * 3, "it ended too soon")
    assert (trial.proven, trial.why_not) == (False, "it ended too soon")
    # "0 B" would be a figure that was not obtained.
    row = next(line for line in text_of(tried(trial)).splitlines() if "on huge pages  " in line)
    assert row.split()[-1] == "NA"


def test_a_program_with_huge_pages_of_its_own_is_told() -> None:
    own = Pair(BASE, BASE, backing(256 * MIB), backing(200 * MIB))
    assert any("200 MiB of its 256 MiB" in note for note in judge(METHOD, (own,) * 3).notes)
    # Multi-size pages are counted for the whole system, and refused to runs on base pages.
    others = Pair(BASE, BASE, backing(256 * MIB), backing(0, mthp=100 * MIB))
    assert judge(METHOD, (others,) * 3).notes == METHOD.notes


def test_memory_that_grew_counts_hugetlb_pages() -> None:
    # Those are not in what getrusage(2) tells.
    huge = replace(BASE, max_rss_bytes=2 * MIB)
    grown = Pair(BASE, huge, backing(300 * MIB, resident=300 * MIB), backing(0))
    assert bloat_bytes([grown] * 3) == 44 * MIB
    assert bloat_bytes([]) is None
    assert "It takes 44 MiB more memory" in text_of(tried(judge(METHOD, (grown,) * 3)))


def test_the_estimate_is_compared_with_pages_of_its_size() -> None:
    estimate = replace(
        content().estimate,
        bound_fraction=Interval(0.4, 0.3, 0.5),
        expected_fraction=Interval(0.1, 0.05, 0.2),
        fault_fraction=Interval(0.1, 0.05, 0.1),
    )
    trial = judge(METHOD, (pair(0.8),) * 3)
    report = tried(trial, estimate=estimate)
    assert verdict(trial, report) == "inside"
    assert "Measured 20 % lies inside what was expected, 10 % to 30 %" in text_of(report)
    assert verdict(judge(METHOD, (pair(0.65),) * 3), report) == "outside"
    assert verdict(judge(METHOD, (pair(0.8, 0.0),) * 3), report) is None
    small = replace(METHOD, page_bytes=65536)
    assert verdict(judge(small, (pair(0.8),) * 3), report) is None
    assert verdict(trial, tried(trial)) is None


@pytest.mark.parametrize("estimate", [None, content().estimate])
def test_json_follows_its_schema(estimate: PredictedGain | None) -> None:
    unproven = judge(METHOD, (pair(0.8, None), pair(0.8, 0.1), pair(0.8, 0.1)))
    report = tried(judge(METHOD, (pair(0.8),) * 5), unproven, estimate=estimate)
    document = json.loads(to_json(report))
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    first, second = document["trials"]
    assert first["measured_fraction"]["value"] == pytest.approx(0.2)
    assert second["measured_fraction"] is None
    assert second["bloat_bytes"] is None
    assert second["pairs"][0]["huge"]["memory"] is None
    assert (document["estimate"] is None) == (estimate is None)


def test_the_table_is_a_record(tmp_path: Path) -> None:
    report = tried(
        judge(METHOD, (pair(0.8),) * 3 + (pair(0.8, 0.0),)),
        judge(METHOD, (pair(0.8, 0.0),) * 3),
        estimate=content().estimate,
    )
    file = tmp_path / "trials.tsv"
    file.write_text(to_table(report), encoding="utf-8")
    record = read_record(file)
    assert [len(program.pairs) for program in record.programs] == [3, 0]
    assert record.programs[0].command == "./app 'an arg'"
    assert record.programs[0].pairs[0].huge_bytes == 256 * MIB
    assert record.programs[1].excluded is not None


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
        pytest.skip("this kernel does not tell THP_enabled")
    trial = run_trial(launcher, argv, Path("/bin/sh"), METHOD, 3, None, first=before)
    seen = [line.split()[1] for line in log.read_text(encoding="utf-8").splitlines()]
    assert seen == ["0", "0", "1", "1", "0", "0", "1"]
    assert len(trial.pairs) == 3
    assert launcher.transparent is None


def test_a_program_that_fails_on_huge_pages_is_told(launcher: Launcher) -> None:
    method = replace(METHOD, environment={"HUGE": "1"}, pool_bytes=None)
    argv = ["sh", "-c", 'test -z "$HUGE" || { echo no such page >&2; exit 3; }']
    with pytest.raises(TlbcostError, match="on huge pages by a-method: no such page") as caught:
        run_trial(launcher, argv, Path("/bin/sh"), method, 3, None)
    assert caught.value.exit_code == 3


def test_a_pool_that_runs_out_is_told(launcher: Launcher) -> None:
    method = replace(METHOD, environment={"HUGE": "1"})
    argv = ["sh", "-c", 'test -z "$HUGE" || kill -BUS $$']
    runs_out = replace(method, pool_bytes=4096)
    settings = type("Settings", (), {"reserve": lambda *_: 1})()
    with pytest.raises(TlbcostError, match="killed by SIGBUS") as caught:
        run_trial(launcher, argv, Path("/bin/sh"), runs_out, 3, settings)
    assert "the pool ran out" in (caught.value.hint or "")
    assert caught.value.exit_code == 128 + 7


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """`tlbcost trial` with a calibration from a file, and a program that sees how often it runs."""
    if not paths.libexec("tlbcost-run").exists() or glibc.glibc_version() is None:
        pytest.skip("needs make, and glibc")
    golden = Path(__file__).parents[2] / "golden" / "calibration.tsv"
    obtained = Obtained(read_calibration(golden), "from a file")
    monkeypatch.setattr(obtain, "_calibrated", lambda _: obtained)
    log = tmp_path / "log"
    script = f'echo "${{LD_PRELOAD-}}" >>{log}; echo out'
    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    options = ["--json", "report.json", "--pairs", "3", "--with", "glibc-thp"]
    yield ["trial", *options, "--", "sh", "-c", script]
    os.environ.clear()
    os.environ.update(before)


def test_the_estimate_stands_beside_the_trial(
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

    monkeypatch.setattr(obtain, "find_valgrind", no_valgrind)
    monkeypatch.setattr(obtain, "choose", lambda *_: Choice(simulate=True))
    assert main(command) in (0, CANNOT_MEASURE)
    shown = capfd.readouterr()
    assert shown.out == "out\n"
    assert "no estimate beside the trial: Valgrind is not installed" in shown.err
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["estimate"], report["no_estimate"]) == (None, "Valgrind is not installed")
