# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a saved estimate read as it did, and what does the report for people show?"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from builders.answer import estimated, overlapped, process, rebuilt, simulated
from builders.report import bare, json_of, made_up, text_of
from builders.tree import fails, printed, valid
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tlbcost.answer.document import estimate_document
from tlbcost.answer.estimate_document import SCHEMA, read_estimate
from tlbcost.common import units
from tlbcost.common.errors import TlbcostError
from tlbcost.common.units import Interval
from tlbcost.report.details import print_report


@pytest.mark.parametrize("name", made_up())
def test_a_saved_estimate_reads_the_same(name: str, tmp_path: Path) -> None:
    shown = made_up()[name]
    file = tmp_path / "estimate.json"
    text = json_of(shown)
    valid(text, "estimate")
    file.write_text(text, encoding="utf-8")
    document = read_estimate(file)
    assert document == estimate_document(shown)
    assert printed(print_report, document, details=True) == text_of(shown)


def test_an_estimate_from_before_newer_keys_still_reads(tmp_path: Path) -> None:
    document = json.loads(json_of(estimated()))
    copies = {"attempts": {}, "ended": {}, "windows": 9, "pauses": 1, "median_pause_ns": 5,
              "longest_pause_ns": 5, "added_cpu_fraction": None, "seen_fraction": 1.0}  # fmt: skip
    document["simulation"]["copies"] = copies
    del document["stalls"]
    file = tmp_path / "estimate.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    found = read_estimate(file)
    assert found.stalls is None
    text = printed(print_report, found, details=True)
    assert "stopped 1 times, for 5 ns (median), 5 ns at most" in " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "not an estimate"), ("{", "not an estimate"), ("[]", "not an estimate"),
     ('{"schema": 1}', "not an estimate"),
     ('{"schema": "tlbcost-trial-3"}', "not an estimate, but tlbcost-trial-3"),
     ('{"schema": "tlbcost-estimate-3"}', "an estimate of version 3; this tlbcost reads"),
     (json.dumps({"schema": SCHEMA}), "an estimate with a defect: Object missing required")],
)  # fmt: skip
def test_other_files_are_refused(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(text, encoding="utf-8")
    with fails(r"other\.json: ", 1) as error:
        read_estimate(file)
    assert why in str(error.value)
    assert error.value.hint


def test_a_key_too_much_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    saved = json.loads(json_of(made_up()["worth trying"]))
    for key, value in (("surprise", 1), ("notes", "x"), ("bound_fraction", [1, 2])):
        file.write_text(json.dumps({**saved, key: value}), encoding="utf-8")
        with pytest.raises(TlbcostError, match="a defect"):
            read_estimate(file)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data())
def test_a_damaged_estimate_is_refused_or_shown(data: st.DataObject, tmp_path: Path) -> None:
    """Whatever one number of it becomes."""
    names = sorted(made_up())
    saved = json.loads(json_of(made_up()[data.draw(st.sampled_from(names))]))
    part: object = saved
    while isinstance(part, (dict, list)) and part:
        inner = list(part) if isinstance(part, dict) else list(range(len(part)))
        key = data.draw(st.sampled_from(inner))
        if not isinstance(part[key], (dict, list)):  # type: ignore[index]
            part[key] = data.draw(  # type: ignore[index]
                st.sampled_from([0, -1, 1, 10**15, 0.5, -0.5, None, "", "x", True, []])
            )
            break
        part = part[key]  # type: ignore[index]
    file = tmp_path / "damaged.json"
    file.write_text(json.dumps(saved), encoding="utf-8")
    try:
        document = read_estimate(file)
    except TlbcostError:
        return
    print_report(document, io.StringIO(), details=True)


@pytest.mark.parametrize("name", made_up())
def test_text_fits_80_columns_without_colour(name: str) -> None:
    text = text_of(made_up()[name])
    assert "\x1b" not in text
    long = [line for line in text.splitlines() if len(line) > 80]
    # A command to copy stays one line.
    assert [line for line in long if not line.startswith("  ")] == []
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_both_models_are_reported() -> None:
    shown = overlapped(estimated(), Interval(0.2, 0.19, 0.21))
    text = " ".join(text_of(shown).split())
    assert "simulation, overlap model" in text
    assert "in 200 windows with 2.0 % of the references" in text
    simple = estimated().gain.expected_fraction
    assert (
        f"misses times their costs give {units.percent(simple.value)}, {units.range_of(simple)}."
        in text
    )
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
