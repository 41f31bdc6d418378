# SPDX-License-Identifier: GPL-2.0-or-later
"""Is memory compared with the TLB's reach as it should be, and does the JSON follow its schema?"""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from builders.answer import GEOMETRY, MACHINE
from memory.test_eligibility import SETTINGS
from tlbcost.common.errors import TlbcostError
from tlbcost.memory.maps import Area, Looked, look, reach_of, reach_ratio
from tlbcost.memory.maps_report import Findings, print_maps, to_json

SCHEMA = Path(__file__).parents[3] / "data" / "schema" / "maps.schema.json"
MIB = 1 << 20
AREA = Area(
    "/dev/shm/x", "tmpfs", 1, 0, 64 * MIB, 64 * MIB, 64 * MIB, 0, None, 0, 4096, False,
    "tmpfs_never", "its tmpfs is mounted without huge pages (huge=never) at /dev/shm",
)  # fmt: skip


def findings(*areas: Area, watched_s: float | None = None) -> Findings:
    looked = Looked(17, "/opt/app", areas, SETTINGS, 1000, 2000 if watched_s else None, watched_s)
    return Findings("0", "2026-01-01T00:00:00Z", MACHINE, (), (looked,), GEOMETRY)


def test_reach_is_of_the_last_level() -> None:
    base, huge = reach_of(GEOMETRY, GEOMETRY.base), reach_of(GEOMETRY, GEOMETRY.huge)
    assert base.reach_bytes == 2048 * 4096
    assert reach_ratio(AREA, base, huge) == 8
    assert reach_ratio(replace(AREA, huge_bytes=64 * MIB), base, huge) < 0.1
    assert reach_ratio(replace(AREA, touched_bytes=4 * MIB), base, huge) == 0.5
    splintered = replace(GEOMETRY, huge=replace(GEOMETRY.base, entry_bytes=4096))
    assert reach_of(splintered, splintered.huge).reach_bytes == base.reach_bytes


def test_json_follows_its_schema() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(to_json(findings(AREA)))
    jsonschema.validate(document, schema)
    assert document["processes"][0]["areas"][0]["exceeds_reach"] is True
    own = look(os.getpid())
    jsonschema.validate(json.loads(to_json(replace(findings(), looked=(own,)))), schema)
    document["processes"][0]["areas"][0]["unit"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_the_text_says_that_it_is_an_opinion() -> None:
    text = io.StringIO()
    print_maps(findings(AREA), text, everything=False)
    whole = " ".join(text.getvalue().split())
    assert "64 MiB not on huge pages: its tmpfs is mounted without huge pages" in whole
    assert "An opinion by size, no estimate" in whole
    assert max(map(len, text.getvalue().splitlines())) <= 80
    text = io.StringIO()
    print_maps(findings(replace(AREA, touched_bytes=0), watched_s=2.0), text, everything=True)
    assert "Nothing alone exceeds the reach by what is touched." in text.getvalue()


def test_a_process_that_is_not_there() -> None:
    with pytest.raises(TlbcostError, match="there is no process") as raised:
        look(2**31 - 2)
    assert raised.value.exit_code == 1
