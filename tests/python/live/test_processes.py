# SPDX-License-Identifier: GPL-2.0-or-later
"""Are processes followed that come, go and may not be read, and their pages, and the host's?"""

from __future__ import annotations

import mmap
import shutil
from pathlib import Path

import pytest
from builders.memory import REACHES, Proc, mapping, rollup
from builders.tree import fails, put, there
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.live.document import HostReader, hides_processes, rows_of
from tlbcost.live.processes import Processes, SeenProcess, Unlimited, pages_of, rolled_up
from tlbcost.memory import smaps
from tlbcost.system import process

ALL = Unlimited()


@pytest.fixture
def proc(root: Path) -> Proc:
    return Proc(root)


def refreshed(found: Processes) -> dict[int, SeenProcess]:
    found.refresh_faults(ALL)
    found.refresh_pages(ALL)
    return {each.pid: each for each in found.seen()}


def refusing(monkeypatch: pytest.MonkeyPatch, ends: str, error: type[OSError]) -> None:
    """Files that end so cannot be opened."""
    read = process.read

    def refuse(place: process.Place, name: str) -> bytes:
        if f"{place}/{name}".endswith(ends):
            raise error(name)
        return read(place, name)

    monkeypatch.setattr(process, "read", refuse)


def test_a_process_and_its_pages(proc: Proc) -> None:
    proc.add(10, mapping(1000, huge=400), name="a) (b", faults=5)
    seen = refreshed(Processes(grouped=True))[10]
    assert (seen.name, seen.cgroup, seen.faults, seen.fault_rate) == ("a) (b", "/a", 8, None)
    assert (there(seen.pages).huge_bytes, seen.eligible_bytes) == (400 << 10, 600 << 10)
    assert seen.ineligible_bytes == 0


def test_faults_a_second_need_two_readings(proc: Proc) -> None:
    proc.add(10, mapping(8))
    found = Processes(grouped=False)
    first = refreshed(found)[10].seen_at
    proc.stat(10, faults=1000)
    again = refreshed(found)[10]
    assert again.fault_rate == pytest.approx(1000 / (again.seen_at - first))


def test_another_process_of_the_same_number_starts_anew(proc: Proc) -> None:
    proc.add(10, mapping(8), faults=1000)
    found = Processes(grouped=False)
    refreshed(found)
    proc.stat(10, started=8)
    assert refreshed(found)[10].fault_rate is None


def test_who_has_no_memory_is_left_out_and_who_ends_is_forgotten(proc: Proc) -> None:
    proc.add(2, "", name="kthreadd")
    folder = proc.add(10, mapping(8))
    found = Processes(grouped=False)
    assert set(refreshed(found)) == {10}
    shutil.rmtree(folder)
    assert refreshed(found) == {}
    assert found.unreadable == 0


@pytest.mark.parametrize("file", ["/10/stat", "/10/smaps"])
def test_one_that_ends_while_it_is_read(
    proc: Proc, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    for pid in (10, 11):
        proc.add(pid, mapping(8))
    found = Processes(grouped=True)
    for error in (FileNotFoundError, ProcessLookupError):
        with monkeypatch.context() as patched:
            refusing(patched, file, error)
            assert set(refreshed(found)) == {11}
        assert set(refreshed(found)) == {10, 11}


def test_pages_that_may_not_be_read_are_unknown_and_counted(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in (10, 11):
        proc.add(pid, mapping(8))
    refusing(monkeypatch, "/10/smaps", PermissionError)
    refusing(monkeypatch, "/10/smaps_rollup", PermissionError)
    found = Processes(grouped=False)
    refreshed(found)
    assert found.unreadable == 1
    rows = {row.pid: row for row in rows_of(found.seen(), "process", REACHES, 1e9)}
    assert rows[10].memory_bytes == 256 * 4096
    assert rows[10].huge_bytes is rows[10].eligible_bytes is rows[10].reach_ratio is None
    assert rows[10].age_s is None
    # A sum without it would be too small.
    (group,) = rows_of(found.seen(), "cgroup", REACHES, 1e9)
    assert (group.processes, group.memory_bytes, group.huge_bytes) == (2, None, None)


def test_a_proc_that_refuses_everything_of_others(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hidepid=1."""
    for pid in (10, 11):
        proc.add(pid, mapping(8))
    refusing(monkeypatch, "/10/stat", PermissionError)
    found = Processes(grouped=False)
    assert set(refreshed(found)) == {11}
    assert found.unreadable == 1


def test_a_kernel_without_smaps(proc: Proc) -> None:
    (proc.folder / "self" / "smaps").unlink()
    with fails("does not report the pages", CANNOT_MEASURE):
        Processes(grouped=False)


def test_the_rollup_is_read_and_smaps_for_what_is_eligible(proc: Proc) -> None:
    proc.add(10, mapping(1000, huge=400))
    proc.roll_up(10, rollup(1000, pss=(500, 0, 0), anonymous=1000, huge=400, shmem=0))
    seen = refreshed(Processes(grouped=False))[10]
    assert seen.pages is not None
    assert (seen.pages.memory_bytes, seen.pages.huge_bytes) == (1000 << 10, 400 << 10)
    assert seen.eligible_bytes == 600 << 10


def test_without_budget_nothing_is_read(proc: Proc) -> None:
    proc.add(10, mapping(8))

    class Nothing(Unlimited):
        def left_s(self) -> float:
            return -1.0

    found = Processes(grouped=False)
    found.refresh_faults(Nothing())
    assert list(found.seen()) == []
    found.refresh_faults(ALL)
    found.refresh_pages(Nothing())
    (seen,) = found.seen()
    assert (seen.pages, seen.resident_bytes) == (None, 256 * 4096)


def test_pages_of_a_pool_that_a_group_shares_count_once(proc: Proc) -> None:
    for pid in (10, 11):
        proc.add(pid, mapping(0, shared_hugetlb=4096, inode=7) + mapping(8))
    proc.add(12, mapping(8), group="/b")
    found = Processes(grouped=True)
    refreshed(found)
    rows = {row.name: row for row in rows_of(found.seen(), "cgroup", REACHES, 1e9)}
    assert rows["/a"].huge_bytes == 4096 << 10
    assert rows["/a"].memory_bytes == (4096 + 2 * 8) << 10
    assert (rows["/a"].processes, rows["/b"].huge_bytes) == (2, 0)
    assert rows["/a"].reach_ratio == pytest.approx(4096 / (2 << 20) + 16 / 4096)


KIB = 1024


def test_it_agrees_with_the_reader_of_every_mapping() -> None:
    path = Path("/proc/self/smaps")
    if not path.exists():
        pytest.skip("needs /proc/PID/smaps")
    with mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory[:] = b"x" * len(memory)
        text = path.read_bytes()
    found, parsed = pages_of(text), smaps.parse(text.decode(errors="replace"))
    base = [(m.resident_bytes - m.huge_bytes) * bool(m.eligible) for m in parsed]
    assert found.memory_bytes == sum(m.resident_bytes for m in parsed) >= 8 << 20
    assert found.huge_bytes == sum(m.huge_bytes for m in parsed)
    assert found.eligible_bytes == (sum(base) if parsed[0].eligible is not None else None)


def test_what_is_eligible_is_what_base_pages_of_eligible_mappings_hold() -> None:
    text = mapping(1000, huge=400) + mapping(50, eligible=False) + mapping(0)
    found = pages_of(text.encode())
    assert found.memory_bytes == 1050 * KIB
    assert (found.huge_bytes, found.eligible_bytes) == (400 * KIB, 600 * KIB)


def test_a_kernel_that_does_not_report_what_is_eligible() -> None:
    assert pages_of(mapping(1000, eligible=None).encode()).eligible_bytes is None


def test_a_page_of_four_processes_counts_a_quarter() -> None:
    text = mapping(1000, pss=250, shmem=400) + mapping(100)
    found = pages_of(text.encode(), proportional=True)
    assert found.memory_bytes == 350 * KIB
    assert (found.huge_bytes, found.eligible_bytes) == (100 * KIB, 250 * KIB)


def test_pages_of_a_pool_are_in_memory_unless_others_map_them() -> None:
    text = mapping(0, shared_hugetlb=4096, inode=7) + mapping(0, private_hugetlb=2048, inode=8)
    found = pages_of((mapping(8) + text).encode())
    assert (found.memory_bytes, found.huge_bytes) == (2056 * KIB, 2048 * KIB)
    assert found.shared_hugetlb == {b"00:0f 7": 4096 * KIB}


def test_the_sum_of_all_mappings() -> None:
    text = rollup(1000, pss=(300, 50, 100), anonymous=600, huge=200, shmem=100)
    whole = rolled_up(text.encode())
    assert (whole.memory_bytes, whole.huge_bytes) == (1000 * KIB, 300 * KIB)
    assert whole.eligible_bytes is None
    part = rolled_up(text.encode(), proportional=True)
    # Half of the anonymous memory, and 150 of 400 of the other.
    assert part.memory_bytes == 450 * KIB
    assert part.huge_bytes == round(200 * 0.5 + 100 * 0.375) * KIB


@given(st.binary(max_size=300), st.booleans())
def test_anything_is_read(text: bytes, proportional: bool) -> None:
    for read in (pages_of, rolled_up):
        found = read(mapping(4).encode() + text, proportional=proportional)
        assert 0 <= found.huge_bytes <= found.memory_bytes


def test_figures_and_the_rate_of_fallbacks(root: Path) -> None:
    meminfo = "MemTotal: 1000 kB\nAnonHugePages: 4 kB\nShmemHugePages: 8 kB\n"
    put(root, "proc/meminfo", meminfo)
    put(root, "proc/vmstat", "thp_fault_fallback 10\n")
    reader = HostReader()
    first = reader.read()
    assert (first.memory_bytes, first.thp_bytes) == (1000 << 10, 12 << 10)
    assert first.available_bytes is first.fallback_rate is None
    put(root, "proc/vmstat", "thp_fault_fallback 30\n")
    assert there(reader.read().fallback_rate) > 0


@pytest.mark.usefixtures("root")
def test_nothing_is_known() -> None:
    host = HostReader().read()
    assert host.memory_bytes is host.thp_bytes is host.thp_mode is host.fallback_rate is None
    assert host.pools == ()


@pytest.mark.parametrize(
    ("options", "init", "hides"),
    [(["rw,hidepid=2"], False, True), (["rw,hidepid=invisible,gid=7"], False, True),
     (["rw,hidepid=2"], True, False), (["rw,hidepid=1"], False, False),
     (["rw,hidepid=2", "rw"], False, False), (["rw", "rw,hidepid=4"], False, True),
     ([], False, False)],
)  # fmt: skip
def test_hidden_processes(root: Path, options: list[str], init: bool, hides: bool) -> None:
    lines = [f"22 1 0:20 / /proc rw,nosuid - proc proc {each}\n" for each in options]
    put(root, "proc/self/mountinfo", "20 1 0:9 / / rw - ext4 /dev/x rw\n" + "".join(lines))
    if init:
        put(root, "proc/1/stat", "1 (init) S\n")
    assert hides_processes() is hides
