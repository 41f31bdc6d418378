# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a saved estimate read as it did, and is any other file refused with its reason?"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from builders.report import json_of, made_up, text_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tlbcost.answer.document import estimate_document
from tlbcost.answer.estimate_document import SCHEMA
from tlbcost.common.errors import TlbcostError
from tlbcost.report.details import print_report
from tlbcost.report.saved import read_estimate


@pytest.mark.parametrize("name", made_up())
def test_a_saved_estimate_reads_the_same(name: str, tmp_path: Path) -> None:
    shown = made_up()[name]
    file = tmp_path / "estimate.json"
    file.write_text(json_of(shown), encoding="utf-8")
    document = read_estimate(file)
    assert document == estimate_document(shown)
    text = io.StringIO()
    print_report(document, text, details=True)
    assert text.getvalue() == text_of(shown)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not an estimate"),
        ("{", "not an estimate"),
        ("[]", "not an estimate"),
        ('{"schema": 1}', "not an estimate"),
        ('{"schema": "tlbcost-trial-3"}', "not an estimate, but tlbcost-trial-3"),
        ('{"schema": "tlbcost-estimate-3"}', "an estimate of version 3; this tlbcost reads"),
        (json.dumps({"schema": SCHEMA}), "an estimate with a defect: Object missing required"),
    ],
)
def test_other_files_are_refused(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"other\.json: ") as error:
        read_estimate(file)
    assert why in str(error.value)
    assert error.value.exit_code == 1
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
