# SPDX-License-Identifier: GPL-2.0-or-later
"""Are settings put back, and only ours? On made-up machines; pool.bats asks the kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders.tree import fails, put
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.settings import journal
from tlbcost.settings.change import Settings, system_settings
from tlbcost.system import huge_pages

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
MIB_2 = 2 << 20
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
DEAD = journal.Owner(2**22 + 1, 1, "tlbcost trial")


@pytest.fixture(autouse=True)
def _settings(root: Path) -> None:
    put(root, "/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n")
    put(root, THP, "madvise")
    pool(root, "/sys/kernel/mm/hugepages", 5)


def get(root: Path, path: str) -> str:
    return (root / path[1:]).read_text(encoding="utf-8").strip()


def pool(root: Path, folder: str, pages: int, surplus: int = 0) -> str:
    put(root, f"{folder}/hugepages-2048kB/nr_hugepages", str(pages))
    put(root, f"{folder}/hugepages-2048kB/surplus_hugepages", str(surplus))
    return f"{folder}/hugepages-2048kB/nr_hugepages"


def test_put_back_in_reverse_after_an_exception(root: Path) -> None:
    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError), system_settings() as settings:  # noqa: PT012
        settings.write(THP, "always")
        settings.write(THP, "never")
        assert settings.reserve(MIB_2, 3) == 3
        assert get(root, POOL) == "8"
        assert [each.after for each in journal.read_journal()] == ["always", "never", "8"]
        fail()
    assert get(root, THP) == "madvise"
    assert get(root, POOL) == "5"
    assert journal.read_journal() == []


def test_what_is_kept_stays_and_what_changes_later_is_put_back(root: Path) -> None:
    with system_settings() as settings:
        assert settings.reserve(MIB_2, 3) == 3
        settings.keep()
        settings.write(THP, "always")
    assert get(root, THP) == "madvise"
    assert get(root, POOL) == "8"
    assert [each.kept for each in journal.read_journal()] == [True]


def test_memory_nodes_get_even_shares_and_each_its_own_back(root: Path) -> None:
    nodes = [pool(root, f"/sys/devices/system/node/node{n}/hugepages", n) for n in range(3)]
    with system_settings() as settings:
        settings.reserve(MIB_2, 7)
        assert [get(root, node) for node in nodes] == ["3", "3", "4"]
    assert [get(root, node) for node in nodes] == ["0", "1", "2"]


def test_what_is_changed_temporarily_is_put_back_before_the_rest(root: Path) -> None:
    node = pool(root, "/sys/kernel/mm/hugepages", 1)
    with system_settings() as settings:
        settings.reserve(MIB_2, 4)
        with pytest.raises(ZeroDivisionError), settings.temporarily():  # noqa: PT012
            settings.reserve(MIB_2, 2)
            settings.write(THP, "never")
            assert (get(root, node), get(root, THP)) == ("7", "never")
            raise ZeroDivisionError
        assert (get(root, node), get(root, THP)) == ("5", "madvise")
        assert [change.after for change in journal.read_journal()] == ["5"]
    assert get(root, node) == "1"


@pytest.mark.parametrize(("least", "got"), [(2, 3), (3, 3), (4, None), (None, None)])
def test_fewer_pages_than_asked_for(
    root: Path, monkeypatch: pytest.MonkeyPatch, least: int | None, got: int | None
) -> None:
    node = pool(root, "/sys/kernel/mm/hugepages", 1)
    put(root, "/proc/sys/vm/compact_memory", "")
    write = Settings._put

    def in_pieces(settings: Settings, path: str, text: str) -> None:
        write(settings, path, str(min(int(text), 4)))

    monkeypatch.setattr(Settings, "_put", in_pieces)
    with system_settings() as settings:
        if got is None:
            with fails("there were only 3", 4):
                settings.reserve(MIB_2, 5, least)
            assert get(root, node) == "1"
        else:
            assert settings.reserve(MIB_2, 5, least) == got
            assert get(root, node) == "4"
    assert get(root, node) == "1"


def test_a_change_killed_half_way_is_undone(root: Path) -> None:
    (root / "run/tlbcost").mkdir(parents=True)
    journal.write_journal([journal.Change("write", POOL, "2", "9", DEAD)])
    with system_settings():
        assert get(root, POOL) == "2"


def test_a_journal_of_another_boot_is_void(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "run/tlbcost").mkdir(parents=True)
    with monkeypatch.context() as before:
        before.setattr(journal, "_boot_id", lambda: "another")
        journal.write_journal([journal.Change("write", THP, "always", "madvise", DEAD, done=True)])
        assert len(journal.read_journal()) == 1
    with system_settings() as settings:
        assert not settings.found
    assert get(root, THP) == "madvise"


def test_several_may_measure_where_nobody_changes(root: Path) -> None:
    with journal.undisturbed(print, 0):
        assert not (root / "run/tlbcost").exists()
    with system_settings():
        pass
    with (
        journal.undisturbed(print, 0),
        journal.undisturbed(print, 0),
        pytest.raises(TlbcostError, match="is changing"),
        system_settings(lambda _: None, 0),
    ):
        pass
    with system_settings(lambda _: None, 0):
        pass


def test_the_lock_is_waited_for_and_then_refused(root: Path) -> None:
    announced: list[str] = []
    child = os.fork()
    if child == 0:
        with journal.lock(announced.append, 1):
            (root / "locked").touch()
            os.read(os.open(make_fifo(root), os.O_RDONLY), 1)
        os._exit(0)
    while not (root / "locked").exists() or not (root / "fifo").exists():
        pass
    try:
        with (
            pytest.raises(TlbcostError, match=f"process {child} .* is changing") as caught,
            system_settings(announced.append, 0.2),
        ):
            pass
        assert caught.value.exit_code == CANNOT_MEASURE
        # Who only measures waits as well.
        with (
            pytest.raises(TlbcostError, match="cannot measure: process") as caught,
            journal.undisturbed(lambda _: None, 0.2),
        ):
            pass
        assert caught.value.exit_code == CANNOT_MEASURE
        assert len(announced) == 1
    finally:
        (root / "fifo").write_text("x")
        os.waitpid(child, 0)


def make_fifo(root: Path) -> Path:
    os.mkfifo(root / "fifo")
    return root / "fifo"


def test_no_more_than_the_cgroup_and_the_machine_can_spare(root: Path) -> None:
    with system_settings() as settings:
        with pytest.raises(TlbcostError, match="this machine can spare 1843"):
            settings.reserve(MIB_2, 2000)
        put(root, "/proc/self/cgroup", "0::/a/b\n")
        put(root, "/proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup2 cgroup2 rw\n")
        put(root, "/cg/a/b/hugetlb.2MB.max", "max\n")
        put(root, "/cg/a/hugetlb.2MB.max", str(20 * MIB_2))
        put(root, "/cg/a/hugetlb.2MB.current", str(5 * MIB_2))
        with pytest.raises(TlbcostError, match="limit of this cgroup can spare 15"):
            settings.reserve(MIB_2, 16)
        assert settings.reserve(MIB_2, 15) == 15


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("2M", MIB_2), ("1GiB", 1 << 30), ("64kb", 65536), ("2", None), ("M", None), ("-1M", None)],
)
def test_sizes(text: str, n_bytes: int | None) -> None:
    assert huge_pages.parse_bytes(text) == n_bytes
