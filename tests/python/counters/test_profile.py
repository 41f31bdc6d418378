# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the rows of a profile add up?"""

from __future__ import annotations

from pathlib import Path

from builders.hits import hits_table
from tlbcost.counters.hits import read_hits
from tlbcost.counters.profile import Samples, rows, short_names


def test_rows_add_up_by_object_symbol_and_mapping(tmp_path: Path) -> None:
    hits = read_hits(hits_table(tmp_path))
    none: list[str | None] = [None] * len(hits.hits)
    by_object = {row.object: row.events for row in rows(hits.hits, none, "object")}
    assert by_object["/home/mel/stream"] == {
        "cycles": Samples(622512, 31125600000),
        "dtlb_misses": Samples(9651, 9651000),
    }
    assert by_object["[kernel]"] == {"dtlb_misses": Samples(181, 181000)}
    symbols = ["a", "a", "b", None, None, None]
    by_symbol = {(row.object, row.symbol): row.events for row in rows(hits.hits, symbols, "symbol")}
    assert by_symbol["/home/mel/stream", "b"] == {"dtlb_misses": Samples(651, 651000)}
    by_data = {(row.data, row.data_tlb): row for row in rows(hits.hits, symbols, "mapping")}
    assert by_data["[heap]", "walk"].events == {"dtlb_misses": Samples(9000, 9000000)}
    assert by_data["[heap]", "walk"].object is None


def test_paths_are_short_where_that_leaves_them_apart() -> None:
    names = ["/a/app", "/b/app", "/lib/libc.so.6", "[kernel]", None]
    assert short_names(names) == {
        "/a/app": "/a/app", "/b/app": "/b/app", "/lib/libc.so.6": "libc.so.6",
    }  # fmt: skip
