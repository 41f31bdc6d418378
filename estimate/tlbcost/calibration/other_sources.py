# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of the TLBs and caches from other sources, and their agreement with the measurement.

Published tables, CPUID and the kernel are shown next to what was measured, never in place of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from tlbcost.calibration.records import Calibration, find
from tlbcost.common import units
from tlbcost.common.document import doc
from tlbcost.common.interval import Interval
from tlbcost.processors import cpuid
from tlbcost.processors.cpuid import ReportedCache
from tlbcost.processors.published import AGREEMENT_FRACTION, Level, published
from tlbcost.system.machine import read_line, sys_path

Source = Literal["published", "cpuid", "sysfs"]
NAMES: dict[Source, str] = {"published": "published", "cpuid": "CPUID", "sysfs": "sysfs"}

# Measured and reported cache sizes may differ by this share: lines that other data take, footprints
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
class ReportedFigure:
    """What one source reports of a quantity of doc/format.md, "calibration"."""

    quantity: Annotated[str, doc("the suffix is the unit of value", enum=tuple(WORDS))]
    page_size_bytes: Annotated[int | None, doc("null: a cache", minimum=1)]
    source: Annotated[Source, doc("what reports it")]
    value: Annotated[int, doc("the figure", minimum=0)]
    verified: Annotated[
        bool, doc("false: published from general knowledge, not checked against a source")
    ] = True


def reported_figures(
    calibration: Calibration, caches: Iterable[ReportedCache] = ()
) -> tuple[ReportedFigure, ...]:
    """What is published of the machine, what its CPUID reports, and the `caches` of sysfs."""
    by_cpuid = cpuid.decode(calibration.cpuid)
    found = list(_published(calibration))
    for tlb in by_cpuid.tlbs:
        found += _levels(tlb.level, tlb.page_size_bytes, "cpuid", tlb.entries, tlb.ways)
    found += _caches(by_cpuid.caches, "cpuid")
    return (*found, *_caches(caches, "sysfs"))


def sysfs_caches() -> tuple[ReportedCache, ...]:
    """The caches of the first CPU as the kernel reports them; what it does not is left out."""
    found = []
    for folder in sorted(sys_path(_FOLDER).glob("index[0-9]*")):
        at = f"{_FOLDER}/{folder.name}"
        level, kind = read_line(f"{at}/level") or "", _KINDS.get(read_line(f"{at}/type") or "")
        size = re.fullmatch(r"([1-9][0-9]*)([KMG]?)", read_line(f"{at}/size") or "", re.ASCII)
        if kind and size and re.fullmatch(r"[1-9]", level, re.ASCII):
            n_bytes = int(size[1]) * _FACTORS.get(size[2], 1)
            # A list such as 0-3,8.
            text = read_line(f"{at}/shared_cpu_list") or "0"
            n = 0
            for part in text.split(","):
                first, _, last = part.partition("-")
                if first.isdigit():
                    n += int(last) - int(first) + 1 if last.isdigit() else 1
            cpus = max(n, 1)
            found.append(ReportedCache(int(level), kind, n_bytes, cpus))
    return tuple(found)


def figure_from(
    reported: Iterable[ReportedFigure], quantity: str, page_size_bytes: int | None, source: Source
) -> ReportedFigure | None:
    wanted = (quantity, page_size_bytes, source)
    for figure in reported:
        if (figure.quantity, figure.page_size_bytes, figure.source) == wanted:
            return figure
    return None


def disagreements(calibration: Calibration, reported: Iterable[ReportedFigure]) -> list[str]:
    claims: dict[tuple[str, int | None, int], list[ReportedFigure]] = {}
    for figure in reported:
        key = figure.quantity, figure.page_size_bytes, figure.value
        claims.setdefault(key, []).append(figure)
    sentences = []
    for (quantity, size, claimed), claim in claims.items():
        measured = _measured(calibration, quantity, size)
        if measured is None or _agree(claim[0], measured) or is_splintered(calibration, size):
            continue
        name = WORDS[quantity]
        if size is None:
            value, other = units.size(round(measured.value)), units.size(claimed)
        else:
            name += f" on {units.size(size)} pages"
            value, other = f"{measured.value:.0f}", str(claimed)
        sentences.append(f"{name}: {value} measured, but {other} {_by(claim)}")
    return sentences


def is_splintered(calibration: Calibration, page_size_bytes: int | None) -> bool:
    """Whether the TLB holds pieces of such pages; others speak of whole ones."""
    entry = _measured(calibration, "tlb_entry_bytes", page_size_bytes)
    return entry is not None and entry.value != page_size_bytes


def _by(claim: Iterable[ReportedFigure]) -> str:
    tellers = [NAMES[figure.source] for figure in claim if figure.source != "published"]
    words = [f"reported by {' and '.join(tellers)}"] if tellers else []
    for figure in claim:
        if figure.source == "published":
            words.insert(0, "published" if figure.verified else "published (unverified)")
    return " and ".join(words)


def _published(calibration: Calibration) -> Iterator[ReportedFigure]:
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
) -> Iterator[ReportedFigure]:
    for what, value in (("entries", entries), ("ways", ways)):
        # Ways of code and of stores are not measured.
        if value is not None and f"{level}_{what}" in WORDS:
            yield ReportedFigure(f"{level}_{what}", size, source, value, verified)


def _caches(caches: Iterable[ReportedCache], source: Source) -> Iterator[ReportedFigure]:
    for cache in caches:
        if cache.kind != "instruction" and cache.level in _CACHES:
            yield ReportedFigure(_CACHES[cache.level], None, source, cache.size_bytes)


def _measured(calibration: Calibration, quantity: str, size: int | None) -> Interval | None:
    for cost in find(calibration, quantity, size):
        if cost.interval is not None:
            return cost.interval
    return None


def _agree(figure: ReportedFigure, measured: Interval) -> bool:
    if measured.low <= figure.value <= measured.high:
        return True
    if figure.quantity.endswith("_ways"):
        return round(measured.value) == figure.value
    size = figure.quantity.endswith("_bytes")
    allowed = _CACHE_AGREEMENT_FRACTION if size else AGREEMENT_FRACTION
    return abs(figure.value - measured.value) <= allowed * figure.value
