# SPDX-License-Identifier: GPL-2.0-or-later
"""Are numbers of the command line only decimal digits within their limits?"""

from __future__ import annotations

import argparse

import pytest
from tlbcost.common.arguments import (
    Parser,
    add_engine,
    add_reports,
    add_runs,
    duration,
    from_file,
    program_words,
    to_file,
    whole_number,
)
from tlbcost.common.errors import TlbcostError
from tlbcost.common.output import STDIN, STDOUT


def test_limits_belong_to_the_numbers() -> None:
    assert [whole_number(3, 5)(text) for text in ("3", "05")] == [3, 5]


@pytest.mark.parametrize("text", ["", "2", "6", "-3", "+3", "3.0", "\u0663", "0x3", " 3"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a number from 3 to 5: "):
        whole_number(3, 5)(text)


def test_dashes_before_the_program_are_not_its_own() -> None:
    assert program_words(["--", "./app", "--"]) == ("./app", "--")
    assert program_words(["./app"]) == ("./app",)
    assert program_words([]) == ()


def test_durations() -> None:
    assert [duration(text) for text in ("90", "90s", "1.5m", "2min", "1h", "5ms")] == [
        90, 90, 90, 120, 3600, 0.005,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "0", "-1", "5 m", "1d", "m", "nan", "1e3", "9999h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a duration such as"):
        duration(text)


def test_dash_is_a_standard_stream() -> None:
    assert (to_file("-"), from_file("-")) == (STDOUT, STDIN)
    assert to_file("./-") != STDOUT


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [(["--jsn"], "estimate: unrecognized arguments: --jsn", "--json, or"),
     (["-json"], "estimate: unrecognized arguments: -json", "--json, or"),
     (["--engine", "copis"], "estimate: argument --engine: invalid choice", "--engine copies, or"),
     (["--engine", "zzz"], "estimate: argument --engine: invalid choice", "tlbcost estimate --h"),
     (["stat"], "estimate: argument action: invalid choice", "status, or"),
     (["--wholly-unknown"], "estimate: unrecognized arguments", "tlbcost estimate --help"),
     (["--runs", "x"], "estimate: argument --runs: not a number", "tlbcost estimate --help")],
)  # fmt: skip
def test_wrong_options_are_complained_of_with_a_hint(
    words: list[str], message: str, hint: str
) -> None:
    parser = Parser(prog="tlbcost estimate")
    add_reports(parser)
    add_runs(parser, 3, "run it")
    add_engine(parser)
    parser.add_argument("action", choices=("status", "restore"), nargs="?")
    with pytest.raises(TlbcostError) as error:
        parser.parse_args(words)
    assert str(error.value).startswith(message)
    assert str(error.value.hint).startswith(hint)
    assert error.value.exit_code == 2
