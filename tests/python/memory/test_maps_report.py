# SPDX-License-Identifier: GPL-2.0-or-later
"""Is memory compared with the TLB's reach as it should be, and does the JSON follow its schema?"""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace

import jsonschema
import pytest
from builders.answer import GEOMETRY, MACHINE
from builders.tree import SCHEMAS
from tlbcost.common.document import to_json
from tlbcost.memory.areas import Area, reach_ratio, reaches_of
from tlbcost.memory.maps_report import MemoryMaps, print_maps
from tlbcost.memory.process import ProcessMemory, look

MIB = 1 << 20
REACHES = reaches_of(GEOMETRY)
AREA = Area(
    name="/dev/shm/x", kind="tmpfs", mappings=1, start=0, end=64 * MIB, size_bytes=64 * MIB,
    resident_bytes=64 * MIB, huge_bytes=0, touched_bytes=None, eligible_bytes=0, page_bytes=4096,
    eligible=False, reason="tmpfs_never",
    words="its tmpfs is mounted without huge pages (huge=never) at /dev/shm",
    reach_ratio=8.0, exceeds_reach=True,
)  # fmt: skip
UNTOUCHED = replace(AREA, touched_bytes=0, reach_ratio=0.0, exceeds_reach=False)


def maps(*areas: Area, watched_s: float | None = None) -> MemoryMaps:
    process = ProcessMemory(
        pid=17, program="/opt/app", thp_mode="madvise", thp_defrag="madvise",
        shmem_enabled="never", looking_ns=1000, clearing_ns=2000 if watched_s else None,
        watched_s=watched_s, areas=areas,
    )  # fmt: skip
    return of_process(process)


def of_process(process: ProcessMemory) -> MemoryMaps:
    return MemoryMaps(
        tlbcost_version="0", date="2026-01-01T00:00:00Z", machine=MACHINE, argv=None,
        reach=REACHES, processes=(process,),
    )  # fmt: skip


def test_reach_is_of_the_last_level() -> None:
    assert REACHES[0].reach_bytes == 2048 * 4096
    assert reach_ratio(64 * MIB, 0.0, REACHES) == 8
    assert reach_ratio(64 * MIB, 1.0, REACHES) < 0.1
    assert reach_ratio(4 * MIB, 0.0, REACHES) == 0.5
    splintered = replace(GEOMETRY, huge=replace(GEOMETRY.base, entry_bytes=4096))
    assert reaches_of(splintered)[1].reach_bytes == REACHES[0].reach_bytes


def test_json_follows_its_schema() -> None:
    schema = json.loads((SCHEMAS / "maps.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(to_json(maps(AREA)))
    jsonschema.validate(document, schema)
    assert document["processes"][0]["areas"][0]["exceeds_reach"] is True
    own = of_process(look(os.getpid(), REACHES))
    jsonschema.validate(json.loads(to_json(own)), schema)
    document["processes"][0]["areas"][0]["unit"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_the_text_says_that_it_is_a_guess() -> None:
    text = io.StringIO()
    print_maps(maps(AREA), text, details=False)
    whole = " ".join(text.getvalue().split())
    assert "64 MiB not on huge pages: its tmpfs is mounted without huge pages" in whole
    assert "A rough guess from sizes alone" in whole
    assert max(map(len, text.getvalue().splitlines())) <= 80
    text = io.StringIO()
    print_maps(maps(UNTOUCHED, watched_s=2.0), text, details=True)
    assert "No mapping exceeds the TLB's reach" in text.getvalue()


def test_the_summary_fits_a_screen() -> None:
    areas = [replace(AREA, name=f"/dev/shm/{n}", start=n) for n in range(40)]
    text = io.StringIO()
    print_maps(maps(*areas), text, details=False)
    assert "40 mappings exceed the TLB's reach" in text.getvalue()
    assert "32 others" in text.getvalue()
    assert len(text.getvalue().splitlines()) <= 24
    text = io.StringIO()
    print_maps(maps(*areas), text, details=True)
    assert "others" not in text.getvalue()


@pytest.mark.parametrize(
    ("name", "shown"),
    [("redis-server", "redis-server (/opt/app)"), ("app", ", /opt/app"), (None, ", /opt/app")],
)
def test_a_process_has_the_name_that_it_was_started_by(name: str | None, shown: str) -> None:
    found = maps(AREA)
    process = replace(found.processes[0], name=name)
    text = io.StringIO()
    print_maps(of_process(process), text, details=False)
    assert f"{shown}\n" in text.getvalue()
