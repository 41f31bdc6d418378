# SPDX-License-Identifier: GPL-2.0-or-later
"""What is shown of other machines?"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from builders.machines import (
    BASE,
    HUGE,
    machine,
    report,
)
from builders.tree import SCHEMAS
from tlbcost.machines.document import to_json
from tlbcost.machines.plan import GIB
from tlbcost.machines.report import print_report


def test_the_report_says_what_is_assumed(tmp_path: Path) -> None:
    made = report([machine("skx", BASE, HUGE, GIB), machine("arm_n1")], (2500, 1, 1))
    assert [caveat.code for caveat in made.caveats] == ["M01", "M02"]
    with (tmp_path / "text").open("w+") as file:
        print_report(made, file)
        file.seek(0)
        text = file.read()
    assert "1 GiB pages would make this slower" in text
    assert "No times: not published" in text
    document = json.loads(to_json(made))
    schema = json.loads((SCHEMAS / "machine-estimate.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    assert document["machines"][1]["page_sizes"][1]["time_ratio"] is None


def test_a_size_that_is_not_known_is_na(tmp_path: Path) -> None:
    made = report([machine("zen5", BASE, HUGE, GIB)], (1, 1))
    assert made.caveats == ()
    with (tmp_path / "text").open("w+") as file:
        print_report(made, file)
        file.seek(0)
        text = file.read()
    row = next(line for line in text.splitlines() if line.startswith("1 GiB "))
    assert row.split() == ["1", "GiB", *["NA"] * 6]
    assert "1 GiB pages: not available (NA)." in text
    assert "the TLBs of AMD Zen 5 for 1 GiB pages are not on file." in text
    document = json.loads(to_json(made))
    schema = json.loads((SCHEMAS / "machine-estimate.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    last = document["machines"][0]["page_sizes"][2]
    assert (last["tlb"], last["misses"], last["time_ratio"]) == (None, None, None)
