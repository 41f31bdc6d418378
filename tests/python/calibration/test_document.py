# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a calibration in JSON as its schema says, with null for what is absent?"""

from __future__ import annotations

import json

import jsonschema
import pytest
from builders.calibration import full, quick
from builders.tree import SCHEMAS
from tlbcost.calibration.document import calibration_document
from tlbcost.calibration.file import QUANTITIES
from tlbcost.calibration.other_sources import WORDS, reported_figures
from tlbcost.calibration.records import Obtained
from tlbcost.common.document import to_json

SCHEMA = json.loads((SCHEMAS / "calibrate.schema.json").read_text("utf-8"))
BOTH = pytest.mark.parametrize("obtained", [quick(), full()], ids=["quick", "full"])


def document(obtained: Obtained) -> dict[str, list[dict[str, object]]]:
    known = reported_figures(obtained.calibration)
    found: dict[str, list[dict[str, object]]]
    found = json.loads(to_json(calibration_document(obtained, known)))
    return found


@BOTH
def test_json_follows_its_schema(obtained: Obtained) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    made = document(obtained)
    jsonschema.validate(made, SCHEMA)
    assert len(made["costs"]) == len(obtained.calibration.costs)
    assert {"quantity": "stlb_entries", "page_size_bytes": 4096, "source": "published",
            "value": 2048, "verified": True} in made["expected"]  # fmt: skip


def test_schema_knows_every_quantity_and_refuses_others() -> None:
    parts = SCHEMA["$defs"]
    assert parts["CalibratedCost"]["properties"]["quantity"]["enum"] == list(QUANTITIES)
    assert parts["ReportedFigure"]["properties"]["quantity"]["enum"] == list(WORDS)
    made = document(quick())
    made["costs"][0]["quantity"] = "walk_cycles"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, SCHEMA)


def test_absent_is_null() -> None:
    made = document(quick())
    absent = [c for c in made["costs"] if c["value"] is None]
    assert [(c["quantity"], c["page_size_bytes"]) for c in absent] == [("stlb_entries", 2 << 20)]
