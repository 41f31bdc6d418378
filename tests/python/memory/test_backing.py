# SPDX-License-Identifier: GPL-2.0-or-later
"""Is what a program's memory really lay on seen, and the reason told where it stayed as it was?"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.common.errors import TlbcostError
from tlbcost.memory import smaps
from tlbcost.memory.backing import Backing, BackingSampler, Uncovered
from tlbcost.run.launch import Launcher
from tlbcost.run.stdin import ProgramInput
from tlbcost.settings.change import Settings, system_settings
from tlbcost.system import glibc, huge_pages
from tlbcost.system.machine import huge_page_bytes, thp_mode
from tlbcost.trial import methods
from tlbcost.trial.traits import traits
from tlbcost.trial.uncovered import explain

TREE = Path(__file__).parents[3]
MIB = 1 << 20
SIZE = 96 * MIB
THP = "/sys/kernel/mm/transparent_hugepage"

SMAPS = """\
00400000-00500000 rw-p 00000000 fe:00 247026                     /opt/a program
Rss:                  64 kB
THPeligible:           0
00500000-06500000 rw-p 00000000 00:00 0
Rss:                1024 kB
Anonymous:          1024 kB
AnonHugePages:         0 kB
THPeligible:           1
07000000-07200000 rw-p 00000000 00:00 0                          [heap]
Rss:                2048 kB
AnonHugePages:      2048 kB
THPeligible:           1
7f0004000000-7f0004800000 rw-p 00000000 00:00 0
Rss:                8192 kB
THPeligible:           1
7f0004800000-7f0008000000 ---p 00000000 00:00 0
Rss:                   0 kB
7f0008000000-7f000c000000 rw-p 00000000 00:00 0
Rss:               65536 kB
7f1000000000-7f1000400000 rw-p 00000000 00:0f 99                 /anon_hugepage (deleted)
Rss:                   0 kB
KernelPageSize:     2048 kB
Private_Hugetlb:    4096 kB
7f2000000000-7f2000400000 rw-p 00000000 00:0f 99                 /mnt/huge/x (deleted)
Private_Hugetlb:    2048 kB
7f3000000000-7f3000400000 rw-s 00000000 00:0f 99                 /SYSV00000000 (deleted)
Shared_Hugetlb:     4096 kB
7f4000000000-7f4000400000 rw-s 00000000 00:01 99                 /dev/zero (deleted)
Rss:                4096 kB
ShmemPmdMapped:     2048 kB
7f5000000000-7f5000400000 r-xp 00000000 fe:00 99                 /usr/lib/libbig.so
Rss:                4096 kB
FilePmdMapped:      4096 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]
Rss:                  16 kB
"""


def test_kinds_and_sizes() -> None:
    found = smaps.parse(SMAPS, "/opt/a program")
    assert [(m.kind, m.name, m.resident_bytes >> 10, m.huge_bytes >> 10) for m in found] == [
        ("segment", "/opt/a program", 64, 0),
        ("segment", smaps.BSS, 1024, 0),
        ("heap", "[heap]", 2048, 2048),
        ("anonymous", smaps.ARENA, 8192, 0),
        ("anonymous", smaps.UNNAMED, 0, 0),
        ("anonymous", smaps.ARENA, 65536, 0),
        ("anonymous", "/anon_hugepage (deleted)", 4096, 4096),
        ("segment", "/mnt/huge/x (deleted)", 2048, 2048),
        ("shared", "/SYSV00000000 (deleted)", 4096, 4096),
        ("shared", "/dev/zero (deleted)", 4096, 2048),
        ("file", "/usr/lib/libbig.so", 4096, 4096),
        ("stack", "[stack]", 16, 0),
    ]
    assert found[0].eligible is False
    assert found[1].eligible is True
    assert found[5].eligible is None, "a kernel that does not tell is not one that refuses"


LINES = SMAPS.splitlines()


@given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=80))))
def test_any_lines_are_survived(lines: list[str]) -> None:
    for mapping in smaps.parse("\n".join(lines), "/opt/a program"):
        assert mapping.resident_bytes >= 0
        assert mapping.huge_bytes >= 0


@given(st.binary(max_size=2000))
def test_any_bytes_are_survived(data: bytes) -> None:
    smaps.parse(data.decode(errors="replace"))


def test_what_a_method_reaches() -> None:
    backing = Backing(
        100, 30, 0, 0, 0, {65536: 10}, (
            Uncovered("[bss]", "segment", 40, 0),
            Uncovered("[heap]", "heap", 50, 30),
            Uncovered("/lib", "file", 10, 0),
        ), 1,
    )  # fmt: skip
    assert backing.huge_bytes == 40
    assert backing.covered_fraction == pytest.approx(0.4)
    assert backing.reached_fraction("malloc") == pytest.approx(0.8)
    assert backing.reached_fraction("segments") == 0
    assert backing.reached_fraction("shared") is None, "there is none, and no share of it"


def test_counters_that_are_not_there_are_not_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert huge_pages.mthp_bytes() is None
    assert huge_pages.fallbacks() is None
    folder = tmp_path / "sys/kernel/mm/transparent_hugepage"
    (folder / "hugepages-64kB/stats").mkdir(parents=True)
    (folder / "hpage_pmd_size").write_text("2097152\n")
    assert huge_pages.mthp_bytes() is None
    (folder / "hugepages-64kB/stats/nr_anon").write_text("3\n")
    assert huge_pages.mthp_bytes() == {65536: 3 * 65536}
    assert huge_pages.grown({65536: 65536}, huge_pages.mthp_bytes()) == {65536: 2 * 65536}


# What follows is about this machine's kernel and C library.


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compiled(tmp_path_factory.mktemp("backing") / "memory")


def _compiled(path: Path, *options: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = TREE / "tests/backing/memory.c"
    command = [compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-pthread", *options]
    done = subprocess.run([*command, "-o", path, source], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"cannot build with {options}")
    return path


def _run(folder: Path, *argv: str | Path, tunable: str | None = None) -> Backing:
    environment = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    if tunable is not None:
        environment["GLIBC_TUNABLES"] = f"{glibc.HUGETLB}={tunable}"
    sampler = BackingSampler()
    launcher = Launcher(folder, ProgramInput(), transparent=True)
    outcome = launcher.execute(
        [str(word) for word in argv], discard=True, environment=environment, started=sampler.start
    )
    backing = sampler.stop()
    assert outcome.code == 0, outcome.last_words
    assert backing is not None, sampler.why_not
    assert backing.resident_bytes >= 0.9 * SIZE
    return backing


@contextlib.contextmanager
def _settings(mode: str | None, pool_pages: int = 0) -> Iterator[Settings]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    size = huge_page_bytes()
    if size is None or thp_mode() is None:
        pytest.skip("this kernel has no huge pages")
    try:
        with system_settings(lambda _: None) as settings:
            if mode is not None:
                settings.write(f"{THP}/enabled", mode)
            if pool_pages:
                settings.reserve(size, pool_pages)
            yield settings
    except TlbcostError as error:
        pytest.skip(f"this system's settings cannot be changed: {error}")


def _needs_tunable() -> None:
    version = glibc.glibc_version()
    if version is None or version < glibc.FIRST_WITH_HUGETLB:
        pytest.skip("needs glibc 2.35")
    if thp_mode() is None or huge_page_bytes() != 2 * MIB:
        pytest.skip("needs huge pages of 2 MiB")


@pytest.mark.parametrize(
    ("kind", "mode", "tunable", "method", "covered", "reason"),
    [
        ("malloc", "madvise", "1", "glibc-thp", True, ""),
        ("malloc", "always", None, "thp", True, ""),
        ("malloc", "never", "1", "glibc-thp", False, "transparent huge pages are off"),
        # Each step of the heap ends within a huge page, whose first touch is then a base page.
        ("steps", "always", None, "thp", False, "the heap (* MiB): it grew in steps smaller"),
        ("arena", "always", None, "thp", False, "malloc's arenas for threads (* MiB): it grew"),
        # Arenas do not ask for huge pages at all: their steps are smaller than one.
        ("arena", "madvise", "1", "glibc-thp", False, "malloc's arenas for threads (* MiB): it"),
        ("mmap", "madvise", "1", "glibc-thp", False, "the program maps it itself"),
        ("bss", "madvise", "1", "glibc-thp", False, "most is static arrays (bss) (* MiB)"),
        ("shared", "always", None, "thp", False, "most is shared memory /dev/zero"),
    ],
)
def test_transparent(
    tmp_path: Path,
    memory: Path,
    kind: str,
    mode: str,
    tunable: str | None,
    method: str,
    covered: bool,
    reason: str,
) -> None:
    _needs_tunable()
    with _settings(mode):
        backing = _run(tmp_path, memory, kind, tunable=tunable)
        chosen = methods.named(method)
        fraction = backing.reached_fraction(chosen.reach) or 0.0
        words = explain(backing, chosen, memory)
    assert (fraction >= 0.5) == covered, words
    if not covered:
        for part in reason.split("*"):
            assert part in words


@pytest.mark.parametrize("kind", ["malloc", "steps", "arena"])
def test_a_pool_holds_all_that_malloc_gives_out(tmp_path: Path, memory: Path, kind: str) -> None:
    _needs_tunable()
    with _settings(None, pool_pages=130):
        backing = _run(tmp_path, memory, kind, tunable="2")
    assert (backing.reached_fraction("malloc") or 0.0) >= 0.9
    assert backing.hugetlb_bytes >= 0.9 * SIZE


def test_a_pool_that_is_too_small(tmp_path: Path, memory: Path) -> None:
    _needs_tunable()
    with _settings(None, pool_pages=10):
        backing = _run(tmp_path, memory, "steps", tunable="2")
        words = explain(backing, methods.named("glibc-hugetlb"), memory)
    assert 0 < backing.hugetlb_bytes < 0.5 * SIZE, "malloc falls back in silence"
    assert "pages of 2 MiB" in words
    assert "gets base pages in silence" in words


def test_hugectl_heap_does_nothing_by_itself(tmp_path: Path, memory: Path) -> None:
    if shutil.which("hugectl") is None:
        pytest.skip("needs hugectl")
    _needs_tunable()
    with _settings("madvise", pool_pages=130):
        backing = _run(tmp_path, "hugectl", "--heap", memory, "malloc")
    assert backing.huge_bytes == 0


def test_pages_are_counted_in_the_children_too(tmp_path: Path, memory: Path) -> None:
    shell = f"{memory} malloc 1500 & {memory} mmap 1500 & wait"
    backing = _run(tmp_path, "sh", "-c", shell)
    assert backing.resident_bytes >= 1.8 * SIZE


def test_a_process_that_outlives_its_parent_is_followed(tmp_path: Path, memory: Path) -> None:
    # The shell in the middle ends while its child, which is seen by then, goes on to grow.
    shell = f"sh -c '(sleep 2; exec {memory} malloc 1500) & sleep 1'; sleep 5"
    assert _run(tmp_path, "sh", "-c", shell).resident_bytes >= SIZE


def test_a_static_executable_of_glibc_heeds_tunables(tmp_path: Path) -> None:
    _needs_tunable()
    static = _compiled(tmp_path / "memory-static", "-static")
    found = traits(str(static), ())
    assert found.static
    assert found.tunable
    with _settings("madvise"):
        backing = _run(tmp_path, static, "malloc", tunable="1")
    assert (backing.reached_fraction("malloc") or 0.0) >= 0.9


def test_a_static_executable_cannot_be_given_another_malloc(tmp_path: Path) -> None:
    _needs_tunable()
    static = _compiled(tmp_path / "memory-static", "-static")
    backing = _run(tmp_path, static, "malloc")
    method = methods.named(f"allocator={static}")
    assert "is a static executable" in explain(backing, method, static)


def test_a_program_that_gains_rights_drops_tunables(tmp_path: Path, memory: Path) -> None:
    _needs_tunable()
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    with _settings("madvise"):
        # pytest's own folder is closed to others.
        folder = Path("/tmp") / f"tlbcost-test-{os.getpid()}"
        folder.mkdir(mode=0o755)
        try:
            privileged = folder / "memory"
            shutil.copy(memory, privileged)
            privileged.chmod(0o4755)
            other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            backing = _run(tmp_path, *other, privileged, "malloc", tunable="1")
            words = explain(backing, methods.named("glibc-thp"), privileged)
        finally:
            shutil.rmtree(folder)
    assert backing.huge_bytes < 0.1 * SIZE
    assert "gains rights when it starts (setuid)" in words


def test_memory_that_cannot_be_had_in_huge_pages_is_told_from_the_counters() -> None:
    _needs_tunable()
    part = Uncovered(smaps.UNNAMED, "anonymous", SIZE, 0, None, SIZE)
    backing = Backing(SIZE, 0, 0, 0, 0, None, (part,), 1, 0, fallbacks=48)
    if thp_mode() == "never":
        pytest.skip("transparent huge pages are off")
    assert "memory is fragmented, and" in explain(backing, methods.named("thp"))


def test_unreadable_files_have_no_traits(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    for data in (b"", b"\x7fELF", b"#!/bin/sh\n", os.urandom(999)):
        odd.write_bytes(data)
        assert not traits(str(odd), ()).static
    assert not traits(str(tmp_path / "missing"), ()).secure
    assert platform.system() != "Linux" or not traits("/proc/self/exe", ()).go


def test_what_was_not_seen_is_none() -> None:
    sampler = BackingSampler()
    assert sampler.stop() is None
    assert sampler.stop() is None
    assert "ended before" in sampler.why_not


def test_memory_that_may_not_be_looked_at_is_told() -> None:
    _needs_tunable()
    part = Uncovered("[heap]", "heap", SIZE, 0, None, 0)
    backing = Backing(SIZE, 0, 0, 0, 0, None, (part,), 1, unreadable=2)
    words = explain(backing, methods.named("glibc-hugetlb"))
    assert words.endswith("; the memory of 2 processes more may not be looked at")
