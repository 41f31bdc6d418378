# SPDX-License-Identifier: GPL-2.0-or-later
"""The figure of an estimate, where nothing was simulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import estimated, stalls
from builders.tree import needs_gnuplot, there
from tlbcost.answer.figure import draw
from tlbcost.common.errors import TlbcostError


@needs_gnuplot
def test_page_faults_have_a_panel_with_those_that_were_timed(tmp_path: Path) -> None:
    found = replace(estimated(), simulated=None)
    with pytest.raises(TlbcostError, match="no page fault was timed"):
        draw(found, tmp_path / "none.svg")
    around = replace(there(found.given.surroundings), stalls=stalls(9_000, 4_000_000))
    draw(replace(found, given=replace(found.given, surroundings=around)), tmp_path / "faults.svg")
    drawn = (tmp_path / "faults.svg").read_text("utf-8")
    assert "this host, base pages</tspan>" in drawn
    assert "the program, base pages</tspan>" not in drawn
    assert not (tmp_path / "none.svg").exists()
