# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a table of hits read as it is, and does the profile add up?"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.table import format_table
from tlbcost.counters.event_selection import EventRequest, addressed, default_sample_names
from tlbcost.counters.hits import Hits, read_hits
from tlbcost.counters.profile import Profile, ProfilePlace, rows, short_names
from tlbcost.counters.profile_document import to_json
from tlbcost.counters.profile_report import describe
from tlbcost.counters.recording import Pace, SamplingPlan
from tlbcost.counters.target import PROGRAM_ITSELF
from tlbcost.processors.event_tables import load_pmu

HEADER = {
    "event_0": "cycles counted 0 libpfm4 0x0 0x0 0x0",
    "period_0": "50000", "frequency_0": "NA", "count_0": "31640000000",
    "enabled_ns_0": "2000", "running_ns_0": "2000",
    "event_1": "dtlb_misses counted 0 code 0x4 0x704 0x0",
    "period_1": "1000", "frequency_1": "NA", "count_1": "9864000",
    "enabled_ns_1": "2000", "running_ns_1": "1000",
    "event_2": "gone unsupported 2 NA NA NA NA",
    "period_2": "NA", "frequency_2": "1000", "count_2": "NA",
    "enabled_ns_2": "NA", "running_ns_2": "NA",
    "lost": "0", "throttled": "3", "duration_ns": "13690000000", "scope": "program",
    "mode": "both", "kernel": "6.1", "boot_id": "one",
    "object_0": "/home/mel/stream", "build_id_0": "00", "object_1": "/lib/libc-2.9.so",
    "object_2": "[kernel]", "data_0": "[heap]",
}  # fmt: skip
ROWS: list[list[str | int | None]] = [
    ["cycles", 8, 0, "user", 4096, None, None, 622512, 622512 * 50000],
    ["dtlb_misses", 8, 0, "user", 4096, 0, "walk", 9000, 9000000],
    ["dtlb_misses", 8, 0, "user", 4100, 0, "stlb_hit", 651, 651000],
    ["dtlb_misses", 9, 2, "kernel", 18446744071586526058, None, None, 181, 181000],
    ["cycles", 8, 1, "user", 77, None, None, 4170, 4170 * 50000],
    ["cycles", None, None, None, 12, None, None, 1, 50000],
]


def table(tmp_path: Path, header: dict[str, str] = HEADER) -> Path:
    path = tmp_path / "hits.tsv"
    path.write_text(format_table(formats.HITS, header, ROWS), encoding="utf-8")
    return path


def profile(hits: Hits, **options: object) -> Profile:
    names = tuple(None if hit.mode is None else f"f{hit.offset_bytes}" for hit in hits.hits)
    return Profile(hits, names, **({"by": "object"} | options))  # type: ignore[arg-type]


def test_events_and_places(tmp_path: Path) -> None:
    hits = read_hits(table(tmp_path))
    assert [(e.name, e.state, e.period, e.running_fraction) for e in hits.events] == [
        ("cycles", "counted", 50000, 1.0),
        ("dtlb_misses", "counted", 1000, 0.5),
        ("gone", "unsupported", None, None),
    ]
    first, last = hits.hits[0], hits.hits[-1]
    assert (first.object, first.build_id, first.data) == ("/home/mel/stream", "00", None)
    assert (last.object, last.pid, last.mode) == (None, None, None)
    assert hits.hits[1].data == "[heap]"


def test_rows_add_up_by_object_symbol_and_mapping(tmp_path: Path) -> None:
    hits = read_hits(table(tmp_path))
    none: list[str | None] = [None] * len(hits.hits)
    by_object = {row.place.object: row.found for row in rows(hits.hits, none, "object")}
    assert by_object["/home/mel/stream"] == {
        "cycles": (622512, 31125600000),
        "dtlb_misses": (9651, 9651000),
    }
    assert by_object["[kernel]"] == {"dtlb_misses": (181, 181000)}
    symbols = ["a", "a", "b", None, None, None]
    by_symbol = {row.place: row.found for row in rows(hits.hits, symbols, "symbol")}
    assert by_symbol[ProfilePlace("/home/mel/stream", "b")] == {"dtlb_misses": (651, 651000)}
    by_data = {row.place: row.found for row in rows(hits.hits, symbols, "mapping")}
    assert by_data[ProfilePlace(None, None, "[heap]", "walk")] == {"dtlb_misses": (9000, 9000000)}


def test_the_table_of_the_article(tmp_path: Path) -> None:
    """Samples, percent and object for each event, and samples times the period."""
    text = describe(profile(read_hits(table(tmp_path))))
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
    text = describe(profile(read_hits(path)))
    assert "nothing was sampled" in text
    assert "%" not in text.split("note:")[0]


def test_limit_tells_what_it_left_out(tmp_path: Path) -> None:
    hits = read_hits(table(tmp_path))
    assert "(3 more; --limit 4 shows all)" in describe(profile(hits, limit=1))


def test_json_holds_the_same(tmp_path: Path) -> None:
    document = json.loads(to_json(profile(read_hits(table(tmp_path)), by="symbol")))
    assert document["format"] == "tlbcost profile 1"
    events = {event["event"]: event for event in document["events"]}
    assert events["dtlb_misses"]["estimated"] == 9832000
    assert events["gone"]["samples"] is None
    assert sum(row["events"].get("cycles", {"samples": 0})["samples"]
               for row in document["rows"]) == 626683  # fmt: skip


def test_paths_are_short_where_that_leaves_them_apart() -> None:
    names = ["/a/app", "/b/app", "/lib/libc.so.6", "[kernel]", None]
    assert short_names(names) == {
        "/a/app": "/a/app", "/b/app": "/b/app", "/lib/libc.so.6": "libc.so.6",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lost", "NA"), ("scope", "planet"), ("event_0", "cycles"), ("event_1", "x counted 0"),
        ("event_0", "cycles lost 0"), ("period_0", "-3"), ("mode", "x"), ("throttled", "many"),
    ],
)  # fmt: skip
def test_garbage_is_refused_with_the_file(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(TlbcostError, match=r"hits\.tsv"):
        read_hits(table(tmp_path, HEADER | {key: value}))


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
    describe(profile(hits))
    json.loads(to_json(profile(hits)))


def test_what_is_recorded_unless_something_is_asked_for() -> None:
    assert default_sample_names(load_pmu("skl"), addresses=False) == [
        "cycles", "walks_completed.load", "walks_completed.store",
    ]  # fmt: skip
    assert "sample_load_misses" in " ".join(default_sample_names(load_pmu("skl"), addresses=True))
    assert default_sample_names(load_pmu("perf"), addresses=False) == [
        "cycles", "dtlb_load_misses", "dtlb_store_misses",
    ]  # fmt: skip


@pytest.mark.parametrize(("key", "period"), [("skl", 10_007), ("amd64_fam19h_zen4", 200_003)])
def test_samples_of_all_operations_are_rarer_than_those_of_misses(key: str, period: int) -> None:
    """A core retires more operations a second than the kernel lets anybody sample each 10,007th."""
    wanted = tuple(EventRequest.of(event) for event in addressed(load_pmu(key)))
    options = SamplingPlan(wanted, "user", Pace(), PROGRAM_ITSELF, addresses=True).options()
    assert "--addresses" in options
    periods = [word for before, word in pairwise(options) if before == "--period"]
    assert periods == [str(period)] * len(wanted)
