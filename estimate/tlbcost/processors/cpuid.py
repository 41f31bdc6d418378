# SPDX-License-Identifier: GPL-2.0-or-later
"""TLBs and caches that the CPU, or the hypervisor, reports by CPUID.

Pure functions of the raw words recorded by the calibrator (doc/format.md, `samples`). A leaf of
zeros reports nothing: some processors leave it empty, and hypervisors mask it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import count, read_table
from tlbcost.processors.published import Level

CacheKind = Literal["data", "instruction", "unified"]
Words = tuple[int, int, int, int]  # eax, ebx, ecx, edx

_KEY = re.compile(r"cpuid_([0-9a-f]{1,8})_([0-9a-f]{1,8})")
_4K, _2M, _4M, _1G = 4 << 10, 2 << 20, 4 << 20, 1 << 30
# Bits of leaf 0x18, EBX.
_PAGE_SIZES = (_4K, _2M, _4M, _1G)
_SEE_LEAF_18 = 0xFE
_CACHE_KINDS: dict[int, CacheKind] = {1: "data", 2: "instruction", 3: "unified"}
_FULLY = 0xFF
# AMD's codes for ways in leaves 0x80000006 and 0x80000019; other codes are not used there.
_AMD_WAYS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 16, 10: 32, 11: 48, 12: 64, 13: 96, 14: 128}
_AMD_FULLY = 15
# Bit of leaf 0x80000021, EAX: the second level's entries are counted by 32 (L2TlbSizeX32).
_AMD_BY_32 = 14


@dataclass(frozen=True, slots=True)
class ReportedTlb:
    """A TLB for one page size; `ways` equals `entries` if fully associative, None: not reported."""

    level: Level
    page_size_bytes: int
    entries: int
    ways: int | None


@dataclass(frozen=True, slots=True)
class ReportedCache:
    """A cache: level from 1, its size, and the number of CPUs that share it, if known."""

    level: int
    kind: CacheKind
    size_bytes: int
    cpus: int = 1


@dataclass(frozen=True, slots=True)
class CpuidReport:
    """What CPUID reports. Both empty: nothing, and `silence` says why."""

    tlbs: tuple[ReportedTlb, ...]
    caches: tuple[ReportedCache, ...]
    silence: str | None


def decode(raw: Mapping[str, str]) -> CpuidReport:
    """Decode the `cpuid_<leaf>_<subleaf>` keys of a samples header; others are ignored.

    Invalid words (not hexadecimal, a TLB without entries) report nothing.
    """
    leaves = dict(_leaves(raw))
    if not leaves:
        return CpuidReport((), (), "this CPU has no CPUID instruction, or its words were not kept")
    tlbs = tuple(_leaf_18(leaves)) or tuple(_leaf_2(leaves)) or tuple(_amd_tlbs(leaves))
    caches = tuple(_caches(leaves, 4)) or tuple(_caches(leaves, 0x8000001D))
    silence = None
    if not tlbs and _SEE_LEAF_18 in _descriptors(leaves.get((2, 0))):
        silence = "CPUID leaf 2 refers to leaf 0x18 for the TLBs, which is empty"
    elif not tlbs:
        silence = "CPUID reports nothing about the TLBs"
    return CpuidReport(_merged(tlbs), caches, silence)


def _leaves(raw: Mapping[str, str]) -> Iterator[tuple[tuple[int, int], Words]]:
    for key, text in raw.items():
        name, words = _KEY.fullmatch(key), text.split()
        if name is None or len(words) != 4:
            continue
        if all(re.fullmatch(r"(0x)?[0-9a-f]{1,8}", word, re.IGNORECASE) for word in words):
            eax, ebx, ecx, edx = (int(word, 16) for word in words)
            yield (int(name[1], 16), int(name[2], 16)), (eax, ebx, ecx, edx)


def _bits(word: int, high: int, low: int) -> int:
    return word >> low & (1 << high - low + 1) - 1


def _below(leaves: Mapping[tuple[int, int], Words], leaf: int) -> Iterator[Words]:
    """The subleaves of one leaf, in order."""
    return (leaves[key] for key in sorted(leaves) if key[0] == leaf)


def _leaf_18(leaves: Mapping[tuple[int, int], Words]) -> Iterator[ReportedTlb]:
    """Intel: one translation structure for each subleaf."""
    for _, ebx, sets, edx in _below(leaves, 0x18):
        ways, level = _bits(ebx, 31, 16), _bits(edx, 7, 5)
        entries = ways * sets
        if entries == 0:
            continue
        names = _structure(_bits(edx, 4, 0), level)
        for i, size in enumerate(_PAGE_SIZES):
            for name in names if ebx >> i & 1 else ():
                yield ReportedTlb(name, size, entries, entries if edx >> 8 & 1 else ways)


def _structure(kind: int, level: int) -> tuple[Level, ...]:
    if level > 1:
        # For data or for both; a second level for code alone is not measured here.
        return ("stlb",) if level == 2 and kind in (1, 3) else ()
    names: dict[int, tuple[Level, ...]] = {
        1: ("dtlb",), 2: ("itlb",), 3: ("dtlb", "itlb"), 4: ("dtlb",), 5: ("dtlb_store",)
    }  # fmt: skip
    return names.get(kind, ())


def _descriptors(words: Words | None) -> list[int]:
    """The bytes of leaf 2. AL is a count that is always 1; a word with bit 31 reports nothing."""
    if words is None:
        return []
    found = []
    for i, word in enumerate(words):
        if not word >> 31:
            found += [word >> shift & 0xFF for shift in (0, 8, 16, 24)][1 if i == 0 else 0 :]
    return found


def _leaf_2(leaves: Mapping[tuple[int, int], Words]) -> Iterator[ReportedTlb]:
    """Intel, before leaf 0x18: a byte for each TLB.

    Its names for two data TLBs differ from core to core: the smaller one is the first level.
    """
    known = _descriptor_table()
    data: dict[int, list[ReportedTlb]] = {}
    for descriptor in _descriptors(leaves.get((2, 0))):
        for tlb in known.get(descriptor, ()):
            if tlb.level == "dtlb":
                data.setdefault(tlb.page_size_bytes, []).append(tlb)
            else:
                yield tlb
    for tlbs in data.values():
        first, *others = sorted(tlbs, key=lambda tlb: tlb.entries)
        yield first
        for other in others:
            yield ReportedTlb("stlb", other.page_size_bytes, other.entries, other.ways)


@cache
def _descriptor_table() -> dict[int, tuple[ReportedTlb, ...]]:
    table = read_table(paths.data("cpuid_descriptors.tsv"), formats.DESCRIPTORS)
    found: dict[int, tuple[ReportedTlb, ...]] = {}
    for row in table.records():
        size, entries, level = count(row["page_size_bytes"]), count(row["entries"]), row["level"]
        if size is None or entries is None or level not in ("dtlb", "itlb", "stlb"):
            raise TlbcostError(f"{table.name}: not a TLB: {row}")
        code = int(str(row["descriptor"]), 16)
        tlb = ReportedTlb(cast(Level, level), size, entries, count(row["ways"]))
        found[code] = (*found.get(code, ()), tlb)
    return found


def _amd_tlbs(leaves: Mapping[tuple[int, int], Words]) -> Iterator[ReportedTlb]:
    """AMD: entries and ways for data (upper half of a word) and code (lower half)."""
    first, second = leaves.get((0x80000005, 0)), leaves.get((0x80000006, 0))
    largest, more = leaves.get((0x80000019, 0)), leaves.get((0x80000021, 0))
    unit = 32 if more and _bits(more[0], _AMD_BY_32, _AMD_BY_32) else 1
    for words in (first,) if first else ():
        for size, word in ((_2M, words[0]), (_4K, words[1])):
            for level, half in (("dtlb", word >> 16), ("itlb", word & 0xFFFF)):
                entries, code = half & 0xFF, half >> 8
                if entries:
                    ways = entries if code == _FULLY else code or None
                    yield ReportedTlb(cast(Level, level), size, entries, ways)
    for words in (second,) if second else ():
        # A unified second level is in the halves for code, and those for data are empty.
        shift = 16 if (words[0] | words[1]) >> 16 else 0
        yield from _amd_tlb("stlb", _2M, words[0] >> shift & 0xFFFF, unit)
        yield from _amd_tlb("stlb", _4K, words[1] >> shift & 0xFFFF, unit)
    for words in (largest,) if largest else ():
        for name, half in (("dtlb", words[0] >> 16), ("itlb", words[0] & 0xFFFF)):
            yield from _amd_tlb(cast(Level, name), _1G, half)
        # A second level for code alone is not measured here.
        yield from _amd_tlb("stlb", _1G, words[1] >> 16, unit)


def _amd_tlb(level: Level, size: int, half: int, unit: int = 1) -> Iterator[ReportedTlb]:
    entries, code = (half & 0xFFF) * unit, half >> 12
    if entries and code:
        yield ReportedTlb(
            level, size, entries, entries if code == _AMD_FULLY else _AMD_WAYS.get(code)
        )


def _caches(leaves: Mapping[tuple[int, int], Words], leaf: int) -> Iterator[ReportedCache]:
    """Intel's leaf 4 and AMD's leaf 0x8000001D: one cache for each subleaf."""
    for eax, ebx, ecx, _ in _below(leaves, leaf):
        kind, level = _CACHE_KINDS.get(_bits(eax, 4, 0)), _bits(eax, 7, 5)
        if kind is None or level == 0:
            continue
        ways, partitions = _bits(ebx, 31, 22) + 1, _bits(ebx, 21, 12) + 1
        line = _bits(ebx, 11, 0) + 1
        yield ReportedCache(level, kind, ways * partitions * line * (ecx + 1))


def _merged(tlbs: Iterable[ReportedTlb]) -> tuple[ReportedTlb, ...]:
    """Structures of one level that share a page size, as one.

    Ice Lake reports its second level as one of 4 KiB and 2 MiB pages and one of 4 KiB and 1 GiB
    pages: a 4 KiB page may be in either.
    """
    found: dict[tuple[Level, int], ReportedTlb] = {}
    for tlb in tlbs:
        key = tlb.level, tlb.page_size_bytes
        other = found.get(key)
        if other is None:
            found[key] = tlb
            continue
        ways = None
        if tlb.ways and other.ways and tlb.entries // tlb.ways == other.entries // other.ways:
            ways = tlb.ways + other.ways
        found[key] = ReportedTlb(*key, tlb.entries + other.entries, ways)
    return tuple(found.values())
