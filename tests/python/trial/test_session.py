# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import MACHINE, estimated
from builders.tree import GOLDEN, fails, printed, there, valid
from builders.trial import BASE, METHOD, MIB, backing, made_trials, pair
from tlbcost.__main__ import main
from tlbcost.accuracy.record import read_record
from tlbcost.answer import record
from tlbcost.answer.record import Choice
from tlbcost.answer.request import EstimateRequest
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common import paths
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.document import to_json
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.units import Interval
from tlbcost.model.gain import PredictedGain
from tlbcost.run.launch import Launcher, Started
from tlbcost.run.outcome import Outcome
from tlbcost.system import machine
from tlbcost.trial.document import (
    best_sentence,
    bloat_bytes,
    coalescing_sentence,
    hyperfine,
    print_trials,
    trial_document,
    verdict,
)
from tlbcost.trial.session import (
    MIN_PAIRS,
    Pair,
    ProgramTrials,
    Trial,
    first_run,
    judge,
    run_trial,
    to_table,
)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    if not paths.libexec("tlbcost-run").exists() or machine.glibc_version() is None:
        pytest.skip("needs make, and glibc")
    golden = GOLDEN / "calibration.tsv"
    obtained = Obtained(read_calibration(golden), "from a file")
    monkeypatch.setattr(record, "calibration_for", lambda _, **__: obtained)
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

    monkeypatch.setattr(record, "find_valgrind", no_valgrind)
    monkeypatch.setattr(record, "choose", lambda *_: Choice(simulate=True))
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


def test_a_program_that_fails_on_huge_pages_is_reported(launcher: Launcher) -> None:
    method = replace(METHOD, environment={"HUGE": "1"}, pool_bytes=None)
    argv = ["sh", "-c", 'test -z "$HUGE" || { echo no such page >&2; exit 3; }']
    with fails("on huge pages by a-method: no such page", 3):
        run_trial(launcher, argv, Path("/bin/sh"), method, 3, None)


def test_a_pool_that_runs_out_is_reported(launcher: Launcher) -> None:
    method = replace(METHOD, environment={"HUGE": "1"})
    argv = ["sh", "-c", 'test -z "$HUGE" || kill -BUS $$']
    runs_out = replace(method, pool_bytes=4096)
    settings = type("Settings", (), {"reserve": lambda *_: 1})()
    with fails("killed by SIGBUS", 128 + 7, "the pool ran out"):
        run_trial(launcher, argv, Path("/bin/sh"), runs_out, 3, settings)


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


def text_of(report: ProgramTrials) -> str:
    return printed(print_trials, report, details=True)


def test_hyperfines_readers_read_the_runs() -> None:
    trial = judge(METHOD, [pair(0.9), pair(0.8), pair(0.7)])
    base, huge = json.loads(hyperfine(made_trials(trial)))["results"]
    assert base["command"] == "./app 'an arg' (base pages)"
    assert base["times"] == [1.0, 1.0, 1.0]
    assert (base["user"], base["system"]) == (pytest.approx(0.9), pytest.approx(0.1))
    assert huge["command"] == "./app 'an arg' (a-method)"
    assert (huge["mean"], huge["median"]) == (pytest.approx(0.8), 0.8)
    assert (huge["min"], huge["max"], huge["stddev"]) == (0.7, 0.9, pytest.approx(0.1))
    assert huge["memory_usage_byte"] == [256 << 20] * 3
    assert json.loads(hyperfine(made_trials())) == {"results": []}


def test_the_share_is_the_median_of_the_pairs() -> None:
    trial = judge(METHOD, tuple(pair(w, user=1 - w) for w in (0.9, 0.7, 0.8, 0.75, 0.85)))
    assert trial.proven
    assert trial.why_not is None
    found = there(trial.measured_fraction)
    assert (found.low, found.value, found.high) == pytest.approx((0.1, 0.2, 0.3))
    assert there(trial.measured_user_fraction).value == pytest.approx(0.2)
    assert trial.measured_system_fraction == Interval(0, 0, 0)
    assert trial.difference_proven


def test_an_interval_that_holds_0_proves_nothing() -> None:
    trial = judge(METHOD, tuple(pair(w) for w in (0.9, 1.1, 0.95, 0.97, 1.02)))
    assert trial.proven
    assert not trial.difference_proven
    assert "no difference proven" in text_of(made_trials(trial))


def test_half_of_the_memory_must_be_on_huge_pages() -> None:
    trial = judge(METHOD, (pair(0.5, 0.49),) * 5)
    assert not trial.proven
    assert trial.measured_fraction is None
    assert "131 MiB of the 256 MiB that a-method should reach stayed" in there(trial.why_not)
    shown = text_of(made_trials(trial))
    assert "huge pages not proven" in shown
    assert "50 %" not in shown
    assert judge(METHOD, (pair(0.5, 0.5),) * 5).proven


def test_runs_that_did_not_get_huge_pages_are_left_out() -> None:
    trial = judge(METHOD, (pair(0.8),) * 3 + (pair(0.1, 0.0),) * 2)
    assert there(trial.measured_fraction).value == pytest.approx(0.2)
    assert (len(trial.pairs), len(trial.proven_pairs)) == (5, 3)
    assert any(note.startswith("2 of 5 pairs are left out") for note in trial.notes)
    assert not judge(METHOD, (pair(0.8),) * (MIN_PAIRS - 1) + (pair(0.8, 0.0),)).proven


def test_memory_that_was_not_seen_proves_nothing() -> None:
    trial = judge(METHOD, (pair(0.5, None),) * 3, "it ended too soon")
    assert (trial.proven, trial.why_not) == (False, "it ended too soon")
    # "0 B" would be a figure that was not obtained.
    row = next(
        line for line in text_of(made_trials(trial)).splitlines() if "on huge pages  " in line
    )
    assert row.split()[-1] == "NA"


def test_a_program_with_huge_pages_of_its_own_is_reported() -> None:
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
    assert "It uses 44 MiB more memory" in text_of(made_trials(judge(METHOD, (grown,) * 3)))


def test_the_estimate_is_compared_with_pages_of_its_size() -> None:
    estimate = replace(
        estimated().gain,
        bound_fraction=Interval(0.4, 0.3, 0.5),
        expected_fraction=Interval(0.1, 0.05, 0.2),
        fault_fraction=Interval(0.1, 0.05, 0.1),
    )
    trial = judge(METHOD, (pair(0.8),) * 3)
    report = made_trials(trial, estimate=estimate)
    assert verdict(trial, report) == "inside"
    assert "Measured 20 % is within the predicted range, 10 % to 30 %" in text_of(report)
    assert verdict(judge(METHOD, (pair(0.65),) * 3), report) == "outside"
    assert verdict(judge(METHOD, (pair(0.8, 0.0),) * 3), report) is None
    small = replace(METHOD, page_bytes=65536)
    assert verdict(judge(small, (pair(0.8),) * 3), report) is None
    assert verdict(trial, made_trials(trial)) is None


def test_a_summary_fits_a_screen_and_begins_with_the_result() -> None:
    trials = [judge(METHOD, (pair(0.8),) * 5)] * 2
    for shown in (trials[:1], trials):
        file = io.StringIO()
        print_trials(replace(made_trials(*shown), estimate=estimated().gain), file, details=False)
        lines = file.getvalue().splitlines()
        assert len(lines) <= 24
        assert lines[0].startswith("a-method: huge pages saved 20 % of the run time; ")
        assert "A made-up CPU" not in file.getvalue()


def test_of_methods_that_save_alike_the_one_with_the_least_memory_is_best() -> None:
    def trial(name: str, *huge: float, grown: int = 0) -> Trial:
        pairs = [pair(each) for each in huge]
        more = [
            replace(each, huge=replace(each.huge, max_rss_bytes=each.huge.max_rss_bytes + grown))
            for each in pairs
        ]
        return judge(replace(METHOD, name=name), tuple(more))

    large = trial("large", 0.7, 0.72, 0.74, grown=1 << 30)
    small, smallest = trial("small", 0.72, 0.73, 0.74), trial("smallest", 0.9, 0.91, 0.92)
    unproven = judge(replace(METHOD, name="no"), (pair(0.5, 0.0),) * 3)
    text = text_of(made_trials(smallest, small, large, unproven))
    assert "Best: small; no other saves more for sure, or takes less memory." in text
    assert best_sentence([smallest, large]) == "Best: large."
    assert best_sentence([trial("none", 0.98, 1.02, 1.0)]).startswith("None of them saves time")


@pytest.mark.parametrize("estimate", [None, estimated().gain])
def test_json_follows_its_schema(estimate: PredictedGain | None) -> None:
    unproven = judge(METHOD, (pair(0.8, None), pair(0.8, 0.1), pair(0.8, 0.1)))
    report = made_trials(judge(METHOD, (pair(0.8),) * 5), unproven, estimate=estimate)
    document = valid(to_json(trial_document(report)), "trial")
    first, second = document["trials"]
    assert first["measured_fraction"]["value"] == pytest.approx(0.2)
    assert second["measured_fraction"] is None
    assert second["bloat_bytes"] is None
    assert second["pairs"][0]["huge"]["memory"] is None
    assert (document["estimate"] is None) == (estimate is None)


@pytest.mark.parametrize(
    ("vendor", "family", "words"),
    [("AuthenticAMD", "25", "TLB_RELOAD_COALESCED_PAGE"), ("AuthenticAMD", "21", "No TLB entries"),
     ("GenuineIntel", "6", "No TLB entries"), ("0x41", "8", "contpte"), (None, None, "No TLB")],
)  # fmt: skip
def test_which_contiguous_pages_share_a_tlb_entry(
    vendor: str | None, family: str | None, words: str
) -> None:
    here = replace(MACHINE, cpu_vendor=vendor, cpu_family=family)
    assert words in coalescing_sentence(here)
