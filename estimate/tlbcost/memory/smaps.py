# SPDX-License-Identifier: GPL-2.0-or-later
"""Mappings of a process and their pages, by its /proc/PID/smaps."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tlbcost.common import names
from tlbcost.system import process

MappingKind = Literal["heap", "anonymous", "stack", "segment", "file", "shared"]

_HEADER = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([-rwxsp]{4}) ([0-9a-f]{1,16}) (\S+) \d+ *(.*)"
)
_FIELD = re.compile(r"(\w+): +(\d{1,15}) kB")
_ELIGIBLE = re.compile(r"THPeligible: +([01])")
_FLAGS = re.compile(r"VmFlags:((?: [a-z0-9?]{2})*) *")
_SHARED = ("/SYSV", "/memfd:", "/dev/shm/", "/dev/zero")
_HUGETLB_ANONYMOUS = "/anon_hugepage"
UNNAMED = "anonymous memory"
BSS = "[bss]"
ARENA = "malloc's arenas for threads"
# glibc maps each arena's heap at a multiple of this on 64-bit systems, and lets it grow in there.
_ARENA_BYTES = 64 << 20
# Name and permissions of its memory, and of what is yet to be allowed.
_MEMORY, _NONE = ("", "rw-p"), ("", "---p")


@dataclass(frozen=True, slots=True)
class Mapping:
    """One mapping. Bytes are of the pages that are there; of hugetlb pages in `hugetlb_bytes`.

    `kind`: segment: the executable's own code, data and bss; shared: shared memory, also without
    a file. `resident_bytes`: of all page sizes. `eligible`: whether the kernel may put it on
    transparent huge pages; None: it does not report it (Linux < 5.0).

    `start`, `end`, `permissions`, `offset_bytes`, `device`: of /proc/PID/maps, the device as
    (major, minor). `page_bytes`: KernelPageSize. `referenced_bytes`: on pages that were used since
    they were marked unused. `flags`: VmFlags; None: the kernel does not report it.
    `malloc_block_bytes`: 0: not malloc's; None: not looked at. `disabled`: its process may have no
    transparent huge pages (PR_SET_THP_DISABLE).
    """

    name: str
    kind: MappingKind
    eligible: bool | None
    resident_bytes: int
    anonymous_bytes: int
    anonymous_huge_bytes: int
    hugetlb_bytes: int
    shmem_huge_bytes: int
    file_huge_bytes: int
    start: int = 0
    end: int = 0
    permissions: str = "rw-p"
    offset_bytes: int = 0
    device: tuple[int, int] = (0, 0)
    page_bytes: int | None = None
    referenced_bytes: int | None = None
    flags: tuple[str, ...] | None = None
    malloc_block_bytes: int | None = None
    disabled: bool = False

    @property
    def size_bytes(self) -> int:
        return self.end - self.start

    @property
    def huge_bytes(self) -> int:
        """Bytes that one entry of a page directory maps, or a hugetlb page."""
        return (
            self.anonymous_huge_bytes
            + self.hugetlb_bytes
            + self.shmem_huge_bytes
            + self.file_huge_bytes
        )


@dataclass(slots=True)
class _MappingHead:
    start: int
    end: int
    permissions: str
    offset: int
    device: tuple[int, int]
    name: str
    flags: tuple[str, ...] | None = None


def read(pid: int) -> str:
    """The text of a process's smaps; empty: it has no memory.

    Raises OSError; ESRCH also if the process exited during the read, since the kernel then cuts the
    text off after some of the mappings, without an error.
    """
    text = process.read(pid, "smaps").decode(errors="replace")
    if text and "VmRSS" not in process.status(pid):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return text


def parse(text: str, executable: str | None = None) -> list[Mapping]:
    """Mappings in a text of smaps. `executable`: by /proc/PID/exe; without it, no segments."""
    found: list[Mapping] = []
    segment_end: int | None = None
    blocks = list(_blocks(text.split("\n")))
    _name_arenas([head for head, _ in blocks])
    for head, fields in blocks:
        # bss has no name, and lies where the data of the executable end.
        segment = head.name == executable if head.name else head.start == segment_end
        segment_end = head.end if segment else None
        if segment and not head.name:
            head.name = BSS
        found.append(_mapping(head, fields, segment=segment))
    return found


def _blocks(lines: Iterable[str]) -> Iterator[tuple[_MappingHead, dict[str, int]]]:
    head: _MappingHead | None = None
    fields: dict[str, int] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is not None:
            fields[field[1]] = int(field[2]) * 1024
            continue
        eligible = _ELIGIBLE.fullmatch(line)
        if eligible is not None:
            fields["THPeligible"] = int(eligible[1])
            continue
        flags = _FLAGS.fullmatch(line)
        if flags is not None and head is not None:
            head.flags = tuple(flags[1].split())
            continue
        start = _HEADER.fullmatch(line)
        if start is not None:
            if head is not None:
                yield head, fields
            device = re.fullmatch(r"([0-9a-f]{1,8}):([0-9a-f]{1,8})", start[5])
            head = _MappingHead(
                int(start[1], 16),
                int(start[2], 16),
                start[3],
                int(start[4], 16),
                (int(device[1], 16), int(device[2], 16)) if device else (0, 0),
                names.of_kernel(start[6]),
            )
            fields = {}
    if head is not None:
        yield head, fields


def _name_arenas(heads: list[_MappingHead]) -> None:
    """Find them by a heap with room to grow, and then full heaps by where they begin and end."""
    reserved = {head.start: head.end for head in heads if (head.name, head.permissions) == _NONE}
    heaps = _heaps(heads)
    growing = [heap for heap in heaps if reserved.get(heap[-1].end, 1) % _ARENA_BYTES == 0]
    full = [heap for heap in heaps if heap[-1].end % _ARENA_BYTES == 0]
    for heap in (*growing, *full) if growing else ():
        for head in heap:
            head.name = ARENA


def _heaps(heads: list[_MappingHead]) -> list[list[_MappingHead]]:
    """What may be an arena's heap: glibc 2.43 asks for huge pages behind the first 2 MiB of one."""
    heaps: list[list[_MappingHead]] = []
    for head in heads:
        if (head.name, head.permissions) != _MEMORY:
            continue
        if head.start % _ARENA_BYTES == 0:
            heaps.append([head])
        elif heaps and heaps[-1][-1].end == head.start:
            heaps[-1].append(head)
    return heaps


def _mapping(head: _MappingHead, fields: dict[str, int], *, segment: bool) -> Mapping:
    hugetlb = fields.get("Private_Hugetlb", 0) + fields.get("Shared_Hugetlb", 0)
    eligible = fields.get("THPeligible")
    # Of hugetlb mappings the kernel reports Rss 0; were that to change, nothing counts twice.
    resident = fields.get("Rss", 0)
    return Mapping(
        head.name or UNNAMED,
        "segment" if segment else _kind(head, hugetlb=hugetlb > 0),
        None if eligible is None else bool(eligible),
        hugetlb or resident,
        fields.get("Anonymous", 0),
        min(fields.get("AnonHugePages", 0), resident),
        hugetlb,
        min(fields.get("ShmemPmdMapped", 0), resident),
        min(fields.get("FilePmdMapped", 0), resident),
        head.start,
        head.end,
        head.permissions,
        head.offset,
        head.device,
        fields.get("KernelPageSize"),
        fields.get("Referenced"),
        head.flags,
    )


def _kind(head: _MappingHead, *, hugetlb: bool) -> MappingKind:
    name = head.name
    if name == "[heap]":
        return "heap"
    if name.startswith("[stack"):
        return "stack"
    shared = head.permissions.endswith("s")
    if shared and (hugetlb or name.startswith(("[anon_shmem", *_SHARED))):
        return "shared"
    if name.startswith(_HUGETLB_ANONYMOUS):
        return "anonymous"
    if hugetlb:
        # A private mapping of a file on hugetlbfs is how libhugetlbfs remaps segments.
        return "segment"
    return "file" if name.startswith("/") or name in ("[vdso]", "[vvar]") else "anonymous"
