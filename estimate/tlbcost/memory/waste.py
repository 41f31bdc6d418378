# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of a process's transparent huge pages that hold nothing but zeros, and what would be added.

Base pages would not take them, if they were never written. The kernel's shrinker of underused huge
pages (shrink_underused, Linux 6.12) looks at the same: it splits a page that has more such parts
than max_ptes_none, and frees them.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.memory.smaps import Mapping

# linux/fs.h, Linux 6.7: _IOWR('f', 16, struct pm_scan_arg) and categories of pages.
_PAGEMAP_SCAN = 0xC0606610
_PFNZERO, _HUGE = 1 << 5, 1 << 6
_MOST_RANGES = 1024
_THERE = bytes(byte >> 6 != 0 for byte in range(256))


@dataclass(frozen=True, slots=True)
class Waste:
    """Of a mapping's transparent huge pages, in bytes: all zeros, and of that in underused ones."""

    zero_bytes: int
    underused_bytes: int


def waste_of(
    pid: int, mappings: Iterable[Mapping], huge_bytes: int, most_zero: int
) -> dict[int, Waste]:
    """By start of each mapping with such pages; `most_zero` parts of one are none too many.

    Reads the contents of all of them, without a page fault of the process. Raises OSError.
    """
    found = {}
    pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            for mapping in mappings:
                if mapping.anonymous_huge_bytes:
                    zeros = [
                        _zero_parts(memory.fileno(), page, huge_bytes)
                        for start, end in _huge_ranges(pagemap, mapping)
                        for page in range(start, end, huge_bytes)
                    ]
                    many = sum(count for count in zeros if count > most_zero)
                    found[mapping.start] = Waste(sum(zeros) * mmap.PAGESIZE, many * mmap.PAGESIZE)
    finally:
        os.close(pagemap)
    return found


def khugepaged_adds(
    pid: int, mappings: Iterable[Mapping], huge_bytes: int, settings: Sequence[int]
) -> dict[int, int]:
    """Memory that khugepaged would add by each max_ptes_none, were THP "always", in bytes.

    It fills places of anonymous memory of which no more base pages are missing. Raises OSError.
    """
    found = dict.fromkeys(settings, 0)
    size = mmap.PAGESIZE
    pages = huge_bytes // size
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
        for mapping in mappings:
            if not mapping.anonymous_bytes or "nh" in (mapping.flags or ()):
                continue
            first = -(-mapping.start // huge_bytes) * huge_bytes
            for place in range(first, mapping.end - huge_bytes + 1, huge_bytes):
                entries = os.pread(pagemap.fileno(), 8 * pages, place // size * 8)
                # The byte with the bits "present" and "swapped" of proc/PID/pagemap.
                missing = entries[7::8].translate(_THERE).count(0)
                for most, added in found.items():
                    if missing <= most and missing < pages:
                        found[most] = added + missing * size
    return found


def _zero_parts(memory: int, page: int, huge_bytes: int) -> int:
    try:
        content = os.pread(memory, huge_bytes, page)
    except OSError as error:
        if error.errno == errno.EIO:
            return 0  # it has been unmapped
        raise
    if len(content) < huge_bytes:
        return 0
    size, zeros = mmap.PAGESIZE, bytes(mmap.PAGESIZE)
    return sum(content[at : at + size] == zeros for at in range(0, huge_bytes, size))


def _huge_ranges(pagemap: int, mapping: Mapping) -> Iterator[tuple[int, int]]:
    """Where it is on huge pages, but for the kernel's own page of zeros."""
    ranges = array("Q", bytes(8 * 3 * _MOST_RANGES))
    begin = mapping.start
    while begin < mapping.end:
        fields = (
            96, 0, begin, mapping.end, 0, ranges.buffer_info()[0], _MOST_RANGES, 0,
            _PFNZERO, _HUGE | _PFNZERO, 0, _HUGE,
        )  # fmt: skip
        asked = array("Q", fields)
        count = fcntl.ioctl(pagemap, _PAGEMAP_SCAN, asked)
        yield from ((ranges[3 * n], ranges[3 * n + 1]) for n in range(count))
        begin = asked[4]
