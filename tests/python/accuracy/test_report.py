# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import io
from dataclasses import replace

from builders.record import TWO, program, record, text_of
from tlbcost.accuracy.errors import accuracy
from tlbcost.accuracy.report import markdown, print_record


def test_nothing_compared_is_said() -> None:
    nothing = record(replace(TWO.programs[0], prediction=None))
    assert accuracy(nothing.checks) == {}
    assert "No program was both predicted and measured" in text_of(nothing)
    assert "Not compared: chase: not estimated" in text_of(nothing)


def test_report_names_the_worst_and_counts() -> None:
    text = text_of(TWO)
    assert "expected gain against user time: mean 7.5, largest 10.0 (sort)" in text
    assert "The gain lies in the expected interval in 1 of 2." in text
    assert "It exceeds the bound in 1 of 2: sort." in text
    assert max(map(len, text.splitlines())) <= 80


def test_section_has_a_row_for_each_check() -> None:
    section = markdown(TWO)
    assert section.count("\n| chase |") == 1
    assert "| sort | 5.0 % | 20 % (15 % to 25 %) | 10 % (10 %) | " in section
    assert "| bound against user time | 12.5 | 20.0 | chase |" in section


def test_a_summary_has_the_largest_errors() -> None:
    others = [program(f"small{n}", 0.9, 0.8, (0.1, 0.05, 0.2), 0.05) for n in range(30)]
    text = io.StringIO()
    print_record(record(*others, *TWO.programs), text, details=False)
    lines = text.getvalue().splitlines()
    assert len(lines) <= 24
    assert lines[0].startswith("32 programs")
    assert "chase" in text.getvalue()
    assert "The 8 largest errors of 32: --details" in text.getvalue()
