# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost estimate` take, refuse and end with?"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys

import pytest
from builders.machines import BASE, MTHP
from builders.tree import fails
from tlbcost.commands import estimate
from tlbcost.commands.estimate import page_sizes
from tlbcost.common.arguments import Parser
from tlbcost.common.errors import TlbcostError
from tlbcost.machines.plan import GIB


def parse(*arguments: str) -> argparse.Namespace:
    parser = Parser(prog="tlbcost estimate")
    estimate.add_arguments(parser)
    return parser.parse_args(arguments)


def test_options() -> None:
    found = parse("--runs", "5", "--prepare", "rm x", "--", "app", "--runs", "7")
    assert (found.runs, found.prepare) == (5, "rm x")
    assert found.program[-3:] == ["app", "--runs", "7"]
    assert parse("app").runs is None


@pytest.mark.parametrize("runs", ["0", "-1", "x", "1001", "1.5", "²"])
def test_a_wrong_number_of_runs_is_refused(runs: str) -> None:
    with fails(re.escape(runs), 2):
        parse("--runs", runs, "app")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--engine copies simulates", ("--engine", "copies", "--backend", "pmu", "app")),
        ("--engine copies simulates", ("--engine", "copies", "--from", "file")),
        ("--overhead applies to copies", ("--overhead", "3%", "--engine", "valgrind", "app")),
        ("--copies applies to copies", ("--copies", "9", "--backend", "pmu", "app")),
        ("both limit the copies", ("--copies", "9", "--overhead", "3%", "app")),
        ("--text is about measuring", ("--text", "--from", "file")),
        ("--text is about measuring", ("--text", "--region", "a:b", "app")),
        ("--shared-memory is about measuring", ("--shared-memory", "--no-measure", "app")),
        ("--time-budget is about measuring", ("--time-budget", "9m", "--from", "file")),
        ("--seconds needs --pid", ("--seconds", "9", "app")),
        ("--children needs --pid", ("--children", "app")),
        ("app would not be run", ("--pid", "1", "app")),
        ("neither Valgrind nor counters", ("--pid", "1", "--engine", "valgrind")),
        ("neither Valgrind nor counters", ("--pid", "1", "--backend", "both")),
        ("what was counted before, --pid", ("--pid", "1", "--from", "file")),
        ("--runs is for a program that tlbcost starts", ("--pid", "1", "--runs", "2")),
        ("--prepare is for a program that tlbcost starts", ("--pid", "1", "--prepare", "true")),
        ("--nodes is for a program that tlbcost starts", ("--pid", "1", "--nodes", "2")),
        ("--machine simulates a whole run", ("--machine", "zen4", "--pid", "1")),
        ("--machine simulates a whole run", ("--machine", "zen4", "--copies", "9", "app")),
        ("--machine simulates a whole run", ("--machine", "zen4", "--overhead", "3%", "app")),
        ("--page-size simulates a whole", ("--page-size", "2M", "--engine", "copies", "app")),
    ],
)
def test_options_of_copies_belong_together(words: str, options: tuple[str, ...]) -> None:
    with fails(re.escape(words), 2) as error:
        estimate.run(parse(*options))
    assert error.value.hint


@pytest.mark.parametrize("share", ["0", "-1%", "101%", "x", "%", "", "nan", "inf"])
def test_a_wrong_share_of_cpu_time_is_refused(share: str) -> None:
    with pytest.raises(TlbcostError, match="not a share of CPU time as 5%"):
        parse(f"--overhead={share}", "app")
    assert (parse("--overhead", "5%", "app").overhead, parse("app").overhead) == (0.05, None)
    assert parse("--overhead", "0.5", "app").overhead == 0.005


@pytest.mark.parametrize("number", ["0", "-1", "x", "1000001", "²", ""])
def test_a_wrong_number_of_copies_is_refused(number: str) -> None:
    with pytest.raises(TlbcostError, match="not a number of copies"):
        parse(f"--copies={number}", "app")
    assert parse("--copies", "30", "app").copies == 30


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


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from tlbcost.__main__ import main\n"
        "try: main(['estimate', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('pandas', 'rich', 'numpy')))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", code]
    ended = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=False)
    assert ended.returncode == 0
    for option in ("--runs", "--prepare", "--calibration", "--json", "--output"):
        assert option.encode() in ended.stdout


def test_sizes_are_read_ascending_from_base_pages_on() -> None:
    assert page_sizes("1G,64K") == (BASE, MTHP, GIB)
    for wrong in ("", "3K", "3M", "2", "x", "1T", "4K,,2M"):
        with pytest.raises(argparse.ArgumentTypeError):
            page_sizes(wrong)
