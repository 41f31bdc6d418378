# SPDX-License-Identifier: GPL-2.0-or-later
"""Does what `tlbcost calibrate` shows of a calibration say what is in it, and what is not?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from tlbcost import kinds
from tlbcost.analysis import analyse
from tlbcost.calibration import QUANTITIES, Obtained, read_calibration
from tlbcost.commands.calibrate import as_json, describe
from tlbcost.records import Interval
from tlbcost.table import read_table

TREE = Path(__file__).parents[2]
SCHEMA = json.loads((TREE / "data" / "schema" / "calibrate.schema.json").read_text("utf-8"))
RECORDED = TREE / "data" / "samples" / "emerald-rapids-guest" / "samples.tsv"


def golden() -> Obtained:
    calibration = read_calibration(TREE / "tests" / "golden" / "calibration.tsv")
    return Obtained(calibration, "from a test", ("a note",))


def recorded() -> Obtained:
    analysis = analyse(read_table(RECORDED, kinds.SAMPLES))
    calibration = replace(golden().calibration, costs=analysis.costs)
    return Obtained(calibration, "measured now", analysis.notes)


@pytest.mark.parametrize("obtained", [golden(), recorded()], ids=["golden", "recorded"])
def test_json_follows_its_schema(obtained: Obtained) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(json.dumps(as_json(obtained), allow_nan=False))
    jsonschema.validate(document, SCHEMA)
    assert len(document["costs"]) == len(obtained.calibration.costs)


def test_schema_knows_every_quantity_and_refuses_others() -> None:
    assert SCHEMA["properties"]["costs"]["items"]["properties"]["quantity"]["enum"] == list(
        QUANTITIES
    )
    document = json.loads(json.dumps(as_json(golden())))
    document["costs"][0]["quantity"] = "walk_cycles"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_absent_is_null_in_json_and_na_in_text() -> None:
    document = json.loads(json.dumps(as_json(golden())))
    absent = [c for c in document["costs"] if c["value"] is None]
    assert [(c["quantity"], c["page_size_bytes"]) for c in absent] == [("stlb_entries", 2 << 20)]
    (line,) = [line for line in describe(golden()).splitlines() if "NA" in line.split()]
    assert line.split()[:4] == ["STLB", "entries", "2", "MiB"]


def test_a_negative_low_end_is_shown_as_measured() -> None:
    obtained = golden()
    costs = tuple(
        replace(c, interval=Interval(12, -4.7, 40)) if c.quantity == "walk_ns" else c
        for c in obtained.calibration.costs
    )
    shown = replace(obtained, calibration=replace(obtained.calibration, costs=costs))
    assert "-4.70 .. 40.00 ns" in describe(shown)


@pytest.mark.parametrize("obtained", [golden(), recorded()], ids=["golden", "recorded"])
def test_text_fits_80_columns(obtained: Obtained) -> None:
    assert all(len(line) <= 80 for line in describe(obtained).splitlines())
