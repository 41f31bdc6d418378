# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kinds of memory does a program have, and on which pages is it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from tlbcost.common.document import doc

# heap: grown by brk. anonymous: private mmap, malloc's large blocks and arenas among them. segment:
# code, data and bss of the executable. file: a mapped file on a file system with storage. tmpfs,
# memfd, sysv: shared memory by the way it was made; shared: MAP_SHARED without a name. jit:
# anonymous memory that code runs from.
MemoryKind = Literal[
    "heap", "anonymous", "stack", "segment", "file", "tmpfs", "memfd", "sysv", "shared",
    "hugetlbfs", "jit", "unknown",
]  # fmt: skip

Growing = Literal["brk", "arena"]

_NAMES: Mapping[MemoryKind, str] = {
    "heap": "[heap]",
    "anonymous": "anonymous memory",
    "stack": "[stack]",
    "shared": "shared memory",
    "sysv": "SysV shared memory",
    "hugetlbfs": "huge pages",
    "jit": "code made at run time",
    "unknown": "other memory",
}


@dataclass(frozen=True, slots=True)
class Backing:
    """What the kernel said of a mapping while the program ran natively (smaps).

    `page_bytes`: size of the pages that hold most of it. `eligible`: THPeligible; None: unknown.
    `flags`: VmFlags (`hg`: madvised, `nh`: madvised not to, `ht`: hugetlb). `start`, `end`: of the
    largest one, where alignment and size below a huge page matter. `offset_bytes`, `device`: in
    the file that is mapped there, and (major, minor) of its file system. `malloc_block_bytes`: of
    the block of glibc's malloc that it begins with; 0: it begins with none; None: not known.
    `growing`: it is memory that grows in small steps.
    """

    start: Annotated[int, doc("first address of the largest mapping", minimum=0)]
    end: Annotated[int, doc("address after its last", minimum=0)]
    permissions: Annotated[str, doc("its permissions")]
    resident_bytes: Annotated[int, doc("memory present", minimum=0)]
    huge_bytes: Annotated[int, doc("of that, on huge pages", minimum=0)]
    page_bytes: Annotated[int, doc("size of the pages that hold most of it", minimum=0)]
    eligible: Annotated[bool | None, doc("THPeligible; null: not reported")]
    flags: Annotated[tuple[str, ...], doc("VmFlags, such as hg: madvised")]
    offset_bytes: Annotated[int, doc("in the file that is mapped there", minimum=0)] = 0
    device: Annotated[tuple[int, int] | None, doc("major and minor number of its file system")] = (
        None
    )
    malloc_block_bytes: Annotated[
        int | None,
        doc("size of the block of glibc's malloc that it begins with; 0: none; null: not known"),
    ] = None
    growing: Annotated[
        Growing | None,
        doc(
            "memory that grows in small steps: the heap, by brk, or an arena of glibc's malloc for "
            "threads; null: neither"
        ),
    ] = None
    disabled: Annotated[
        bool, doc("its process may have no transparent huge pages (PR_SET_THP_DISABLE)")
    ] = False


def name_of(kind: MemoryKind) -> str:
    """What memory of a kind is called where it has no name."""
    return _NAMES.get(kind, "other memory")
