# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the pages that a program's memory is on seen, and why it stayed on base pages explained?

About this machine's kernel and C library.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.tree import TREE
from tlbcost.common.errors import TlbcostError
from tlbcost.measured import catalog
from tlbcost.measured.method import explain
from tlbcost.memory import peak_sampler, smaps
from tlbcost.memory.peak import MemoryPart, PeakMemory
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.run.launch import Launcher
from tlbcost.run.stdin import ProgramInput
from tlbcost.settings.change import Settings, system_settings
from tlbcost.system import machine
from tlbcost.system.machine import huge_page_bytes, thp_mode

pytestmark = [pytest.mark.long, pytest.mark.settings]

MIB = 1 << 20
SIZE = 96 * MIB
THP = "/sys/kernel/mm/transparent_hugepage"


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


def _run(folder: Path, *argv: str | Path, tunable: str | None = None) -> PeakMemory:
    sampler = _sampled(folder, *argv, tunable=tunable)
    backing = sampler.stop()
    assert backing is not None, sampler.why_not
    assert backing.resident_bytes >= 0.9 * SIZE
    return backing


def _sampled(folder: Path, *argv: str | Path, tunable: str | None = None) -> PeakSampler:
    """Of a program that has SIZE; for longer where the machine was too busy to see that."""
    environment = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    if tunable is not None:
        environment["GLIBC_TUNABLES"] = f"{machine.HUGETLB_TUNABLE}={tunable}"
    launcher = Launcher(folder, ProgramInput(), transparent=True)
    for hold_ms in ("600", "4000"):
        sampler = PeakSampler()
        outcome = launcher.execute(
            [str(word) for word in argv], discard=True,
            environment=environment | {"HOLD_MS": hold_ms}, started=sampler.start,
        )  # fmt: skip
        backing = sampler.stop()
        assert outcome.code == 0, outcome.last_words
        if backing is not None and backing.resident_bytes >= 0.9 * SIZE:
            break
    return sampler


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
    version = machine.glibc_version()
    if version is None or version < machine.FIRST_WITH_HUGETLB:
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
        chosen = catalog.named(method)
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
        words = explain(backing, catalog.named("glibc-hugetlb"), memory)
    assert 0 < backing.hugetlb_bytes < 0.5 * SIZE, "malloc falls back in silence"
    assert "pages of 2 MiB" in words
    assert "gets base pages in silence" in words


def test_pages_are_counted_in_the_children_too(tmp_path: Path, memory: Path) -> None:
    shell = f"{memory} malloc 1500 & {memory} mmap 1500 & wait"
    backing = _run(tmp_path, "sh", "-c", shell)
    assert backing.resident_bytes >= 1.8 * SIZE


def test_a_process_that_outlives_its_parent_is_followed(tmp_path: Path, memory: Path) -> None:
    # The shell in the middle ends while its child, which is seen by then, continues to grow.
    shell = f"sh -c '(sleep 2; exec {memory} malloc 1500) & sleep 1'; sleep 5"
    assert _run(tmp_path, "sh", "-c", shell).resident_bytes >= SIZE


def test_a_static_executable_cannot_be_given_another_malloc(tmp_path: Path) -> None:
    _needs_tunable()
    static = _compiled(tmp_path / "memory-static", "-static")
    backing = _run(tmp_path, static, "malloc")
    method = catalog.named(f"allocator={static}")
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
            words = explain(backing, catalog.named("glibc-thp"), privileged)
        finally:
            shutil.rmtree(folder)
    assert backing.huge_bytes < 0.1 * SIZE
    assert "gains rights when it starts (setuid)" in words


def test_huge_pages_that_the_kernel_could_not_give_are_known_from_its_counters() -> None:
    _needs_tunable()
    part = MemoryPart(smaps.UNNAMED, "anonymous", SIZE, 0, None, SIZE)
    backing = PeakMemory(SIZE, 0, 0, 0, 0, None, (part,), 1, 0, fallbacks=48)
    if thp_mode() == "never":
        pytest.skip("transparent huge pages are off")
    assert "memory is fragmented, and" in explain(backing, catalog.named("thp"))


def test_blocks_of_malloc_are_distinguished_from_memory_that_the_program_maps(
    tmp_path: Path, memory: Path
) -> None:
    _needs_tunable()
    for kind, least in (("malloc", SIZE), ("mmap", 0)):
        sampler = _sampled(tmp_path, memory, kind)
        largest = max((each for _, each in sampler.peak()), key=lambda each: each.resident_bytes)
        assert largest.malloc_block_bytes is not None
        assert least <= largest.malloc_block_bytes <= least + MIB


def test_what_was_not_seen_is_none() -> None:
    sampler = PeakSampler()
    assert sampler.stop() is None
    assert sampler.stop() is None
    assert "ended before" in sampler.why_not


def test_memory_that_may_not_be_looked_at_is_reported() -> None:
    _needs_tunable()
    part = MemoryPart("[heap]", "heap", SIZE, 0, None, 0)
    backing = PeakMemory(SIZE, 0, 0, 0, 0, None, (part,), 1, unreadable=2)
    words = explain(backing, catalog.named("glibc-hugetlb"))
    assert words.endswith("; the memory of 2 processes more may not be looked at")


@pytest.mark.parametrize(
    ("slow_looks", "slow_s", "multiplied"),
    # It is seen that memory has multiplied, or that it has grown and stands still.
    [(1, 0.1, peak_sampler._MULTIPLIED), (99, 0.04, 99.0)],
)
def test_slow_looks_do_not_miss_the_peak(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slow_looks: int,
    slow_s: float,
    multiplied: float,
) -> None:
    look, looks = PeakSampler._look, 0

    def slow(self: PeakSampler) -> object:
        nonlocal looks
        looks += 1
        if looks <= slow_looks:
            end = time.thread_time() + slow_s
            while time.thread_time() < end:
                pass
        return look(self)

    monkeypatch.setattr(PeakSampler, "_look", slow)
    monkeypatch.setattr(peak_sampler, "_MULTIPLIED", multiplied)
    program = f"import time; time.sleep(0.3); b = bytearray(b'1' * {SIZE}); time.sleep(0.7)"
    _run(tmp_path, sys.executable, "-c", program)
    assert looks >= 2
