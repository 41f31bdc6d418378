# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples as perf script prints them, and the profile made of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.profile import (
    EventSamples,
    Hits,
    Profile,
    SampleHit,
    data_tlb,
    describe,
    hits_of,
    is_from_memory,
    read_hits,
    rows,
    samples_in,
    short_names,
    to_json,
)

# perf 6.1: software events of a guest; and an IBS sample with the kernel's decoded data source.
PRINTED = """\
          places 13126/13126 [000] U              1 page_faults:     559f42dec000 [unknown] ([heap])      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A     559f27494309 touch_here (/tmp/pf/places)
     some thread 13126/13127 [001] U              1 page_faults:     7fe3ca3fb000 [unknown] (/dev/zero (deleted))      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A     55af3a038309 Table<int, int>::find(int) (/tmp/a (b) c)
          places 13126/13126 [000] K              1 page_faults:     7fff051ba1c9 [unknown] ([stack])      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A ffffffff81b75d98 _copy_to_user ([kernel.kallsyms])
     tlbcost-run 13126/13126 [000] U              1 page_faults:     559f42dec000 [unknown] ([heap])      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A     559f27494309 main (/usr/libexec/tlbcost-run)
             app 77/78 [003] U         200003 sample_load_misses:     7f25d6d17008 [unknown] (//anon)       68100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A     5586adc0d309 [unknown] (/opt/app)
             app 77/78 [003]: PERF_RECORD_LOST lost 12
"""  # noqa: E501
# A user's own perf record -e page-faults: neither CPU, address nor source.
OWN = (
    "             env 13354/13354 U             11 page-faults:     7f37e9ac6a8b _dl_start "
    "(/usr/lib/ld.so)"
)


def test_lines_of_perf_script() -> None:
    samples, lost = samples_in(PRINTED.splitlines())
    assert lost == 12
    first, second, third, fourth = samples
    assert (first.event, first.pid, first.cpu, first.mode) == ("page_faults", 13126, 0, "user")
    assert (first.object, first.symbol) == ("/tmp/pf/places", "touch_here")
    assert (first.address, first.data, first.weight) == (0x559F42DEC000, "[heap]", 1)
    assert (second.tid, second.data, second.object) == (13127, "[shared]", "/tmp/a (b) c")
    assert second.symbol == "Table<int, int>::find(int)"
    assert (third.mode, third.object) == ("kernel", "[kernel]")
    assert (fourth.symbol, fourth.data, fourth.source) == (None, "[anonymous]", 0x68100142)
    assert fourth.weight == 200003


def test_a_recording_of_the_users_own() -> None:
    (sample,), lost = samples_in([OWN])
    assert (sample.cpu, sample.address, sample.data, sample.source) == (None, None, None, None)
    assert (sample.event, sample.weight, sample.symbol, lost) == ("page-faults", 11, "_dl_start", 0)


def test_places_add_up_and_what_misses_most_comes_first() -> None:
    hits = hits_of(*samples_in(2 * PRINTED.splitlines()))
    assert hits.lost == 24
    assert hits.events == ("sample_load_misses", "page_faults")
    assert [(hit.samples, hit.weight) for hit in hits.hits[:2]] == [(2, 400006), (2, 2)]
    assert hits.hits[0].data_tlb == "hit"


# perf_mem_data_src: mem_op 5 bits, mem_lvl 14, mem_snoop 5, mem_lock 2, mem_dtlb 7, mem_lvl_num.
@pytest.mark.parametrize(
    ("tlb", "name"),
    [(1, None), (2 | 8, "l1_hit"), (2 | 16, "stlb_hit"), (2 | 8 | 16, "hit"), (4 | 16, "walk"),
     (2 | 32, "hit"), (4 | 32, "walk"), (2, None), (4 | 8, None), (64 | 4, "walk")],
)  # fmt: skip
def test_where_a_translation_was(tlb: int, name: str | None) -> None:
    assert data_tlb(tlb << 26) == name


@pytest.mark.parametrize(
    ("level", "number", "memory"),
    [(2 | 8, 0, False), (2 | 0x80, 0, True), (4 | 64, 0, True), (4 | 8, 0, None), (1, 0xD, True),
     (1, 0x9, True), (1, 3, False), (1, 0xF, None), (2 | 0x400, 0, False), (2 | 0x100, 0, True)],
)  # fmt: skip
def test_where_data_was(level: int, number: int, memory: bool | None) -> None:
    assert is_from_memory(level << 5 | number << 33) is memory


# A Neoverse's SPE: each record is printed several times (perf's commit of PERF_MEM_SNOOPX_PEER).
SPE = """\
       memstress 3603/3603 [020] U              1 {}:     ffff8a7c1000 [unknown] (//anon)       8688000842 |OP LOAD|LVL L3 or L3 hit|SNP N/A|TLB Walker hit|LCK No|BLK  N/A     aaaac17c3e88 [unknown] (/home/ubuntu/memstress)
"""  # noqa: E501


def test_a_record_of_spe_is_one_sample() -> None:
    events = ("l1d-miss", "l1d-access", "llc-miss", "llc-access", "tlb-access", "memory")
    hits = hits_of(*samples_in("".join(map(SPE.format, events)).splitlines()))
    assert [(hit.event, hit.samples, hit.data_tlb) for hit in hits.hits] == [("memory", 1, "hit")]


@given(st.lists(st.text(max_size=200), max_size=5))
def test_any_text_is_read(lines: list[str]) -> None:
    hits_of(*samples_in(lines))


def test_what_perf_cannot_read_is_refused(tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    (tmp_path / "data").write_bytes(b"PERFILE2" + bytes(100))
    with pytest.raises(TlbcostError, match="not a recording that perf can read"):
        read_hits(tmp_path / "data")


def test_a_real_recording(tmp_path: Path) -> None:
    words = ["perf", "record", "-q", "-N", "-o", "data", "-e", "page-faults:u", "-c", "1", "true"]
    if shutil.which("perf") is None or subprocess.run(words, cwd=tmp_path, check=False).returncode:
        pytest.skip("perf is not installed, or may not sample page faults")
    hits = read_hits(tmp_path / "data")
    assert hits.events == ("page-faults:u",)
    assert {hit.mode for hit in hits.hits} == {"user"}


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
