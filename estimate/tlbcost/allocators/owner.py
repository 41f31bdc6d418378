# SPDX-License-Identifier: GPL-2.0-or-later
"""Who allocated one memory region: the program's malloc, its runtime, or the program itself?"""

from __future__ import annotations

from typing import Literal

from tlbcost.allocators.recognise import Program
from tlbcost.memory.kinds import Backing, MemoryKind

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
