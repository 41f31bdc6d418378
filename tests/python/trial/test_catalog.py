# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from builders.tree import fails, put
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.measured.catalog import auto, named
from tlbcost.measured.method import base_environment
from tlbcost.run.outcome import Run
from tlbcost.system import hints, machine
from tlbcost.system.huge_pages import pool_pages
from tlbcost.system.machine import POOLS, THP
from tlbcost.thp import program as thp_program

MIB = 1 << 20
RUN = Run(10**9, 10**9, 0, 1000, 0, 256 * MIB)


class FakeSettings:
    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def write(self, path: str, text: str) -> None:
        self.asked.append(("write", path, text))

    def reserve(self, page_size_bytes: int, pages: int) -> int:
        self.asked.append(("reserve", page_size_bytes, pages))
        return pages

    def mount_hugetlbfs(self, page_size_bytes: int) -> Path:
        self.asked.append(("mount", page_size_bytes))
        return Path("/mnt")


class System:
    """A made-up machine: its THP mode, its pool, its C library."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._patch = monkeypatch
        self.file("/proc/meminfo", "Hugepagesize:    2048 kB\n")
        self.thp("madvise")
        self.file(f"{THP}/hpage_pmd_size", str(2 * MIB))
        self.pool(2 * MIB, free=0)
        self.glibc((2, 36))
        monkeypatch.setattr(thp_program, "is_here", lambda: True)

    def file(self, path: str, text: str) -> None:
        put(self._root, path, f"{text}\n")

    def thp(self, mode: str) -> None:
        modes = " ".join(f"[{m}]" if m == mode else m for m in ("always", "madvise", "never"))
        self.file(f"{THP}/enabled", modes)

    def pool(self, size: int, *, free: int, reserved: int = 0) -> None:
        folder = f"{POOLS}/hugepages-{size >> 10}kB"
        self.file(f"{folder}/free_hugepages", str(free))
        self.file(f"{folder}/resv_hugepages", str(reserved))

    def glibc(self, version: tuple[int, int] | None) -> None:
        self._patch.setattr(machine, "glibc_version", lambda: version)

    def user(self, *, root: bool) -> None:
        self._patch.setattr(hints, "is_root", lambda: root)


@pytest.fixture(autouse=True)
def system(root: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    return System(root, monkeypatch)


def refused(name: str) -> TlbcostError:
    with pytest.raises(TlbcostError) as caught:
        named(name)
    return caught.value


def test_malloc_is_asked_by_its_tunable(system: System) -> None:
    assert named("glibc-thp").environment == {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    system.pool(1 << 30, free=0)
    for name, value, size in (
        ("glibc-hugetlb", "2", 2 * MIB),
        ("glibc-hugetlb=2", "2", 2 * MIB),
        ("glibc-hugetlb=2M", str(2 * MIB), 2 * MIB),
        ("glibc-hugetlb=1GiB", str(1 << 30), 1 << 30),
        ("hugetlb-1g", str(1 << 30), 1 << 30),
    ):
        found = named(name)
        assert found.environment == {"GLIBC_TUNABLES": f"glibc.malloc.hugetlb={value}"}
        assert (found.name, found.pool_bytes, found.page_bytes) == (name, size, size)
        assert not found.transparent


@pytest.mark.parametrize(
    "name", ["", "glibc", "glibc-thp=2", "mthp-", "mthp-3k", "mthp-64kk", "allocator=",
             "allocator=/no/such.so", "glibc-hugetlb=-2M", "glibc-hugetlb=3M", "hugectl --shn"]
)  # fmt: skip
def test_what_is_no_method_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/hugectl")
    assert refused(name).exit_code == USAGE


def test_what_this_system_lacks_is_reported(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    for name in ("glibc-hugetlb=512M", "hugetlb-1g", "mthp-64k", "hugectl"):
        assert refused(name).exit_code == CANNOT_MEASURE
    system.glibc((2, 31))
    assert "glibc 2.31" in str(refused("glibc-thp"))
    system.glibc(None)
    assert "not glibc" in str(refused("glibc-hugetlb"))


def test_hugectl_heap_gets_the_tunable_where_its_hook_is_gone(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/hugectl")
    heap = named("hugectl --heap")
    assert heap.prefix == ("hugectl", "--heap")
    assert heap.environment == {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}
    assert "GLIBC_TUNABLES=glibc.malloc.hugetlb=2 was set" in heap.notes[0]
    assert named("hugectl").prefix == ("hugectl", "--heap")
    assert named("hugectl:--heap=2M").environment == {
        "GLIBC_TUNABLES": f"glibc.malloc.hugetlb={2 * MIB}"
    }
    system.glibc((2, 31))
    assert named("hugectl --heap").environment == {}


def test_hugectl_reaches_what_its_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/hugectl")
    shared = named("hugectl:--shm")
    assert (shared.reach, shared.mount, shared.environment) == ("shared", False, {})
    segments = named("hugectl --bss --data")
    assert (segments.reach, segments.mount) == ("segments", True)
    assert named("hugectl --heap --bss").reach == "all"


def test_a_pool_is_reserved_for_the_peak_and_a_spare() -> None:
    settings = FakeSettings()
    named("glibc-hugetlb").prepare(settings, RUN)  # type: ignore[arg-type]
    assert settings.asked == [("reserve", 2 * MIB, 128 + 16)]
    assert pool_pages(RUN.max_rss_bytes, 1 << 30) == 2
    assert pool_pages(1 << 30, 2 * MIB) == 512 + 64


def test_without_root_a_pool_must_have_the_pages(system: System) -> None:
    system.user(root=False)
    system.pool(2 * MIB, free=150, reserved=10)
    with pytest.raises(TlbcostError, match="144 free huge pages of 2 MiB, and there are 140") as e:
        named("glibc-hugetlb").prepare(None, RUN)
    assert e.value.exit_code == CANNOT_MEASURE
    assert "tlbcost pool reserve --page-size 2M 144" in (e.value.hint or "")
    system.pool(2 * MIB, free=154, reserved=10)
    named("glibc-hugetlb").prepare(None, RUN)


def test_settings_that_are_so_already_need_no_root(system: System) -> None:
    system.user(root=False)
    method = named("thp")
    assert method.needs_root
    with fails(r"thp needs always in .*/enabled", CANNOT_MEASURE):
        method.check()
    settings = FakeSettings()
    method.prepare(settings, RUN)  # type: ignore[arg-type]
    assert [asked[0] for asked in settings.asked] == ["write"]
    system.thp("always")
    named("thp").check()
    assert not named("thp").needs_root


def test_transparent_pages_that_are_off_are_allowed_by_root_alone(system: System) -> None:
    system.thp("never")
    settings = FakeSettings()
    named("glibc-thp").prepare(settings, RUN)  # type: ignore[arg-type]
    assert settings.asked == [("write", f"{THP}/enabled", "madvise")]
    system.user(root=False)
    with pytest.raises(TlbcostError, match="which root alone can write"):
        named("glibc-thp").check()


def test_multi_size_pages_alone(system: System) -> None:
    path = f"{THP}/hugepages-64kB/enabled"
    system.file(path, "always inherit madvise [never]")
    system.thp("always")
    found = named("mthp-64k")
    assert found.settings == ((f"{THP}/enabled", "madvise"), (path, "always"))
    assert found.page_bytes == 64 << 10


def test_what_traces_programs_names_what_works_on_other_cpus(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.thp("madvise")
    monkeypatch.setattr(thp_program, "is_here", lambda: False)
    with fails(r"cannot try run-thp.*on x86-64 only", CANNOT_MEASURE, "--with glibc-thp"):
        named("run-thp")


def test_auto_takes_what_reaches_most_without_root(system: System) -> None:
    assert auto(RUN)[0].name == "glibc-thp"
    assert auto(RUN, heeds_tunables=False)[0].name == "run-thp"
    system.pool(2 * MIB, free=144)
    found, why = auto(RUN)
    assert (found.name, "144 huge pages of 2 MiB are free" in why) == ("glibc-hugetlb", True)
    system.pool(2 * MIB, free=143)
    system.thp("always")
    assert auto(RUN)[0].name == "thp"
    system.thp("never")
    with fails("no method works without root", CANNOT_MEASURE):
        auto(RUN)


def test_a_switch_of_the_environment_is_a_method(system: System) -> None:
    found = named("env:MALLOC_CONF=thp:always B='x y'")
    assert found.environment == {"MALLOC_CONF": "thp:always", "B": "x y"}
    assert found.transparent
    assert found.settings == ((f"{THP}/enabled", "madvise"),)
    merged = found.environment_of({"MALLOC_CONF": "narenas:1", "B": "z", "C": "1"})
    assert merged == {"MALLOC_CONF": "narenas:1,thp:always", "B": "x y", "C": "1"}
    for text in ("env:", "env:MALLOC_CONF", "env:=1", "env:A=1 B"):
        assert refused(text).exit_code == USAGE
    system.thp("always")
    assert named("env:A=1").settings == ()


def test_lists_in_the_environment_keep_what_they_hold() -> None:
    java = named("env:JAVA_TOOL_OPTIONS=-XX:+UseTransparentHugePages")
    assert java.environment_of({"JAVA_TOOL_OPTIONS": "-Xmx1g"}) == {
        "JAVA_TOOL_OPTIONS": "-Xmx1g -XX:+UseTransparentHugePages"
    }
    tunables = named("glibc-thp").environment_of({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"})
    assert tunables["GLIBC_TUNABLES"] == "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1"


def test_base_runs_ask_for_no_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=2:glibc.malloc.arena_max=1")
    monkeypatch.setenv("HUGETLB_MORECORE", "yes")
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libhugetlbfs.so:/usr/lib/libother.so")
    environment, notes = base_environment()
    assert environment["GLIBC_TUNABLES"] == "glibc.malloc.arena_max=1"
    assert "HUGETLB_MORECORE" not in environment
    assert environment["LD_PRELOAD"] == "/usr/lib/libother.so"
    assert len(notes) == 3


def test_huge_runs_keep_other_tunables_and_libraries(tmp_path: Path) -> None:
    tunables = "glibc.malloc.hugetlb=0:glibc.malloc.arena_max=1"
    base = {"GLIBC_TUNABLES": tunables, "LD_PRELOAD": "/a.so", "HOME": "/h"}
    made = named("glibc-thp").environment_of(base)
    value = machine.tunable(made["GLIBC_TUNABLES"], machine.HUGETLB_TUNABLE)
    assert (value, machine.tunable(made["GLIBC_TUNABLES"], "glibc.malloc.arena_max")) == ("1", "1")
    library = tmp_path / "libmalloc.so"
    library.touch()
    made = named(f"allocator={library}").environment_of(base)
    assert made["LD_PRELOAD"].split() == [str(library), "/a.so"]
    assert made["HOME"] == "/h"
