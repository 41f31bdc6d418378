# SPDX-License-Identifier: GPL-2.0-or-later
"""What do others say of this machine's TLBs and caches, and does the measurement agree?

Published tables, CPUID and the kernel are shown beside what was measured, never in place of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tlbcost.calibration.costs import find
from tlbcost.calibration.records import Calibration
from tlbcost.common import units
from tlbcost.common.interval import Interval
from tlbcost.processors import cpuid
from tlbcost.processors.cpuid import ReportedCache
from tlbcost.processors.geometry import Level
from tlbcost.processors.published import AGREEMENT_FRACTION, published
from tlbcost.system.machine import read_line, sys_path

Source = Literal["published", "cpuid", "sysfs"]
NAMES: dict[Source, str] = {"published": "published", "cpuid": "CPUID", "sysfs": "sysfs"}

# Measured and told cache sizes may differ by this share: lines that other data take, footprints
# some 25 % apart, and an outer level that replaces as it likes.
_CACHE_AGREEMENT_FRACTION = 0.3
# The quantities that are compared, in the words of the report.
WORDS = {
    "dtlb_entries": "L1 dTLB entries",
    "dtlb_ways": "L1 dTLB ways",
    "dtlb_store_entries": "store dTLB entries",
    "itlb_entries": "L1 iTLB entries",
    "stlb_entries": "STLB entries",
    "stlb_ways": "STLB ways",
    "l1d_bytes": "L1 data cache",
    "l2_bytes": "L2 cache",
    "l3_bytes": "L3 cache",
}
_CACHES = {1: "l1d_bytes", 2: "l2_bytes", 3: "l3_bytes"}
_FOLDER = "/sys/devices/system/cpu/cpu0/cache"
_KINDS: dict[str, cpuid.CacheKind] = {
    "Data": "data", "Instruction": "instruction", "Unified": "unified"
}  # fmt: skip
_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Saying:
    """What one source says of a quantity of doc/format.md, "calibration".

    `page_size_bytes` None: a cache's size. `verified` False: published from general knowledge.
    """

    quantity: str
    page_size_bytes: int | None
    source: Source
    value: int
    verified: bool = True


def sayings(calibration: Calibration, caches: Iterable[ReportedCache] = ()) -> tuple[Saying, ...]:
    """What is published of the machine, what its CPUID told, and `caches` as sysfs tells them."""
    told = cpuid.decode(calibration.cpuid)
    found = list(_published(calibration))
    for tlb in told.tlbs:
        found += _levels(tlb.level, tlb.page_size_bytes, "cpuid", tlb.entries, tlb.ways)
    found += _caches(told.caches, "cpuid")
    return (*found, *_caches(caches, "sysfs"))


def sysfs_caches() -> tuple[ReportedCache, ...]:
    """The caches of the first CPU as the kernel tells them; what it does not tell is left out."""
    found = []
    for folder in sorted(sys_path(_FOLDER).glob("index[0-9]*")):
        at = f"{_FOLDER}/{folder.name}"
        level, kind = read_line(f"{at}/level") or "", _KINDS.get(read_line(f"{at}/type") or "")
        size = re.fullmatch(r"([1-9][0-9]*)([KMG]?)", read_line(f"{at}/size") or "", re.ASCII)
        if kind and size and re.fullmatch(r"[1-9]", level, re.ASCII):
            n_bytes = int(size[1]) * _FACTORS.get(size[2], 1)
            found.append(ReportedCache(int(level), kind, n_bytes))
    return tuple(found)


def said(
    known: Iterable[Saying], quantity: str, page_size_bytes: int | None, source: Source
) -> Saying | None:
    """What one source says of one quantity; None: nothing."""
    wanted = (quantity, page_size_bytes, source)
    for saying in known:
        if (saying.quantity, saying.page_size_bytes, saying.source) == wanted:
            return saying
    return None


def disagreements(calibration: Calibration, known: Iterable[Saying]) -> list[str]:
    """A sentence for each figure that the measurement contradicts, with who says so."""
    claims: dict[tuple[str, int | None, int], list[Saying]] = {}
    for saying in known:
        key = saying.quantity, saying.page_size_bytes, saying.value
        claims.setdefault(key, []).append(saying)
    sentences = []
    for (quantity, size, figure), claim in claims.items():
        measured = _measured(calibration, quantity, size)
        if measured is None or _agree(claim[0], measured) or is_splintered(calibration, size):
            continue
        name = WORDS[quantity]
        if size is None:
            value, told = units.size(round(measured.value)), units.size(figure)
        else:
            name += f" on {units.size(size)} pages"
            value, told = f"{measured.value:.0f}", str(figure)
        sentences.append(f"{name}: {value} measured, but {told} {_by(claim)}")
    return sentences


def is_splintered(calibration: Calibration, page_size_bytes: int | None) -> bool:
    """Whether the TLB holds pieces of such pages; others speak of whole ones."""
    entry = _measured(calibration, "tlb_entry_bytes", page_size_bytes)
    return entry is not None and entry.value != page_size_bytes


def _by(claim: Iterable[Saying]) -> str:
    tellers = [NAMES[saying.source] for saying in claim if saying.source != "published"]
    words = [f"told by {' and '.join(tellers)}"] if tellers else []
    for saying in claim:
        if saying.source == "published":
            words.insert(0, "published" if saying.verified else "published (unverified)")
    return " and ".join(words)


def _published(calibration: Calibration) -> Iterator[Saying]:
    core = published(calibration.machine)
    for (level, size), row in core.levels.items() if core else ():
        yield from _levels(level, size, "published", row.entries, row.ways, row.verified)


def _levels(
    level: Level,
    size: int,
    source: Source,
    entries: int | None,
    ways: int | None,
    verified: bool = True,
) -> Iterator[Saying]:
    for what, value in (("entries", entries), ("ways", ways)):
        # Ways of code and of stores are not measured.
        if value is not None and f"{level}_{what}" in WORDS:
            yield Saying(f"{level}_{what}", size, source, value, verified)


def _caches(caches: Iterable[ReportedCache], source: Source) -> Iterator[Saying]:
    for cache in caches:
        if cache.kind != "instruction" and cache.level in _CACHES:
            yield Saying(_CACHES[cache.level], None, source, cache.size_bytes)


def _measured(calibration: Calibration, quantity: str, size: int | None) -> Interval | None:
    for cost in find(calibration, quantity, size):
        if cost.interval is not None:
            return cost.interval
    return None


def _agree(saying: Saying, measured: Interval) -> bool:
    if measured.low <= saying.value <= measured.high:
        return True
    if saying.quantity.endswith("_ways"):
        return round(measured.value) == saying.value
    size = saying.quantity.endswith("_bytes")
    allowed = _CACHE_AGREEMENT_FRACTION if size else AGREEMENT_FRACTION
    return abs(saying.value - measured.value) <= allowed * saying.value
