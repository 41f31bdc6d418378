# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a calibration at a glance fit 24 lines, with its grade first and no figure that is none?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.calibration import full, quick
from builders.tree import TREE
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.other_sources import reported_figures
from tlbcost.calibration.records import Obtained
from tlbcost.calibration.summary import summarize

RECORDED = TREE / "data" / "samples"
GOOD = RECORDED / "amd-zen-5-guest" / "calibration.tsv"
POOR = RECORDED / "amd-zen-5-guest-busy" / "calibration-1.tsv"


def of(obtained: Obtained, width: int = 80) -> list[str]:
    return summarize(obtained, reported_figures(obtained.calibration), width).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "obtained",
    [
        quick(),
        full(),
        Obtained(read_calibration(GOOD), "cached in " + 30 * "/folder"),
        Obtained(read_calibration(POOR), "measured now"),
    ],
    ids=["quick", "full", "good", "poor"],
)
def test_it_fits(obtained: Obtained, width: int) -> None:
    lines = of(obtained, width)
    assert len(lines) <= 24
    assert all(len(line) <= max(width, 80) for line in lines)
    assert not any(line.endswith(" ") for line in lines)
    assert lines[-1] == "Everything else, and what is published: --details"


def test_the_grade_comes_first() -> None:
    good, poor = (of(Obtained(read_calibration(path), "measured now")) for path in (GOOD, POOR))
    assert good[0] == "Good calibration: 2026-11-23T08:48:38Z, quick, in 8.5 s"
    assert poor[0] == "POOR CALIBRATION: repeat it when the machine is quiet"
    assert poor[1].startswith("Because  a walk on 2 MiB pages (serial, 16,384 pages) costs -138 ns")


def test_figures_are_side_by_side() -> None:
    lines = of(Obtained(read_calibration(GOOD), "measured now"))
    walk = next(line for line in lines if line.startswith("Page walk, 8,192 pages"))
    assert walk.split("pages ")[1].split() == [
        "14.8", "(14.7", "to", "15.1)", "11.3", "(9.17", "to", "12.8)"
    ]  # fmt: skip
    assert any(line.startswith("STLB hit ") and line.endswith(" NA") for line in lines)
    assert "memory 144" in " ".join(lines)


def test_what_is_below_zero_is_not_shown() -> None:
    lines = of(Obtained(read_calibration(POOR), "measured now"))
    walk = next(line for line in lines if line.startswith("Page walk, 16,384 pages"))
    assert walk.split()[-1] == "NA"
    assert not any("-138" in line for line in lines[3:])


def test_without_walks_they_are_na() -> None:
    made = quick()
    costs = tuple(c for c in made.calibration.costs if c.quantity != "walk_ns")
    lines = of(replace(made, calibration=replace(made.calibration, costs=costs)))
    (walk,) = [line for line in lines if line.startswith("Page walk")]
    assert walk.split()[2:] == ["NA", "NA"]
