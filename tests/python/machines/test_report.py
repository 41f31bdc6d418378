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
