# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the options of `tlbcost events`, `calibrate` and `numa` do what they say?"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
from builders.calibration import full
from builders.tree import MACHINES, fails, valid
from tlbcost.__main__ import main
from tlbcost.calibration import file
from tlbcost.calibration.file import CalibrationRequest
from tlbcost.calibration.records import Obtained
from tlbcost.commands import calibrate
from tlbcost.commands import events as command
from tlbcost.commands.calibrate import page_size
from tlbcost.commands.numa import caches
from tlbcost.processors.events import Pmu, all_pmus, generic_pmu

PMUS = all_pmus()


def run(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args(options)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("pmu", PMUS, ids=lambda pmu: pmu.key)
def test_report_and_json(pmu: Pmu, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--pmu", pmu.key, "--json", str(tmp_path / "events.json"))
    assert max(len(line) for line in out.splitlines()) <= 80
    for event in pmu.events:
        assert re.search(rf"^{re.escape(event.name)} ", out, re.MULTILINE)
        assert f"{event.code:#x}" in out
    document = valid((tmp_path / "events.json").read_text(encoding="utf-8"), "events")
    assert [event["name"] for event in document["events"]] == [e.name for e in pmu.events]
    assert document["formulas"] == pmu.formulas


def test_one_role(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--pmu", "skl", "--role", "walk_active_cycles")
    assert "walk_active_cycles.fetch" in out
    assert "0x1001008" in out
    assert "\ninstructions" not in out


@pytest.mark.parametrize(
    ("options", "message", "exit_code"),
    [
        (["--role", "nonsense"], "no role is called 'nonsense'", 2),
        (["--pmu", "zen4", "--role", "walk_active_cycles"], "has no event of the role", 4),
        (["--pmu", "zen9"], "no event table is called 'zen9'", 2),
        (["--list", "--pmu", "zen4"], "--list excludes all other options", 2),
        (["--json", "/nowhere/at/all.json"], "cannot write /nowhere/at/all.json", 1),
    ],
)
def test_refusals(options: list[str], message: str, exit_code: int) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with fails(re.escape(message), exit_code):
        command.run(parser.parse_args(options))


def test_the_machines_own_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "zen3"))
    assert run(capsys).startswith("AMD Zen 3 (amd64_fam19h_zen3)\n")
    # A machine that tells nothing has the kernel's own events, and this is said.
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    out = " ".join(run(capsys).split())
    assert "No table is of this CPU" in out
    assert "No hardware counter can be read here" in out
    assert generic_pmu().name in out


def test_list_has_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--list")
    assert max(len(line) for line in out.splitlines()) <= 80
    for pmu in PMUS:
        assert re.search(rf"^{pmu.key} ", out, re.MULTILINE)
        for alias in pmu.aliases:
            assert alias in out


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("64K", 65536), ("2M", 2 << 20), ("1g", 1 << 30), ("16KiB", 16384)],
)
def test_page_sizes(text: str, size: int) -> None:
    assert page_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-2M", "0", "1K", "3M", "2T", "2.5M", "1e6", "٢M"])
def test_no_page_sizes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a page size"):
        page_size(text)


@pytest.mark.parametrize(
    "options",
    [["--quick", "--full"], ["--show", "--quick"], ["--page-size", "3M"], ["--compare", "a"]],
)
def test_usage_errors(options: list[str]) -> None:
    assert main(["calibrate", *options]) == 2


@pytest.mark.parametrize(
    "options",
    [["--show", "--recalibrate"], ["--show", "--page-size", "2M"],
     ["--compare", "a", "b", "--plot", "c.png"], ["--compare", "a", "b", "--json", "c"]],
)  # fmt: skip
def test_options_without_meaning_are_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", *options]) == 2
    assert "has no meaning with" in capsys.readouterr().err


def test_show_without_a_calibration_fails_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(file, "look_up", lambda: (None, "none is cached"))
    assert main(["calibrate", "--show"]) == 1
    said = capsys.readouterr().err
    assert said == "tlbcost: nothing to show: none is cached\ntlbcost: hint: tlbcost calibrate\n"


def test_show_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(file, "look_up", lambda: (full(), ""))
    monkeypatch.setattr(calibrate, "obtain", lambda *_: pytest.fail("measured"))
    assert main(["calibrate", "--show"]) == 0
    assert "L1 dTLB, entries" in capsys.readouterr().out
    assert main(["calibrate", "--show", "--plot", "curve.png"]) == 1
    assert "curve" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "request_"),
    [([], CalibrationRequest()), (["--quick"], CalibrationRequest("quick")),
     (["--full"], CalibrationRequest("full")),
     (["--recalibrate"], CalibrationRequest(recalibrate=True)),
     (["--page-size", "64K", "--page-size", "2M"],
      CalibrationRequest(page_sizes=(65536, 2 << 20)))],
)  # fmt: skip
def test_options_reach_the_calibration(
    options: list[str],
    request_: CalibrationRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[object] = []

    def obtain(request: CalibrationRequest, announce: object, progress: object) -> Obtained:
        assert callable(announce)
        assert callable(progress)
        asked.append(request)
        return full()

    monkeypatch.setattr(calibrate, "obtain", obtain)
    assert main(["calibrate", *options]) == 0
    assert asked == [request_]
    assert capsys.readouterr().err == ""


def test_sizes_of_caches() -> None:
    assert caches("512K,1M") == (512 << 10, 1 << 20)
    assert caches("65536") == (65536, 0)
    assert caches("1M,0") == (1 << 20, 0)
    for text in ("", ",", "1M,", "0", "1M,2M,3M", "K", "-1", "9999G"):
        with pytest.raises(argparse.ArgumentTypeError, match="not sizes of caches"):
            caches(text)
