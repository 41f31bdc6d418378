# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a calibration drawn with its labels, units and marks, and what cannot be drawn named?"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from builders.calibration import curve, full, quick
from tlbcost.calibration.figure import draw
from tlbcost.calibration.other_sources import reported_figures
from tlbcost.calibration.records import Obtained
from tlbcost.common.errors import TlbcostError

BOTH = pytest.mark.parametrize("obtained", [quick(), full()], ids=["quick", "full"])


def test_nothing_measured_is_not_drawn(tmp_path: Path) -> None:
    # As where others keep the machine busy until the time is over.
    calibration = replace(quick().calibration, costs=())
    rows = [line for line in curve().splitlines() if not line.startswith(("tlb\t", "# end"))]
    rows.append(f"# end: {sum(line.startswith('cache') for line in rows)}")
    empty = Obtained(calibration, "measured now", "\n".join(rows) + "\n")
    with pytest.raises(TlbcostError, match="nothing was measured of the TLBs"):
        draw(empty, [], tmp_path / "curve.svg")
    assert not (tmp_path / "curve.svg").exists()


def has_gnuplot() -> bool:
    try:
        return subprocess.run(["gnuplot", "--version"], check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not has_gnuplot(), reason="gnuplot is not installed")
@pytest.mark.parametrize("caches", [True, False], ids=["caches", "no-caches"])
@BOTH
def test_the_figure_has_labels_units_and_marks(
    obtained: Obtained, caches: bool, tmp_path: Path
) -> None:
    picture = tmp_path / "drawn.svg"
    draw(replace(obtained, curve=curve(caches)), reported_figures(obtained.calibration), picture)
    text = picture.read_text(encoding="utf-8")
    for words in ("translation time per access (ns)", "cost of a page walk (ns)",
                  "footprint (pages, one cache line in each)", "reach in 4 KiB pages",
                  "L1 dTLB 96 x 4 KiB", "STLB 2048 x 4 KiB", "4 KiB, serial",
                  "4 KiB in 2 MiB pages, serial",
                  "A made-up CPU"):  # fmt: skip
        assert words in text, words
    assert ("load-to-use latency (ns)" in text) == caches
    assert ("2 chains at once" in text) == (obtained.calibration.extent == "full")
    assert ("fill L2 (2 MiB)" in text) == (obtained.calibration.extent == "full")
    assert 'width="800"' in text


@pytest.mark.skipif(not has_gnuplot(), reason="gnuplot is not installed")
def test_a_figure_without_any_knee_or_walk_is_drawn(tmp_path: Path) -> None:
    obtained = quick()
    costs = tuple(replace(c, interval=None, pages=None) for c in obtained.calibration.costs)
    calibration = replace(obtained.calibration, costs=costs)
    picture = tmp_path / "drawn.svg"
    draw(Obtained(calibration, "", curve(caches=False)), (), picture)
    text = picture.read_text(encoding="utf-8")
    assert "L1 dTLB" not in text
    assert "NA: no walk's cost was obtained" in text.replace("&#39;", "'")


def test_a_curve_that_is_garbage_is_named(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="the curve of the calibration:1: not a"):
        draw(replace(quick(), curve="garbage"), (), tmp_path / "c.svg")
    assert list(tmp_path.iterdir()) == []
