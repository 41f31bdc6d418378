# SPDX-License-Identifier: GPL-2.0-or-later
"""Distances between the page frames that this kernel hands out.

In a virtual machine the host's page-table entries of frames side by side share a cache line. A
kernel that has run for long hands out scattered frames before it takes whole blocks, and then
walks of base pages need a line for each page. Only root may see frames.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tlbcost.memory import smaps

# Enough to get through what lies apart; 64 MiB of base pages.
_PAGES = 16384
# Page-table entries in a cache line.
_ENTRIES = 8
FRAME = (1 << 55) - 1
PRESENT = 1 << 63
# At most this many of a program's pages are looked up, in runs of this length: lines have their
# pages near each other.
_MOST_PAGES, _RUN_PAGES = 1 << 18, 1 << 12
ENTRY = struct.Struct("=Q")


def isolated_pages() -> int | None:
    """Pages alone in their line, of the first 16384 that a process gets; None if unknown."""
    frames = _frames(_PAGES)
    if frames is None:
        return None
    return isolated(frames)


def isolated(frames: list[int]) -> int:
    """Pages in lines of their own that explain as many lines as there are; others fill theirs."""
    lines = len({frame // _ENTRIES for frame in frames})
    dense = len(frames) / _ENTRIES
    return max(0, round((lines - dense) / (1 - 1 / _ENTRIES)))


@dataclass(frozen=True, slots=True)
class Entries:
    """Of a process's private memory, one of each `every` runs of entries of /proc/PID/pagemap."""

    raw: bytes
    every: int

    def isolated(self) -> int | None:
        """Pages that share their line with no other; None: there are none, or frames are hidden."""
        frames = [entry & FRAME for (entry,) in ENTRY.iter_unpack(self.raw) if entry & PRESENT]
        return isolated(frames) * self.every if frames and all(frames) else None


def entries_of(pid: int, mappings: Iterable[smaps.Mapping]) -> Entries | None:
    """Read where a process's pages are, some 10 ms for each GiB; None if it may not be known."""
    size = mmap.PAGESIZE
    runs = [
        (start // size, min(_RUN_PAGES, (mapping.end - start) // size))
        for mapping in mappings
        if mapping.kind in ("heap", "anonymous") and mapping.resident_bytes > mapping.huge_bytes
        for start in range(mapping.start, mapping.end, _RUN_PAGES * size)
    ]
    every = max(1, -(-sum(pages for _, pages in runs) // _MOST_PAGES))
    try:
        return Entries(b"".join(read_pagemap(pid, runs[::every])), every)
    except OSError:
        return None


def read_pagemap(pid: int | str, runs: Iterable[tuple[int, int]]) -> list[bytes]:
    """Entries of /proc/PID/pagemap for each run of (first page, pages). Raises OSError."""
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as file:
        parts = (
            os.pread(file.fileno(), pages * ENTRY.size, first * ENTRY.size) for first, pages in runs
        )
        # A mapping that is cut short during the read may end within an entry.
        return [part[: len(part) // ENTRY.size * ENTRY.size] for part in parts]


def _frames(pages: int) -> list[int] | None:
    size = mmap.PAGESIZE
    try:
        with closing(mmap.mmap(-1, pages * size, mmap.MAP_PRIVATE)) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(pages):
                memory[page * size] = 1
            (entries,) = read_pagemap("self", [(_address_of(memory) // size, pages)])
    except (OSError, ValueError):
        return None
    frames = [entry & FRAME for (entry,) in ENTRY.iter_unpack(entries)]
    return frames if len(frames) == pages and all(frames) else None


def _address_of(memory: mmap.mmap) -> int:
    # ctypes takes its time to load, and hardly anybody comes here.
    import ctypes

    view = (ctypes.c_char * 1).from_buffer(memory)
    try:
        return ctypes.addressof(view)
    finally:
        # The mapping cannot be closed while a view of it is left.
        del view
