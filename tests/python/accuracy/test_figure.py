# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from builders.record import TWO, modelled, record
from tlbcost.accuracy.figure import draw_record
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval


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
