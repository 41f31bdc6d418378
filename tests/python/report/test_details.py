# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the report for people show?"""

from __future__ import annotations

import json
import re

import pytest
from builders.answer import estimated, overlapped, process, rebuilt, simulated
from builders.report import bare, json_of, text_of
from tlbcost.answer.record import Estimate
from tlbcost.common import units
from tlbcost.common.interval import Interval


@pytest.mark.parametrize("shown", [estimated(), estimated(0), bare(), overlapped(estimated())])
def test_text_fits_80_columns_without_colour(shown: Estimate) -> None:
    text = text_of(shown)
    assert "\x1b" not in text
    long = [line for line in text.splitlines() if len(line) > 80]
    # A command to copy stays one line.
    assert [line for line in long if not line.startswith("  ")] == []
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_text_has_all_parts() -> None:
    text = text_of(estimated())
    for part in (
        "A made-up CPU, bare metal", "measured", "median of 3",
        "page walks", "10 M", "serialized", "upper bound", "cheaper TLB misses", "page faults",
        "WORTH TRYING: 2 MiB pages should save",
        "tlbcost trial -- ./app 'an argument'",
    ):  # fmt: skip
        assert part in text


def test_both_models_are_reported() -> None:
    shown = overlapped(estimated(), Interval(0.2, 0.19, 0.21))
    text = " ".join(text_of(shown).split())
    assert "simulation, overlap model" in text
    assert "in 200 windows with 2.0 % of the references" in text
    simple = estimated().gain.expected_fraction
    assert f"(--model simple) give {units.percent(simple.value)}, {units.range_of(simple)}." in text
    report = json.loads(json_of(shown))
    simulation = report["simulation"]
    assert simulation["model"] == "overlap"
    # 0.9 of the run time is user time.
    assert simulation["expected_overlap_fraction"]["value"] == pytest.approx(0.18)
    assert simulation["expected_simple_fraction"]["value"] == pytest.approx(simple.value)
    assert report["expected_fraction"] == simulation["expected_overlap_fraction"]
    assert simulation["modelled"]["user_saved_fraction"]["low"] == 0.19


def test_the_simple_model_says_nothing_of_windows() -> None:
    simulation = json.loads(json_of(estimated()))["simulation"]
    assert simulation["model"] == "simple"
    assert simulation["modelled"] is None
    assert simulation["no_overlap"] is None
    assert simulation["expected_overlap_fraction"] is None
    assert "windows" not in text_of(estimated())


def test_absent_figures_are_shown_as_absent() -> None:
    text = text_of(bare())
    assert re.search(r"page walk, serialized +35 \(31.5 to 38.5\) +NA$", text, re.MULTILINE)
    assert re.search(r"fewer page faults +NA +NA +NA +NA", text)
    assert re.search(r"app +7 +NA +NA +NA +NA", text)
    assert "T16 " in text


def test_several_processes_are_listed_by_their_walks() -> None:
    processes = tuple(process(n * 1000, pid=1000 + n) for n in range(8))
    text = text_of(rebuilt(simulated(estimated(), processes=processes)))
    listed = re.findall(r"^app +(\d+)", text, re.MULTILINE)
    assert listed == ["1007", "1006", "1005", "1004", "1003"]
    assert "and 3 more" in text
