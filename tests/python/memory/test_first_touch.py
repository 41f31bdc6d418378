# SPDX-License-Identifier: GPL-2.0-or-later
"""How long do first touches take, by the calibrator's own table and by a made-up one?"""

import mmap
from types import SimpleNamespace

import pytest
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.memory import first_touch
from tlbcost.memory.first_touch import first_touches, stalls_of

HEAD = "# tlbcost first_touches 3\n"
COLUMNS = "\t".join(formats.FIRST_TOUCHES.columns) + "\n"
BASE = "4096\t32768\t0\t600\t900\t20000\t70000\t30000000\t0\t0\t0\t0\t0\t0\t0\t0\n"
HUGE = (
    "2097152\t64\t100663296\t90000\t400000\t41000000\t41000000\t50000000"
    "\t1000\t4000000\t1000000\t500\t600\t7000\t80000\t600000\n"
)


def test_what_came_onto_huge_pages_is_a_share() -> None:
    found = stalls_of(f"{HEAD}{COLUMNS}{BASE}{HUGE}# end: 2\n")
    assert found.base.page_size_bytes == 4096
    assert found.huge is not None
    assert (found.huge.median_ns, found.huge.worst_ns) == (90_000, 41_000_000)
    assert (found.base.total_ns, found.huge.total_ns) == (30_000_000, 50_000_000)
    assert found.huge_fraction == 0.75
    assert found.huge_forked is not None
    assert (found.huge_forked.touches, found.huge_forked.worst_ns) == (1000, 80_000)
    assert (found.base_forked, found.huge_forked_fraction) == (None, 0.25)


def test_without_huge_pages_there_are_base_pages_alone() -> None:
    found = stalls_of(f"{HEAD}{COLUMNS}{BASE}# end: 1\n")
    assert (found.huge, found.huge_fraction) == (None, None)


@pytest.mark.parametrize("text", ["", HEAD, f"{HEAD}{COLUMNS}# end: 0\n", f"{HEAD}{COLUMNS}{BASE}"])
def test_a_damaged_table_is_refused(text: str) -> None:
    with pytest.raises((TlbcostError, ValueError)):
        stalls_of(text)


def test_real_touches_are_timed_and_ordered() -> None:
    found = first_touches(1 << 20, ended=False)
    if found is None:
        pytest.skip("the calibrator is not built, or there is little memory")
    base = found.base
    assert (base.page_size_bytes, base.touches) == (mmap.PAGESIZE, (16 << 20) // mmap.PAGESIZE)
    assert 0 < base.median_ns <= base.p99_ns <= base.p999_ns <= base.worst_ns
    forked = found.base_forked
    assert forked is not None
    assert (forked.touches, forked.page_size_bytes) == (base.touches, mmap.PAGESIZE)


def test_where_memory_is_short_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_touch, "memory_limit", lambda: SimpleNamespace(limit_bytes=100 << 20))
    assert first_touches(1 << 30, ended=False) is None


def test_a_program_that_has_ended_leaves_room_for_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(words: list[str], **_: object) -> SimpleNamespace:
        asked.extend(words[1:])
        return SimpleNamespace(stdout=f"{HEAD}{COLUMNS}{BASE}# end: 1\n")

    monkeypatch.setattr(first_touch, "memory_limit", lambda: SimpleNamespace(limit_bytes=1 << 30))
    monkeypatch.setattr(first_touch, "meminfo_bytes", lambda _: 8 << 30)
    monkeypatch.setattr(first_touch, "reports_free_pages", lambda: True)
    monkeypatch.setattr(first_touch.subprocess, "run", run)
    assert first_touches(700 << 20, ended=True) is not None
    assert asked == ["--first-touches", str(512 << 20), "--at-hand"]
