# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of a profile, its text, and its JSON."""

from __future__ import annotations

import json

from tlbcost.counters.profile import EventSamples, Profile, describe, rows, short_names, to_json
from tlbcost.counters.samples import Hits, SampleHit

STREAM, LIBC = "/home/mel/stream", "/lib/libc-2.9.so"
HITS = Hits(
    (
        SampleHit("cycles", 8, STREAM, "a", "user", None, None, 622512, 622512 * 50000),
        SampleHit("dtlb_misses", 8, STREAM, "a", "user", "[heap]", "walk", 9000, 9000000),
        SampleHit("dtlb_misses", 8, STREAM, "b", "user", "[heap]", "stlb_hit", 651, 651000),
        SampleHit("dtlb_misses", 9, "[kernel]", "fault", "kernel", None, None, 181, 181000),
        SampleHit("cycles", 8, LIBC, None, "user", None, None, 4170, 4170 * 50000),
        SampleHit("cycles", 8, None, None, None, None, None, 1, 50000),
    ),
    lost=3,
)


def test_rows_add_up_by_object_symbol_and_mapping() -> None:
    by_object = {row.object: row.events for row in rows(HITS.hits, "object")}
    assert by_object[STREAM] == {
        "cycles": EventSamples(622512, 31125600000),
        "dtlb_misses": EventSamples(9651, 9651000),
    }
    assert by_object["[kernel]"] == {"dtlb_misses": EventSamples(181, 181000)}
    by_symbol = {(row.object, row.symbol): row.events for row in rows(HITS.hits, "symbol")}
    assert by_symbol[STREAM, "b"] == {"dtlb_misses": EventSamples(651, 651000)}
    by_data = {(row.data, row.data_tlb): row for row in rows(HITS.hits, "mapping")}
    assert by_data["[heap]", "walk"].events == {"dtlb_misses": EventSamples(9000, 9000000)}
    assert by_data["[heap]", "walk"].object is None


def test_paths_are_short_where_that_leaves_them_apart() -> None:
    names = ["/a/app", "/b/app", "/lib/libc.so.6", "[kernel]", None]
    assert short_names(names) == {
        "/a/app": "/a/app", "/b/app": "/b/app", "/lib/libc.so.6": "libc.so.6",
    }  # fmt: skip


def test_the_table_of_the_article() -> None:
    """EventSamples, percent and object for each event, and what the samples stand for."""
    text = describe(Profile(HITS, "object"))
    lines = text.splitlines()
    assert lines[1] == "dtlb_misses: 9,832 samples, which stand for 9.83 M"
    stream = next(line for line in lines if line.endswith("stream"))
    assert stream.split() == ["622,512", "99.33", "9,651", "98.16", "stream"]
    assert max(len(line) for line in lines) <= 80
    assert "3 records were lost" in text


def test_no_sample_is_no_number() -> None:
    text = describe(Profile(Hits((), 0), "object"))
    assert "nothing was sampled" in text
    assert "%" not in text.split("note:")[0]


def test_limit_tells_what_it_left_out() -> None:
    assert "(3 more; --limit 4 shows all)" in describe(Profile(HITS, "object", limit=1))


def test_json_holds_the_same() -> None:
    document = json.loads(to_json(Profile(HITS, "symbol")))
    assert document["format"] == "tlbcost profile 2"
    assert document["events"]["dtlb_misses"]["estimated"] == 9832000
    assert sum(row["events"].get("cycles", {"samples": 0})["samples"]
               for row in document["rows"]) == 626683  # fmt: skip
