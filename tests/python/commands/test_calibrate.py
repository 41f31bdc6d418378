# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the options of `tlbcost calibrate` reach the calibration, and are useless ones refused?"""

from __future__ import annotations

import argparse

import pytest
from builders.calibration import full
from tlbcost.__main__ import main
from tlbcost.calibration import file
from tlbcost.calibration.records import Obtained
from tlbcost.calibration.request import CalibrationRequest
from tlbcost.commands import calibrate
from tlbcost.commands.calibrate import page_size


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
