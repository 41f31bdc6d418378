# SPDX-License-Identifier: GPL-2.0-or-later
"""Do reports of a fleet say what was found, whatever services and hosts are called?"""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pandas as pd
from builders.fleet import Row, reviewed, rows_of
from builders.review import HOSTILE
from tlbcost.common.document import to_json
from tlbcost.fleet.report import hosts_csv, print_report, to_csv, to_markdown
from tlbcost.fleet.review import FleetReview

SCHEMA = Path(__file__).resolve().parents[3] / "data" / "schema" / "fleet.schema.json"


def hostile(folder: Path) -> FleetReview:
    """Two services, one with a name that would be markup, and a host that is left out."""
    rows: list[Row] = rows_of("a") + rows_of("b", HOSTILE, dtlb_load=0.1)
    return reviewed(folder, rows + rows_of("<c>", cpu="nonesuch"))


def test_text(tmp_path: Path) -> None:
    text = io.StringIO()
    print_report(hostile(tmp_path).document, text)
    assert "\x1b" not in text.getvalue()
    flat = " ".join(text.getvalue().split())
    assert "web skx 1 1 23 % (23 to 23) 14 % (14 to 14)" in flat
    assert "36 rows of 3 hosts in 1 file; 24 rows used." in flat
    assert "left out: 12 rows of 1 host (web; nonesuch): no event table is called" in flat


def test_many_reasons_are_cut_short(tmp_path: Path) -> None:
    rows = rows_of("a")
    rows += [row for i in range(25) for row in rows_of(f"h{i}", cpu=f"cpu {i}")]
    text = io.StringIO()
    print_report(reviewed(tmp_path, rows).document, text)
    assert text.getvalue().count("left out: ") == 21
    assert "left out: 60 more rows, for 5 reasons; --json has them" in text.getvalue()


def test_json_is_as_its_schema_says(tmp_path: Path) -> None:
    document = json.loads(to_json(hostile(tmp_path).document))
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert document["schema"] == "tlbcost-fleet-1"
    assert document["rows_read"] == 36


def test_csv(tmp_path: Path) -> None:
    found = hostile(tmp_path)
    table = pd.read_csv(io.StringIO(to_csv(found.document)))
    assert table["hosts"].tolist() == [1, 1]
    assert table["gain_fraction_p50"].tolist() == [
        row.gain_fraction.p50 for row in found.document.rows
    ]
    hosts = pd.read_csv(io.StringIO(hosts_csv(found.hosts)))
    assert hosts["host"].tolist() == ["a", "b"]
    assert hosts["gain_fraction_low"].tolist() == [each.gain.low for each in found.hosts]


def test_markdown_shows_names_as_they_are(tmp_path: Path) -> None:
    text = to_markdown(hostile(tmp_path).document)
    assert "<script" not in text
    assert "<c>" not in text
    row = next(line for line in text.splitlines() if line.startswith("| &lt;"))
    assert row.replace("\\|", "").count("|") == 7
