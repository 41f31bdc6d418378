# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost estimate with counters: on made-up ones, since few machines of this kind have any."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tlbcost
from builders.counting import ACTIVE
from builders.tree import FAKES, GOLDEN, fails, valid
from tlbcost.answer import record, runs
from tlbcost.attribution import samples
from tlbcost.attribution.samples import FEWEST
from tlbcost.commands import estimate
from tlbcost.common import paths
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.pmu import Found
from tlbcost.processors.events import generic_pmu, load_pmu, select

COUNTS = {"cycles": 1_000_000, ACTIVE[0]: 200_000, ACTIVE[1]: 50_000, ACTIVE[2]: 10_000}
Says = Callable[..., None]


@pytest.fixture(autouse=True)
def says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Says:
    """What the made-up counters say; the other programs are the real ones."""
    plan = tmp_path / "fake.json"
    real = paths.libexec
    monkeypatch.setattr(
        paths, "libexec", lambda name: FAKES / name if name == "tlbcost-count" else real(name)
    )
    # The fake runs by the system's Python, which knows nothing of tlbcost.
    monkeypatch.setenv("PYTHONPATH", str(Path(tlbcost.__file__).parents[1]))
    monkeypatch.setenv("FAKE_COUNTERS", str(plan))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # A processor with counters of walk cycles, whatever this one is.
    monkeypatch.setattr(record, "pmu_of", lambda _: load_pmu("skl"))

    def write(**said: object) -> None:
        plan.write_text(json.dumps(said), encoding="utf-8")

    write(counts=COUNTS)
    return write


def report(folder: Path, *options: str, program: str | Sequence[str] = "true") -> dict[str, Any]:
    file = folder / "report.json"
    parser = argparse.ArgumentParser()
    estimate.add_arguments(parser)
    calibration = str(GOLDEN / "calibration.tsv")
    given = ["--details", "--calibration", calibration, "--json", str(file)]
    given += ["--output", str(folder / "text")]
    argv = [program] if isinstance(program, str) else program
    assert estimate.run(parser.parse_args([*given, *options, "--", *argv])) == 0
    return valid(file.read_text(encoding="utf-8"), "estimate")


def test_counters_answer_where_the_time_limit_stops_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> None:
        raise TimeLimitPassed

    monkeypatch.setattr(runs, "_simulate", stopped)
    found = report(tmp_path, "--backend", "both")
    monkeypatch.setattr(TimeLimitPassed, "passed", False)
    assert found["simulation"] is None
    assert found["counters"] is not None
    note = "the time limit passed: the simulation was stopped and is left out"
    assert note in capsys.readouterr().err
    assert any(note in text for text in found["notes"])


def test_counters_give_the_estimate(tmp_path: Path) -> None:
    found = report(tmp_path, "--backend", "pmu")
    assert found["backend"] == "pmu"
    assert found["simulation"] is None
    counters = found["counters"]
    assert counters["way"] == "walk_cycles"
    assert counters["translation_fraction"]["value"] == pytest.approx(0.26)
    assert counters["data_translation_fraction"]["value"] == pytest.approx(0.25)
    program = found["program"]
    # What the estimate needs fits into each run, so that its spread is seen.
    assert len(program["runs"]) == 3
    assert {count["run"] for count in counters["counts"]} == {0, 1, 2}


def test_both_are_compared(tmp_path: Path) -> None:
    found = report(tmp_path, "--backend", "both", "--runs", "1")
    assert found["backend"] == "both"
    assert isinstance(found["simulation"], dict)
    assert isinstance(found["counters"], dict)
    assert "compared" in (tmp_path / "text").read_text(encoding="utf-8")


def test_auto_counts_where_counters_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "find_pmu", lambda: Found("counts", "opened"))
    assert report(tmp_path, "--runs", "1")["backend"] == "pmu"


def test_auto_simulates_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "find_pmu", lambda: Found("absent", "ENOENT"))
    found = report(tmp_path, "--runs", "1")
    assert (found["backend"], found["notes"]) == ("sim", [])


def test_auto_says_why_it_simulates(
    tmp_path: Path, says: Says, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record, "find_pmu", lambda: Found("forbidden", "EACCES"))
    pmu = load_pmu("skl")
    says(states={event.name: ["forbidden", errno.EACCES] for event in pmu.events})
    found = report(tmp_path, "--runs", "1")
    assert found["backend"] == "sim"
    assert "simulated, since counters cannot be read" in str(found["notes"])
    assert "simulated, since counters cannot be read" in capsys.readouterr().err


def test_counters_that_were_asked_for_and_cannot_be_read_are_an_error(
    tmp_path: Path, says: Says
) -> None:
    pmu = load_pmu("skl")
    says(states={event.name: ["forbidden", errno.EACCES] for event in pmu.events})
    with pytest.raises(TlbcostError) as error:
        report(tmp_path, "--backend", "pmu")
    assert error.value.exit_code == 4


def test_counters_without_tlb_events_are_an_error(tmp_path: Path, says: Says) -> None:
    pmu = load_pmu("skl")
    known = ("cycles", "instructions")
    says(
        states={
            event.name: ["unsupported", errno.ENOENT]
            for event in pmu.events
            if event.name not in known
        }
    )
    with fails("count no page walks and no TLB misses", 4, "sim"):
        report(tmp_path, "--backend", "pmu")


def test_a_missing_event_is_reported(tmp_path: Path, says: Says) -> None:
    says(counts=COUNTS, states={"walks_completed.load": ["unsupported", errno.ENOENT]})
    found = report(tmp_path, "--backend", "both", "--runs", "1")
    counters = found["counters"]
    assert counters["formulas"]["walks"]["value"] is None
    assert counters["translation_fraction"]["value"] == pytest.approx(0.26)


def test_a_program_that_fails_gives_its_code(tmp_path: Path) -> None:
    with fails("exited with 1", 1):
        report(tmp_path, "--backend", "pmu", program="false")


def test_a_cpu_without_a_table_counts_generic_events_and_has_no_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "pmu_of", lambda _: None)
    found = report(tmp_path, "--backend", "pmu", "--runs", "1")
    assert "generic events are counted" in str(found["notes"])
    counters = found["counters"]
    assert (counters["pmu"], counters["way"]) == ("perf", "walks_times_cost")
    assert found["attribution"] is None
    assert "no event whose samples hold addresses of data" in str(found["notes"])
    counted = (tmp_path / "fake.json.calls").read_text(encoding="utf-8").splitlines()
    assert len([call for call in counted if "--probe" not in call]) == 1


# Writes each page of 24 MiB once, and stays until its memory was looked at.
TOUCHES = """
import mmap, time
memory = mmap.mmap(-1, 24 << 20)
for _ in range(24 << 8):
    memory.write(bytes(4096))
time.sleep(1.5)
"""


@pytest.fixture
def sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's page faults, which it samples anywhere, stand in for misses."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    faults = tuple(select(generic_pmu(), ["page_faults"]))
    monkeypatch.setattr(samples, "addressed", lambda _: faults)


@pytest.mark.usefixtures("sampling")
def test_samples_tell_which_memory_pays(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = [sys.executable, "-c", f"print('once')\n{TOUCHES}"]
    found = report(tmp_path, "--backend", "pmu", "--runs", "1", program=program)
    attribution = found["attribution"]
    if attribution is None and "perf_event" in str(found["notes"]):
        pytest.skip(str(found["notes"]))
    assert isinstance(attribution, dict), found["notes"]
    assert attribution["source"] == "samples of perf::PAGE-FAULTS"
    assert found["sampled_attribution"] is None
    first = attribution["memory"][0]
    assert first["program"] == os.path.realpath(sys.executable)
    # Shared and without a file: by the kernel's name for it.
    assert (first["kind"], first["name"]) == ("shared", "shared memory")
    assert first["samples"] >= (24 << 20) // os.sysconf("SC_PAGE_SIZE") // 16
    # It may have been looked at shortly before the last page.
    assert first["backed"]["resident_bytes"] >= 20 << 20
    assert first["size_bytes"] >= 24 << 20
    assert first["touched_bytes"] is None
    expected = found["expected_fraction"]
    assert first["gain_fraction"]["value"] == pytest.approx(
        expected["value"] * first["misses_fraction"]
    )
    # It had run with the program's own output before.
    assert capfd.readouterr().out == "once\n"
    assert "By samples of perf::PAGE-FAULTS" in (tmp_path / "text").read_text(encoding="utf-8")


@pytest.mark.usefixtures("sampling")
def test_both_attributions_are_reported(tmp_path: Path) -> None:
    options = ("--backend", "both", "--runs", "1")
    found = report(tmp_path, *options, program=["ls", "/"])
    attribution, samples = found["attribution"], found["sampled_attribution"]
    assert isinstance(attribution, dict)
    assert attribution["source"] == "simulation"
    if samples is None and "perf_event" in str(found["notes"]):
        pytest.skip(str(found["notes"]))
    assert isinstance(samples, dict), found["notes"]
    assert sum(region["samples"] for region in samples["memory"]) >= FEWEST
