# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the list of machines follow its schema?"""

from __future__ import annotations

import json

import jsonschema
from builders.tree import SCHEMAS
from tlbcost.common.document import to_json as document_text
from tlbcost.machines.list_document import machine_list
from tlbcost.processors.published import cores


def test_every_core_can_be_listed_and_its_figures_have_sources() -> None:
    document = json.loads(document_text(machine_list(cores())))
    schema = json.loads((SCHEMAS / "machines.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    for each in document["machines"]:
        rows = [*each["levels"], *each["figures"].values()]
        used = {key for row in rows for key in row["source"].split("+")}
        assert used <= set(each["sources"])
        assert bool(each["unknowns"]) == (not each["missing_for_times"])
