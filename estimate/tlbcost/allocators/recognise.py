# SPDX-License-Identifier: GPL-2.0-or-later
"""The malloc of a program, its runtime with a heap of its own, and who allocated a region.

By what its files contain, not by the names of packages: a program may have its allocator linked
into it, as redis and many of Rust do, or have it preloaded.
"""

from __future__ import annotations

import functools
import mmap
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tlbcost.memory.eligibility import Backing, MemoryKind
from tlbcost.symbols.elf import damage_errors
from tlbcost.system import machine

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile


# Sections that Go's linker writes.
_GO_SECTIONS = (".go.buildinfo", ".note.go.buildid")
# Texts that a linked allocator or runtime leaves in the file, stripped or not.
TEXTS = {
    # The names of its statistics: jemalloc has had THP modes since 5.1, the first with both.
    "jemalloc": b"<jemalloc>",
    "jemalloc thp": b"\0opt.thp\0",
    "jemalloc metadata_thp": b"\0opt.metadata_thp\0",
    "tcmalloc": b"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
    "mimalloc": b"mimalloc: ",
    "mimalloc large": b"\0large_os_pages\0",
    "mimalloc allow large": b"\0allow_large_os_pages\0",
    # Since version 3 mimalloc asks by itself, which this option can forbid.
    "mimalloc thp": b"\0allow_thp\0",
    "glibc": b"glibc.malloc.",
    "glibc hugetlb": machine.HUGETLB_TUNABLE.encode(),
    # An option of V8 that no other program has reason to name.
    "v8": b"semi_space_growth_factor",
}
# jemalloc's variable has the prefix that its functions were built with: JE_MALLOC_CONF in redis.
_JEMALLOC_VARIABLE = re.compile(rb"\0([A-Z0-9_]*MALLOC_CONF)\0")


@dataclass(frozen=True, slots=True)
class ElfFile:
    """One executable or library. All is empty, and `interpreter` None, if it cannot be read.

    `interpreter`: its dynamic linker; '': none. `needed`: the names of libraries. `texts`: which of
    TEXTS it contains. `jemalloc_variable`: the environment variable that its jemalloc reads.
    `load_alignment`: the least alignment of its segments, bytes. `secure`: it gains rights
    when it starts, so that the C library drops requests in the environment.
    """

    path: str
    interpreter: str | None = None
    needed: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()
    jemalloc_variable: str | None = None
    go: bool = False
    load_alignment: int | None = None
    secure: bool = False

    @property
    def name(self) -> str:
        return Path(self.path).name


def read_elf(path: str) -> ElfFile:
    """Read the file; a file is read again only if it has changed."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return ElfFile(path)
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _read(path: str, _changed_ns: int, size: int) -> ElfFile:
    from elftools.elf.elffile import ELFFile

    secure = _is_secure(Path(path))
    try:
        with Path(path).open("rb") as file:
            if not size or file.read(4) != b"\x7fELF":
                return ElfFile(path, secure=secure)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                texts = frozenset(name for name, text in TEXTS.items() if content.find(text) >= 0)
                variable = None
                if "jemalloc" in texts:
                    # A prefixed name stands by itself; the plain one may be the end of a longer
                    # text.
                    found = _JEMALLOC_VARIABLE.search(content)
                    variable = found[1].decode() if found else "MALLOC_CONF"
            return _headers(ELFFile(file), path, texts, variable, secure=secure)
    except OSError:
        return ElfFile(path, secure=secure)
    except damage_errors():
        return ElfFile(path, secure=secure)


def _headers(
    elf: ELFFile, path: str, texts: frozenset[str], variable: str | None, *, secure: bool
) -> ElfFile:
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.segments import InterpSegment

    interpreter, needed, alignments = "", [], []
    for part in elf.iter_segments():
        if isinstance(part, InterpSegment):
            interpreter = str(part.get_interp_name())
        elif isinstance(part, DynamicSegment):
            needed += [
                str(getattr(tag, "needed", ""))
                for tag in part.iter_tags()
                if tag["d_tag"] == "DT_NEEDED"
            ]
        elif part["p_type"] == "PT_LOAD":
            alignments.append(int(part["p_align"]))
    return ElfFile(
        path,
        interpreter,
        tuple(needed),
        texts,
        variable,
        any(elf.get_section_by_name(name) is not None for name in _GO_SECTIONS),
        min(alignments, default=None),
        secure,
    )


def _is_secure(path: Path) -> bool:
    try:
        if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            return True
        return "security.capability" in os.listxattr(path)
    except OSError:
        return False


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
        return Path(self.path).name


def program_of(path: str, mapped: Iterable[str] = ()) -> Program:
    """What is known of the executable at `path`; `mapped`: the files that its process maps."""
    executable = read_elf(path)
    names = dict.fromkeys([*mapped, *executable.needed])
    starts = (*_LIBRARIES, *_RUNTIME_LIBRARIES, "libc.so", "libc-2.", "ld-musl", "libc.musl")
    known = [name for name in names if Path(name).name.startswith(starts)]
    return recognise(executable, [read_elf(name) for name in known])


def recognise(executable: ElfFile, libraries: Sequence[ElfFile]) -> Program:
    return Program(
        executable.path,
        _malloc(executable, libraries),
        _runtime(executable, libraries),
        executable.secure,
        executable.interpreter == "",
        any(name.startswith("libhugetlbfs") for name in executable.needed),
        executable.load_alignment,
    )


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


_FORBIDDEN_BY = {
    "glibc": f"{machine.TUNABLES}={machine.HUGETLB_TUNABLE}=0",
    "mimalloc": "MIMALLOC_ALLOW_THP=0",
}


def asking(path: str | None, mapped: Iterable[str]) -> str | None:
    """The malloc that asks for transparent huge pages by itself, and what forbids it."""
    malloc = None if path is None else program_of(path, mapped).malloc
    if malloc is None or not malloc.asks:
        return None
    return f"{malloc.name} asks for huge pages by itself ({_FORBIDDEN_BY[malloc.name]} forbids it)"


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
        return Malloc("glibc", None, machine.TUNABLES if tunable else None)
    names = [Path(executable.interpreter).name, *executable.needed, *(x.name for x in libraries)]
    if any(name.startswith(("ld-musl", "libc.musl")) for name in names):
        return Malloc("musl")
    if any(name.startswith(("libc.so.6", "libc-2.")) for name in names):
        return Malloc("glibc", "libc.so.6", machine.TUNABLES, machine.glibc_asks())
    return None


Owner = Literal[
    "glibc", "musl", "jemalloc", "tcmalloc", "mimalloc", "other",
    "go", "java", "v8", "dotnet", "python", "program",
]  # fmt: skip

# These have no part in the heap that brk grows: next to them it is the C library's.
_WITHOUT_BRK = ("jemalloc", "mimalloc")
# These map the heap of their objects themselves, not by malloc.
_OWN_HEAPS: dict[str, Owner] = {
    "go": "go", "java": "java", "v8": "v8", "dotnet": "dotnet", "python": "python",
}  # fmt: skip
_MOST = 0.5

_WORDS: dict[Owner, str] = {
    "glibc": "glibc's malloc",
    "musl": "musl's malloc",
    "jemalloc": "jemalloc",
    "tcmalloc": "tcmalloc",
    "mimalloc": "mimalloc",
    "other": "another malloc",
    "go": "Go's runtime",
    "java": "the Java VM",
    "v8": "V8",
    "dotnet": "the .NET runtime",
    "python": "Python",
    "program": "the program itself (mmap)",
}


def words_of(owner: Owner) -> str:
    return _WORDS[owner]


def own_heap_of(program: Program) -> Owner | None:
    """The runtime that maps a heap of its own in this program; None: there is none."""
    return _OWN_HEAPS.get(program.runtime or "")


def owner_of(
    kind: MemoryKind, program: Program, backed: Backing | None, malloc_fraction: float | None
) -> Owner | None:
    """Who allocated anonymous memory of this kind; None: it is not known, or of another kind.

    `malloc_fraction`: the share of it, by page walks, that calls of malloc mapped; None: calls
    were not seen. Without that, what the kernel showed of it decides, where glibc's malloc
    goes, which leaves its mark at the start of each block that it maps.
    """
    if kind not in ("heap", "anonymous", "jit"):
        return None
    malloc = program.malloc.name if program.malloc is not None else None
    runtime = own_heap_of(program)
    if kind == "heap":
        return "glibc" if malloc in _WITHOUT_BRK and not program.static else malloc
    if kind == "jit":
        return runtime
    if malloc not in ("glibc", None):
        # Their memory is not distinguished from what the program maps.
        return runtime or malloc
    mapped_by_malloc = _by_malloc(backed, malloc_fraction)
    if mapped_by_malloc is None:
        return runtime or malloc
    return malloc if mapped_by_malloc else runtime or "program"


def _by_malloc(backed: Backing | None, malloc_fraction: float | None) -> bool | None:
    if malloc_fraction is not None:
        return malloc_fraction >= _MOST
    if backed is None:
        return None
    if backed.growing is not None:
        return True
    return None if backed.malloc_block_bytes is None else backed.malloc_block_bytes > 0
