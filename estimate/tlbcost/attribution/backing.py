# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages of each memory region when the program ran natively.

The simulator and the kernel name memory independently: files are matched by name, everything else
by kind.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from tlbcost.attribution.document import RegionShare
from tlbcost.memory.eligibility import MemoryKind, backing_of, kind_of
from tlbcost.memory.smaps import Mapping
from tlbcost.system.huge_pages import FileSystem, HugeSettings, holding

# Of these it depends on how far the heap may grow which one malloc takes.
_BY_MALLOC: dict[MemoryKind, MemoryKind] = {"heap": "anonymous", "anonymous": "heap"}
_BY_NAME: tuple[MemoryKind, ...] = ("file", "tmpfs", "segment", "memfd", "hugetlbfs")
_DELETED = " (deleted)"

# The kinds of files by the file systems that they are on.
_FILES: dict[str, MemoryKind] = {"tmpfs": "tmpfs", "hugetlbfs": "hugetlbfs"}
# A program's sampled mappings, each with the path of the executable.
Seen = Sequence[tuple[str, Mapping]]
_Key = tuple[str, MemoryKind, str, bool]


def with_backed(
    regions: Sequence[RegionShare], seen: Seen, settings: HugeSettings
) -> tuple[RegionShare, ...]:
    """The regions, each with its sampled pages; those not sampled are unchanged."""
    groups: dict[_Key, list[Mapping]] = {}
    for program, mapping in seen:
        kind = kind_of(mapping, settings)
        code = "x" in mapping.permissions
        key = _key(program, kind, mapping.name, code=code)
        groups.setdefault(key, []).append(mapping)
    return tuple(_with(region, _matching(region, regions, groups)) for region in regions)


def _key(program: str, kind: MemoryKind, name: str, *, code: bool) -> _Key:
    named = name.removesuffix(_DELETED) if kind in _BY_NAME else ""
    # Code and data of one file are two regions; elsewhere permissions say nothing.
    return (os.path.realpath(program), kind, named, code and kind in ("file", "segment"))


def _matching(
    region: RegionShare, regions: Sequence[RegionShare], groups: dict[_Key, list[Mapping]]
) -> list[Mapping]:
    key = _key(region.program, region.kind, region.name, code=region.code)
    own = groups.get(key, [])
    other = _BY_MALLOC.get(region.kind)
    if other is not None and _resident(own) < (region.touched_bytes or 0) / 2:
        # Valgrind's heap is short: what brk grows natively is mapped in a simulation.
        instead = groups.get(_key(region.program, other, region.name, code=region.code), [])
        return max(own, instead, key=_resident)
    if own:
        return own
    if not any(other[0] == key[0] for other in groups):
        # The program has been replaced (exec), and goes by its first name.
        alike = [other for other in groups if other[1:] == key[1:]]
        return max((groups[other] for other in alike), key=_resident, default=[])
    # A file with a new name in each run: it is the only one of its kind.
    alike = [other for other in groups if (other[0], other[1], other[3]) == (*key[:2], key[3])]
    same = [each for each in regions if (each.kind, each.code) == (region.kind, region.code)]
    if region.kind in ("tmpfs", "memfd") and len(alike) == 1 and len(same) == 1:
        return groups[alike[0]]
    return []


def _resident(mappings: Sequence[Mapping]) -> int:
    return sum(mapping.resident_bytes for mapping in mappings)


def _with(region: RegionShare, mappings: Sequence[Mapping]) -> RegionShare:
    present = [each for each in mappings if each.resident_bytes]
    if not present:
        return region
    # The largest part without huge pages matters.
    first = max(present, key=lambda each: (each.resident_bytes - each.huge_bytes, each.start))
    resident = sum(each.resident_bytes for each in present)
    huge = sum(each.huge_bytes for each in present)
    size = sum(each.size_bytes for each in mappings)
    return replace(
        region,
        size_bytes=size if region.size_bytes is None else region.size_bytes,
        backed=replace(backing_of(first), resident_bytes=resident, huge_bytes=huge),
    )


def file_kind(
    mounts: Sequence[FileSystem], name: str, device: tuple[int, int] | None = None
) -> MemoryKind:
    mount = holding(mounts, name, device)
    return _FILES.get(mount.kind, "file") if mount is not None else "file"
