# SPDX-License-Identifier: GPL-2.0-or-later
"""Which malloc does a program have, and which runtime with a heap of its own?

By what its files contain, not by the names of packages: a program may have its allocator linked
into it, as redis and many of Rust do, or have it preloaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tlbcost.allocators.elf_file import ElfFile, read_elf
from tlbcost.system import glibc

MallocName = Literal["glibc", "musl", "jemalloc", "tcmalloc", "mimalloc", "other"]
RuntimeName = Literal[
    "go", "java", "v8", "dotnet", "python", "interpreter",
    "postgres", "redis-server", "mongod", "mysqld",
]  # fmt: skip

# What takes malloc's place as a library, by the starts of their names.
_LIBRARIES: dict[str, MallocName] = {
    "libjemalloc": "jemalloc",
    "libtcmalloc": "tcmalloc",
    "libmimalloc": "mimalloc",
    "libhoard": "other",
    "libscudo": "other",
    "librpmalloc": "other",
    "libsnmalloc": "other",
    "libtbbmalloc_proxy": "other",
}
_RUNTIME_LIBRARIES: dict[str, RuntimeName] = {
    "libjvm.so": "java",
    "libcoreclr.so": "dotnet",
    "libmonosgen-2.0.so": "dotnet",
    "libnode.so": "v8",
    "libv8.so": "v8",
}
# By the executable's name, where its file says nothing of it.
_RUNTIME_NAMES: tuple[tuple[re.Pattern[str], RuntimeName], ...] = (
    (re.compile(r"java"), "java"),
    (re.compile(r"python[0-9.]*[a-z]?"), "python"),
    (re.compile(r"(perl|ruby|lua|php)[0-9.]*|luajit.*|Rscript|R|[gm]?awk|bash|dash|sh|beam.*"),
     "interpreter"),
    (re.compile(r"postgres(ql)?"), "postgres"),
    # Debian's redis-server is a link to the second.
    (re.compile(r"redis-server|redis-check-rdb|valkey-server|valkey-check-rdb"), "redis-server"),
    (re.compile(r"mongod"), "mongod"),
    (re.compile(r"mysqld|mariadbd"), "mysqld"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Malloc:
    """What serves malloc() in a program.

    `library`: the file that it is in; None: the executable. `variable`: the environment variable
    by which it can be asked for transparent huge pages; None: there is none, or it is not known.
    `asks`: it asks for transparent huge pages by itself.
    """

    name: MallocName
    library: str | None = None
    variable: str | None = None
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What is known of the allocators of a program; None: not known, or none of that kind.

    `malloc`: what serves malloc(). `runtime`: the runtime of a language, or which known server it
    is; None: it is compiled C, C++, Rust or the like. `secure`: it gains rights when it starts.
    `static`: without a dynamic linker. `movable`: linked so that libhugetlbfs can move its
    segments. `load_alignment`: of its segments, bytes.
    """

    path: str
    malloc: Malloc | None = None
    runtime: RuntimeName | None = None
    secure: bool = False
    static: bool = False
    movable: bool = False
    load_alignment: int | None = None

    @property
    def name(self) -> str:
        """The executable's own name."""
        return Path(self.path).name


def program_of(path: str, mapped: Iterable[str] = ()) -> Program:
    """What is known of the executable at `path`; `mapped`: the files that its process maps."""
    executable = read_elf(path)
    names = dict.fromkeys([*mapped, *executable.needed])
    known = [name for name in names if _of_interest(Path(name).name)]
    return recognise(executable, [read_elf(name) for name in known])


def recognise(executable: ElfFile, libraries: Sequence[ElfFile]) -> Program:
    """By the executable and by those of its libraries that allocate, or hold a runtime."""
    return Program(
        executable.path,
        _malloc(executable, libraries),
        _runtime(executable, libraries),
        executable.secure,
        executable.interpreter == "",
        any(name.startswith("libhugetlbfs") for name in executable.needed),
        executable.load_alignment,
    )


def _of_interest(name: str) -> bool:
    starts = (*_LIBRARIES, *_RUNTIME_LIBRARIES, "libc.so", "libc-2.", "ld-musl", "libc.musl")
    return name.startswith(starts)


def _runtime(executable: ElfFile, libraries: Sequence[ElfFile]) -> RuntimeName | None:
    if executable.go:
        return "go"
    for start, runtime in _RUNTIME_LIBRARIES.items():
        if any(library.name.startswith(start) for library in libraries):
            return runtime
    if "v8" in executable.texts:
        return "v8"
    matching = (name for pattern, name in _RUNTIME_NAMES if pattern.fullmatch(executable.name))
    return next(matching, None)


def _malloc(executable: ElfFile, libraries: Sequence[ElfFile]) -> Malloc | None:
    for name in ("jemalloc", "tcmalloc", "mimalloc"):
        if name in executable.texts:
            # What is linked into the executable comes before any library.
            return _replacement(name, executable, None)
    for library in libraries:
        found = next((m for start, m in _LIBRARIES.items() if library.name.startswith(start)), None)
        if found is not None:
            return _replacement(found, library, library.path)
    return _of_the_c_library(executable, libraries)


def _replacement(name: MallocName, file: ElfFile, library: str | None) -> Malloc:
    if name == "jemalloc" and {"jemalloc thp", "jemalloc metadata_thp"} <= file.texts:
        return Malloc(name, library, file.jemalloc_variable)
    if name == "mimalloc":
        asks = "mimalloc thp" in file.texts
        variable = None
        if not asks and "mimalloc allow large" in file.texts:
            variable = "MIMALLOC_ALLOW_LARGE_OS_PAGES"
        elif not asks and "mimalloc large" in file.texts:
            variable = "MIMALLOC_LARGE_OS_PAGES"
        return Malloc(name, library, variable, asks)
    return Malloc(name, library)


def _of_the_c_library(executable: ElfFile, libraries: Sequence[ElfFile]) -> Malloc | None:
    if executable.interpreter is None:
        return None
    if executable.interpreter == "":
        if "glibc" not in executable.texts:
            return None
        tunable = "glibc hugetlb" in executable.texts
        return Malloc("glibc", None, glibc.TUNABLES if tunable else None)
    names = [Path(executable.interpreter).name, *executable.needed, *(x.name for x in libraries)]
    if any(name.startswith(("ld-musl", "libc.musl")) for name in names):
        return Malloc("musl")
    if any(name.startswith(("libc.so.6", "libc-2.")) for name in names):
        return Malloc("glibc", "libc.so.6", glibc.TUNABLES)
    return None
