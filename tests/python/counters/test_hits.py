# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a table of hits read as it is, and garbage refused?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders.hits import HEADER, ROWS, hits_table, profile_of
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.table import format_table
from tlbcost.counters.hits import read_hits
from tlbcost.counters.profile import describe
from tlbcost.counters.profile_document import to_json


def test_events_and_places(tmp_path: Path) -> None:
    hits = read_hits(hits_table(tmp_path))
    assert [(e.name, e.state, e.period, e.running_fraction) for e in hits.events] == [
        ("cycles", "counted", 50000, 1.0),
        ("dtlb_misses", "counted", 1000, 0.5),
        ("gone", "unsupported", None, None),
    ]
    first, last = hits.hits[0], hits.hits[-1]
    assert (first.object, first.build_id, first.data) == ("/home/mel/stream", "00", None)
    assert (last.object, last.pid, last.mode) == (None, None, None)
    assert hits.hits[1].data == "[heap]"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lost", "NA"), ("scope", "planet"), ("event_0", "cycles"), ("event_1", "x counted 0"),
        ("event_0", "cycles lost 0"), ("period_0", "-3"), ("mode", "x"), ("throttled", "many"),
    ],
)  # fmt: skip
def test_garbage_is_refused_with_the_file(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(TlbcostError, match=r"hits\.tsv"):
        read_hits(hits_table(tmp_path, HEADER | {key: value}))


@given(st.text(max_size=300), st.integers(0, 2000))
def test_damaged_tables_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, junk: str, at: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.tsv"
    text = format_table(formats.HITS, HEADER, ROWS)
    path.write_text(text[:at] + junk + text[at:], encoding="utf-8", errors="replace")
    try:
        hits = read_hits(path)
    except TlbcostError:
        return
    describe(profile_of(hits))
    json.loads(to_json(profile_of(hits)))
