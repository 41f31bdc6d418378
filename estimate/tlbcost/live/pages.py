# SPDX-License-Identifier: GPL-2.0-or-later
"""On which pages is a process's memory, by its smaps or smaps_rollup, read at little cost?

memory.smaps has every mapping by its name; for hundreds of processes every few seconds that would
take longer than the kernel needs to write the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Mappings without anything in memory are passed over. Linux has ShmemPmdMapped since 4.8,
# THPeligible since 5.0, FilePmdMapped since 5.4.
_MAPPING = re.compile(
    rb"\nRss: +([1-9]\d*) kB\nPss: +(\d+) kB\n(?:\w+: +\d+ kB\n)*?AnonHugePages: +(\d+) kB\n"
    rb"(?:ShmemPmdMapped: +(\d+) kB\n)?(?:FilePmdMapped: +(\d+) kB\n)?(?:\w+: +\d+ kB\n)*"
    rb"(?:THPeligible: +([01])\n)?"
)
# Rss does not cover these.
_SOME_HUGETLB = re.compile(rb"_Hugetlb: +[1-9]")
_HUGETLB = re.compile(
    rb"(?:^|\n)[0-9a-f]+-[0-9a-f]+ \S{4} \S+ (\S+ \d+)[^\n]*\n(?:\w+: +\d+ kB\n)*?"
    rb"Shared_Hugetlb: +(\d+) kB\nPrivate_Hugetlb: +(\d+) kB\n"
)
_FIELD = re.compile(rb"(\w+): +(\d+) kB")
# In smaps_rollup since Linux 5.4.
PARTS = (b"Pss_Anon", b"Pss_File", b"Pss_Shmem")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Pages:
    """Bytes in memory; those on huge pages of any kind; and on base pages, those that the kernel
    may put on transparent huge pages as things are (None: not read, or not reported, as before
    Linux 5.0).

    `shared_hugetlb`: bytes on pages of a pool that other processes map too, by file. They are in
    none of the other figures, so that processes of a group can count them once.
    """

    memory_bytes: int
    huge_bytes: int
    eligible_bytes: int | None
    shared_hugetlb: dict[bytes, int]


def pages_of(text: bytes, *, proportional: bool = False) -> Pages:
    """The pages that smaps reports.

    `proportional`: a page of n processes counts for 1/n here, as in Pss.
    """
    memory = huge = eligible = 0.0
    known = True
    for rss, pss, anonymous, shared, file, flag in _MAPPING.findall(text):
        whole = int(rss)
        on_huge = min(int(anonymous) + int(shared or 0) + int(file or 0), whole)
        weight = int(pss) / whole if proportional else 1
        memory += weight * whole
        huge += weight * on_huge
        known = known and flag != b""
        if flag == b"1":
            eligible += weight * (whole - on_huge)
    pool, files = _hugetlb(text)
    return Pages(
        round(memory + pool) * _KIB,
        round(huge + pool) * _KIB,
        round(eligible) * _KIB if known else None,
        files,
    )


def rolled_up(text: bytes, *, proportional: bool = False) -> Pages:
    """The pages that smaps_rollup reports, where nothing says what is eligible.

    `proportional`: as above; of huge pages, as of all anonymous memory, and of all other.
    """
    found = {name: int(kib) for name, kib in _FIELD.findall(text)}
    memory, anonymous = found.get(b"Rss", 0), found.get(b"Anonymous", 0)
    huge: float = found.get(b"AnonHugePages", 0)
    others: float = found.get(b"ShmemPmdMapped", 0) + found.get(b"FilePmdMapped", 0)
    if proportional:
        pss_anonymous, *pss_others = (found.get(name, 0) for name in PARTS)
        huge *= pss_anonymous / max(anonymous, 1)
        others *= sum(pss_others) / max(memory - anonymous, 1)
        memory = found.get(b"Pss", 0)
    pool, files = _hugetlb(text)
    return Pages(
        (memory + pool) * _KIB,
        round(min(huge + others, memory) + pool) * _KIB,
        None,
        files,
    )


def _hugetlb(text: bytes) -> tuple[int, dict[bytes, int]]:
    """KiB that are this process's alone, and bytes that are not, by device and inode."""
    private, files = 0, dict[bytes, int]()
    if _SOME_HUGETLB.search(text):
        for key, shared, own in _HUGETLB.findall(text):
            private += int(own)
            if shared != b"0":
                files[key] = files.get(key, 0) + int(shared) * _KIB
    return private, files
