# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the JSON hold what the profile holds?"""

from __future__ import annotations

import json
from pathlib import Path

from builders.hits import hits_table, profile_of
from tlbcost.counters.hits import read_hits
from tlbcost.counters.profile_document import to_json


def test_json_holds_the_same(tmp_path: Path) -> None:
    document = json.loads(to_json(profile_of(read_hits(hits_table(tmp_path)), by="symbol")))
    assert document["format"] == "tlbcost profile 1"
    events = {event["event"]: event for event in document["events"]}
    assert events["dtlb_misses"]["estimated"] == 9832000
    assert events["gone"]["samples"] is None
    assert sum(row["events"].get("cycles", {"samples": 0})["samples"]
               for row in document["rows"]) == 626683  # fmt: skip
