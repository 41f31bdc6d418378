# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a program's allocator recognised: linked, preloaded, static, or a runtime's own? Which asks?

By recorded facts of programs that few machines have, and by the real files of those that this one
has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from builders.memory import backed
from builders.tree import TREE, there
from tlbcost.allocators.recognise import (
    ElfFile,
    Malloc,
    Owner,
    Program,
    asking,
    owner_of,
    program_of,
    read_elf,
    recognise,
)
from tlbcost.memory.eligibility import Backing, MemoryKind
from tlbcost.system import machine

LOADER = "/lib64/ld-linux-x86-64.so.2"
GLIBC = Malloc("glibc", "libc.so.6", "GLIBC_TUNABLES")
JEMALLOC = frozenset({"jemalloc", "jemalloc thp", "jemalloc metadata_thp"})
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")


def executable(name: str = "app", *texts: str, **changes: object) -> ElfFile:
    known: dict[str, object] = {"interpreter": LOADER, "needed": ("libc.so.6",)}
    return ElfFile(f"/opt/{name}", **{**known, "texts": frozenset(texts), **changes})  # type: ignore[arg-type]


def library(name: str, *texts: str, variable: str | None = None) -> ElfFile:
    return ElfFile(f"/usr/lib/{name}", "", ("libc.so.6",), frozenset(texts), variable)


def test_the_c_librarys_malloc() -> None:
    assert recognise(executable(), []).malloc == GLIBC
    # What is seen to be mapped will do, where the executable needs it by way of another library.
    assert recognise(executable(needed=("libfoo.so",)), [library("libc.so.6")]).malloc == GLIBC
    musl = executable(interpreter="/lib/ld-musl-x86_64.so.1", needed=("libc.so",))
    assert recognise(musl, []).malloc == Malloc("musl")
    assert recognise(executable(interpreter=None, needed=()), []).malloc is None


def test_static_executables_of_glibc_say_whether_they_have_the_tunable() -> None:
    static = executable("app", "glibc", "glibc hugetlb", interpreter="", needed=())
    assert recognise(static, []).malloc == Malloc("glibc", None, "GLIBC_TUNABLES")
    older = executable("app", "glibc", interpreter="", needed=())
    assert recognise(older, []).malloc == Malloc("glibc")
    # Of musl or another C library: it has no name in the file.
    assert recognise(executable(interpreter="", needed=()), []).malloc is None


def test_jemalloc_linked_into_redis_reads_a_variable_with_a_prefix() -> None:
    redis = executable("redis-server", *JEMALLOC, jemalloc_variable="JE_MALLOC_CONF")
    assert recognise(redis, []).malloc == Malloc("jemalloc", None, "JE_MALLOC_CONF")
    # It comes before one that is preloaded.
    preloaded = library("libtcmalloc_minimal.so.4", "tcmalloc")
    assert recognise(redis, [preloaded]).malloc == Malloc("jemalloc", None, "JE_MALLOC_CONF")


def test_jemalloc_before_5_1_has_no_such_option() -> None:
    old = library("libjemalloc.so.1", "jemalloc", "jemalloc thp", variable="MALLOC_CONF")
    assert recognise(executable(), [old]).malloc == Malloc("jemalloc", old.path)


@pytest.mark.parametrize(
    ("texts", "variable", "asks"),
    [(("mimalloc", "mimalloc large"), "MIMALLOC_LARGE_OS_PAGES", False),
     (("mimalloc", "mimalloc large", "mimalloc allow large"), "MIMALLOC_ALLOW_LARGE_OS_PAGES",
      False),
     (("mimalloc", "mimalloc large", "mimalloc allow large", "mimalloc thp"), None, True)],
)  # fmt: skip
def test_mimallocs_variable_changed_its_name(
    texts: tuple[str, ...], variable: str | None, asks: bool
) -> None:
    preloaded = library("libmimalloc.so.2", *texts)
    found = recognise(executable(), [preloaded]).malloc
    assert found == Malloc("mimalloc", preloaded.path, variable, asks)


@pytest.mark.parametrize(
    ("file", "libraries", "runtime"),
    [(executable("server", go=True), [], "go"), (executable("java"), [], "java"),
     (executable("tool"), ["libjvm.so"], "java"), (executable("node", "v8"), [], "v8"),
     (executable("deno"), ["libv8.so"], "v8"), (executable("app"), ["libcoreclr.so"], "dotnet"),
     (executable("python3.13t"), [], "python"), (executable("perl5.36"), [], "interpreter"),
     (executable("redis-check-rdb"), [], "redis-server"),
     (executable("pythonic"), ["libjvmci.so"], None)],
)  # fmt: skip
def test_runtimes(file: ElfFile, libraries: list[str], runtime: str | None) -> None:
    assert recognise(file, [library(name) for name in libraries]).runtime == runtime


BLOCK, MAPPED, ARENA = (
    backed(malloc_block_bytes=64 << 20),
    backed(malloc_block_bytes=0),
    backed(malloc_block_bytes=None, growing="arena"),
)


@pytest.mark.parametrize(
    ("kind", "program", "seen", "fraction", "owner"),
    [
        ("heap", Program("a", GLIBC), None, None, "glibc"),
        ("anonymous", Program("a", GLIBC), None, None, "glibc"),
        ("anonymous", Program("a", GLIBC), BLOCK, None, "glibc"),
        ("anonymous", Program("a", GLIBC), ARENA, None, "glibc"),
        ("anonymous", Program("a", GLIBC), MAPPED, None, "program"),
        # Calls say more than what one mapping begins with.
        ("anonymous", Program("a", GLIBC), BLOCK, 0.1, "program"),
        ("anonymous", Program("a", GLIBC), MAPPED, 0.9, "glibc"),
        # Typed arrays of node are malloc's, its objects V8's.
        ("anonymous", Program("node", GLIBC, "v8"), BLOCK, None, "glibc"),
        ("anonymous", Program("node", GLIBC, "v8"), MAPPED, None, "v8"),
        ("anonymous", Program("python3", GLIBC, "python"), MAPPED, 0.2, "python"),
        ("anonymous", Program("java", GLIBC, "java"), None, None, "java"),
        ("jit", Program("java", GLIBC, "java"), None, None, "java"),
        ("heap", Program("java", GLIBC, "java"), None, None, "glibc"),
        ("anonymous", Program("go", None, "go"), None, None, "go"),
        ("anonymous", Program("redis", Malloc("jemalloc")), MAPPED, 0.0, "jemalloc"),
        ("heap", Program("redis", Malloc("jemalloc")), None, None, "glibc"),
        ("heap", Program("a", Malloc("tcmalloc")), None, None, "tcmalloc"),
        ("anonymous", Program("a", None), None, None, None),
        ("tmpfs", Program("a", GLIBC), None, None, None),
    ],
)
def test_who_allocated_a_region(
    kind: MemoryKind,
    program: Program,
    seen: Backing | None,
    fraction: float | None,
    owner: Owner | None,
) -> None:
    assert owner_of(kind, program, seen, fraction) == owner


@pytest.mark.parametrize(
    ("malloc", "words"),
    [(None, None), (Malloc("glibc", "libc.so.6"), None),
     (Malloc("glibc", "libc.so.6", None, True), "GLIBC_TUNABLES=glibc.malloc.hugetlb=0 forbids"),
     (Malloc("mimalloc", None, None, True), "MIMALLOC_ALLOW_THP=0 forbids")],
)  # fmt: skip
def test_what_asks_by_itself_and_what_forbids_it(
    monkeypatch: pytest.MonkeyPatch, malloc: Malloc | None, words: str | None
) -> None:
    monkeypatch.setattr(
        "tlbcost.allocators.recognise.program_of", lambda path, _: Program(path, malloc)
    )
    found = asking("/opt/app", [])
    assert (found is None) == (words is None)
    assert (words or "") in (found or "")
    assert asking(None, []) is None


@pytest.mark.parametrize(
    ("architecture", "version", "asks"),
    [("aarch64", (2, 43), True), ("aarch64", (2, 42), False), ("x86_64", (2, 43), False),
     ("aarch64", None, False)],
)  # fmt: skip
def test_which_glibc_asks_by_itself(
    monkeypatch: pytest.MonkeyPatch, architecture: str, version: tuple[int, int] | None, asks: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: architecture)
    monkeypatch.setattr(machine, "glibc_version", lambda: version)
    assert machine.glibc_asks() == asks


# Real files.


def compiled(path: Path, compiler: str, *options: str) -> str:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    source = TREE / "tests/backing/memory.c"
    command = [compiler, "-D_GNU_SOURCE", "-O1", "-pthread", "-o", path, source, *options]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip(f"{compiler} cannot build with {options}")
    return str(path)


def test_programs_of_the_c_libraries(tmp_path: Path) -> None:
    found = program_of(compiled(tmp_path / "dynamic", "cc"))
    assert there(found.malloc).name in ("glibc", "musl")
    assert found.runtime is None
    assert not found.static
    assert not found.secure
    assert not found.movable


def test_a_program_of_musl(tmp_path: Path) -> None:
    assert program_of(compiled(tmp_path / "musl", "musl-gcc")).malloc == Malloc("musl")
    static = program_of(compiled(tmp_path / "static", "musl-gcc", "-static"))
    assert static.static
    assert static.malloc is None


def test_jemalloc_linked_statically(tmp_path: Path) -> None:
    archive = LIBRARIES / "libjemalloc.a"
    if not archive.exists():
        pytest.skip("needs libjemalloc.a")
    path = compiled(tmp_path / "program", "cc", str(archive), "-lm", "-ldl", "-lstdc++")
    assert program_of(path).malloc == Malloc("jemalloc", None, "MALLOC_CONF")
    subprocess.run(["strip", path], check=True)
    assert program_of(path).malloc == Malloc("jemalloc", None, "MALLOC_CONF")


@pytest.mark.parametrize(
    ("name", "malloc", "variable"),
    [
        ("libjemalloc.so.2", "jemalloc", "MALLOC_CONF"),
        ("libtcmalloc_minimal.so.4", "tcmalloc", None),
        ("libmimalloc.so.2", "mimalloc", "MIMALLOC_"),
    ],
)
def test_allocators_that_are_preloaded(name: str, malloc: str, variable: str | None) -> None:
    path = LIBRARIES / name
    if not path.exists():
        pytest.skip(f"needs {name}")
    found = there(program_of("/bin/sh", [str(path)]).malloc)
    assert (found.name, found.library) == (malloc, str(path))
    assert (
        found.variable is None if variable is None else (found.variable or "").startswith(variable)
    )


@pytest.mark.parametrize(("name", "runtime"), [("node", "v8"), ("java", "java")])
def test_installed_runtimes(name: str, runtime: str) -> None:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}")
    assert program_of(os.path.realpath(path)).runtime == runtime


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"#!/bin/sh\n")
    assert read_elf(str(path)).interpreter is None
    shutil.copy("/bin/sh", path)
    assert read_elf(str(path)).interpreter
