# SPDX-License-Identifier: GPL-2.0-or-later
"""Page faults are timed from one software event to the next, of real perf and of made-up lines."""

import shutil
import sys
from pathlib import Path

import pytest
from builders.trial import METHOD
from tlbcost.measured import catalog, fault_times
from tlbcost.measured.whole_runs import PairsRequest
from tlbcost.memory.first_touch import Stalls, TouchTimes
from tlbcost.run.launch import Launcher

PROGRAM = (sys.executable, "-c", "memory = bytearray(32 << 20)")
TIMES = TouchTimes(page_size_bytes=4096, touches=1, median_ns=1, p99_ns=1, p999_ns=1, worst_ns=1)
STALLS = Stalls(base=TIMES, huge=TIMES, huge_fraction=1.0)
FAULTS = """
  11 5.000000100:  page-faults:      7f0000001000
  12 5.000000200:  page-faults:      7f0000002000
  11 5.000000400: minor-faults:      7f0000001000
  12 5.000010200: minor-faults:u:    7f0000002000
  11 6.999999999:  page-faults:u:    7f0000003000
  11 7.000000001: minor-faults:      7f0000003000
"""


def test_a_fault_lasts_from_its_first_record_to_its_last() -> None:
    assert fault_times.fault_times(FAULTS.splitlines()) == [300, 10_000, 2]


@pytest.mark.parametrize(
    "lines",
    [
        ("11 5.000000100: page-faults: a000", "11 5.000000200: major-faults: a000"),
        ("11 5.000000100: page-faults: a000", "11 5.000000200: minor-faults: b000"),
        ("11 5.000000100: page-faults: a000", "12 5.000000200: minor-faults: a000"),
        ("11 5.000000200: minor-faults: a000",),
        ("PERF_RECORD_LOST lost 12",),
    ],
    ids=["of the disk", "lost between", "of another thread", "lost before", "no record"],
)
def test_what_is_no_whole_fault_has_no_time(lines: tuple[str, ...]) -> None:
    assert fault_times.fault_times(lines) == []


def _asked(launcher: Launcher, program: tuple[str, ...]) -> PairsRequest:
    first = launcher.execute(program, discard=True)
    return PairsRequest(launcher, program, Path(program[0]), first, ())


@pytest.fixture
def method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "candidates", lambda *_, **__: [METHOD])


@pytest.mark.usefixtures("method")
def test_the_faults_of_a_real_program(
    launcher: Launcher, capfd: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    found = fault_times.with_fault_times(STALLS, _asked(launcher, PROGRAM), METHOD.name)
    if "perf could measure nothing" in capfd.readouterr().err:
        pytest.skip("the kernel lets this user count nothing")
    for times in (found.base_faults, found.huge_faults):
        assert times is not None
        assert times.touches > 500
        assert 0 < times.median_ns <= times.p99_ns <= times.p999_ns <= times.worst_ns
    assert found.base == TIMES
    assert all(n > 0 for n in (found.huge_kernel or {}).values())
    assert not list(launcher.folder.glob("*.data*"))


@pytest.mark.usefixtures("method")
@pytest.mark.parametrize("failure", ["no perf", "the program"])
def test_without_their_times_the_estimate_goes_on(
    failure: str,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    again = f"test ! -e {tmp_path}/ran || exit 3; touch {tmp_path}/ran"
    asked = _asked(launcher, ("sh", "-c", again))
    if failure == "no perf":
        monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert fault_times.with_fault_times(STALLS, asked, METHOD.name) == STALLS
    assert "page faults were not timed: " in capsys.readouterr().err


def test_of_an_unknown_method_nothing_runs(launcher: Launcher) -> None:
    asked = _asked(launcher, ("true",))
    assert fault_times.with_fault_times(STALLS, asked, "other") is STALLS
    assert launcher.runs == 1
