# SPDX-License-Identifier: GPL-2.0-or-later
"""Are STREAM's rates and the suite read as their formats say?"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from builders.record import TWO, record, text_of
from builders.tree import printed
from tlbcost.common.errors import TlbcostError
from tlbcost.validation.session import (
    StreamResult,
    SuiteRequest,
    SuiteTask,
    print_stream,
    rates_heard,
    read_suite,
    validate,
)

STREAM = """Function    Rate (MB/s)    Avg time    Min time    Max time
Copy:           13490.1    0.053065    0.053064    0.053066
Scale:          13519.0    0.053065    0.053064    0.053066
Add:            14852.5    0.053065    0.053064    0.053066
Triad:          14904.9    0.053065    0.053064    0.053066
checksum 00
"""


def test_rates_are_medians_of_the_runs_on_each_kind_of_pages() -> None:
    faster = STREAM.replace("13490.1", "14000.0")
    heard = [
        (("stream",), STREAM),
        (("hugectl", "--heap", "stream"), faster),
        (("stream",), STREAM),
        (("hugectl", "--heap", "stream"), "no table: killed"),
    ]
    copy, *_, triad = rates_heard(["stream"], heard)
    assert (copy.function, copy.base, copy.huge) == ("Copy", 13490.1, 14000.0)
    assert (triad.base, triad.huge) == (14904.9, 14904.9)


def test_a_rate_that_no_run_printed_is_none_and_one_of_nothing_has_no_change() -> None:
    alone, nothing = (("stream",), STREAM), (("stream",), STREAM.replace("13490.1", "0.0"))
    assert [rate.huge for rate in rates_heard(["stream"], [alone])] == [None] * 4
    for heard, cells in (
        ([alone], "13,490 +NA +NA"),
        ([nothing, (("hugectl", "stream"), STREAM)], "0 +13,490 +NA"),
    ):
        result = StreamResult("STREAM", TWO.programs[0], tuple(rates_heard(["stream"], heard)))
        text = printed(print_stream, result, details=True)
        assert re.search(rf"^Copy \(MB/s\) +{cells}$", text, re.MULTILINE)


def test_an_unproven_stream_shows_no_figures() -> None:
    unproven = replace(TWO.programs[0], excluded="0 B of 1 GiB")
    text = printed(print_stream, StreamResult("STREAM", unproven, ()), details=True)
    assert text == "STREAM: no result: 0 B of 1 GiB\n"


def test_suite_commands_name_programs_that_can_be_found() -> None:
    tasks = read_suite()
    assert len(tasks) >= 16
    assert len({task.name for task in tasks}) == len(tasks)
    assert not [word for task in tasks for word in task.argv if "{workloads}" in word]
    assert [task.name for task in read_suite(["loop"])] == ["loop"]
    with pytest.raises(TlbcostError, match="no program nothing"):
        read_suite(["nothing"])


def test_a_program_that_is_not_installed_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tlbcost.validation.session.paths.workloads", lambda: tmp_path)
    words = ("env", "LC_ALL=C", "no-such-solver", "--threads=1")
    heard: list[str] = []
    left = validate(SuiteTask("solver", words, "glibc-hugetlb"), SuiteRequest(), heard.append)
    why = "no-such-solver is not installed"
    assert heard == [f"solver: {why}"]
    assert (left.excluded, left.prediction, left.pairs) == (why, None, ())
    some = record(*TWO.programs, left)
    assert f"Not compared: solver: {why}" in " ".join(text_of(some).split())
    assert len(some.checks) == 2
