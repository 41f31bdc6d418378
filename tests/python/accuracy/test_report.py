# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from builders.record import TWO, modelled, program, record, text_of
from tlbcost.accuracy.checks import accuracy
from tlbcost.accuracy.report import draw_record, markdown, print_record
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval


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


def test_figure_is_drawn(tmp_path: Path) -> None:
    if shutil.which("gnuplot") is None:
        pytest.skip("gnuplot is not installed")
    draw_record(TWO, tmp_path / "accuracy.svg")
    picture = (tmp_path / "accuracy.svg").read_text(encoding="utf-8")
    for words in ("chase", "sort", "trial: user time saved", "estimated"):
        assert words in picture


def test_nothing_to_draw_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="no program"):
        draw_record(record(), tmp_path / "accuracy.png")
    assert not list(tmp_path.iterdir())


def test_figure_has_both_models(tmp_path: Path) -> None:
    if shutil.which("gnuplot") is None:
        pytest.skip("gnuplot is not installed")
    draw_record(modelled(Interval(0.32, 0.29, 0.34)), tmp_path / "accuracy.svg")
    assert "expected by the simple model" in (tmp_path / "accuracy.svg").read_text("utf-8")
