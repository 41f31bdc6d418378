# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the rows of a profile add up, and does the profile read as it should?"""

from __future__ import annotations

from pathlib import Path

from builders.hits import HEADER, hits_table, profile_of
from tlbcost.common import formats
from tlbcost.common.table import format_table
from tlbcost.counters.hits import read_hits
from tlbcost.counters.profile import EventSamples, describe, rows, short_names


def test_rows_add_up_by_object_symbol_and_mapping(tmp_path: Path) -> None:
    hits = read_hits(hits_table(tmp_path))
    none: list[str | None] = [None] * len(hits.hits)
    by_object = {row.object: row.events for row in rows(hits.hits, none, "object")}
    assert by_object["/home/mel/stream"] == {
        "cycles": EventSamples(622512, 31125600000),
        "dtlb_misses": EventSamples(9651, 9651000),
    }
    assert by_object["[kernel]"] == {"dtlb_misses": EventSamples(181, 181000)}
    symbols = ["a", "a", "b", None, None, None]
    by_symbol = {(row.object, row.symbol): row.events for row in rows(hits.hits, symbols, "symbol")}
    assert by_symbol["/home/mel/stream", "b"] == {"dtlb_misses": EventSamples(651, 651000)}
    by_data = {(row.data, row.data_tlb): row for row in rows(hits.hits, symbols, "mapping")}
    assert by_data["[heap]", "walk"].events == {"dtlb_misses": EventSamples(9000, 9000000)}
    assert by_data["[heap]", "walk"].object is None


def test_paths_are_short_where_that_leaves_them_apart() -> None:
    names = ["/a/app", "/b/app", "/lib/libc.so.6", "[kernel]", None]
    assert short_names(names) == {
        "/a/app": "/a/app", "/b/app": "/b/app", "/lib/libc.so.6": "libc.so.6",
    }  # fmt: skip


def test_the_table_of_the_article(tmp_path: Path) -> None:
    """EventSamples, percent and object for each event, and samples times the period."""
    text = describe(profile_of(read_hits(hits_table(tmp_path))))
    lines = text.splitlines()
    assert lines[1] == "dtlb_misses: 9,832 samples x 1,000 = 9.83 M; counted: 9.86 M"
    stream = next(line for line in lines if line.endswith("stream"))
    assert stream.split() == ["622,512", "99.33", "9,651", "98.16", "stream"]
    assert max(len(line) for line in lines) <= 80
    assert "gone was not obtained" in text
    assert "paused the sampling 3 times" in text
    assert "dtlb_misses had a counter for 50 % of the time" in " ".join(text.split())


def test_no_sample_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "hits.tsv"
    path.write_text(format_table(formats.HITS, HEADER, []), encoding="utf-8")
    text = describe(profile_of(read_hits(path)))
    assert "nothing was sampled" in text
    assert "%" not in text.split("note:")[0]


def test_limit_tells_what_it_left_out(tmp_path: Path) -> None:
    hits = read_hits(hits_table(tmp_path))
    assert "(3 more; --limit 4 shows all)" in describe(profile_of(hits, limit=1))
