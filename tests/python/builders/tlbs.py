# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of a made-up machine with two TLB levels, and those of recorded ones; what they say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from builders.tree import TREE
from tlbcost.calibration.analysis.quantities import Analysis, analyse
from tlbcost.common.formats import SAMPLES
from tlbcost.common.interval import Interval
from tlbcost.common.table import Table, read_table

BASE, HUGE = 4096, 2 << 20
RECORDED = TREE / "data" / "samples"
LADDER = (
    8, 16, 32, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 160, 208, 272, 352, 448, 512, 576,
    640, 768, 896, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048, 2176, 2304, 2560,
    2816, 3072, 3584, 4096, 6144, 8192, 16384,
)  # fmt: skip
DENSE = (64, 1024, 4096, 8192, 16384)


def missing(pages: float, entries: int, access: str) -> float:
    """Share of accesses that miss: of a ring under LRU all or none, of random updates some."""
    if access == "serial":
        return float(pages > entries)
    return max(0.0, 1 - entries / pages)


def translation(pages: float, access: str, dtlb: int, stlb: int, hit: float, walk: float) -> float:
    first, second = missing(pages, dtlb, access), missing(pages, stlb, access)
    return (first - second) * hit + second * walk


def machine(
    dtlb: int = 96,
    stlb: int = 2048,
    hit: float = 2.3,
    walk: float = 18.0,
    noise: float = 0.3,
    entry: int | None = HUGE,
    sweeps: int = 12,
    seed: int = 7,
) -> Table:
    """The samples of a made-up machine; `entry` None: without huge pages."""
    random = np.random.default_rng(seed)
    rows: list[tuple[str | None, ...]] = []

    def pair(size: int, layout: str, access: str, lines: int, sweep: int, delta: float) -> None:
        packed = 1.7 + (lines > 700) * 3.6 + random.normal(0, noise)
        ns = packed + delta + random.normal(0, noise)
        rows.append(("tlb", str(size), layout, str(BASE), access, str(lines), str(sweep),
                     f"{ns:.3f}", f"{packed:.3f}"))  # fmt: skip

    for sweep in range(sweeps):
        rows.append(("fault", str(BASE), None, None, None, "1024", str(sweep), f"{500 + sweep}",
                     None))  # fmt: skip
        for access in ("serial", "overlapped"):
            for pages in LADDER:
                delta = translation(pages, access, dtlb, stlb, hit, walk)
                # Packed lines in base pages need entries too, and lower the difference.
                if entry != HUGE:
                    delta -= packed_pays(pages, dtlb, stlb, hit, walk if entry is None else 10)
                pair(BASE, "spread", access, pages, sweep, delta)
            for pages in DENSE if entry else ():
                delta = translation(pages, access, dtlb, stlb, hit, 10) if entry == BASE else 0
                pair(HUGE, "dense", access, pages, sweep + 100, delta)
    header = {
        "base_page_bytes": str(BASE),
        "huge_page_bytes": str(HUGE) if entry else "NA",
        "packed_spacing_bytes": "192",
        "packed_page_bytes": str(HUGE if entry else BASE),
        "region_bytes": str(HUGE),
    }
    return Table("made-up", header, SAMPLES.columns, tuple(rows), True)


def measured_twice(**changed: float | None) -> Analysis:
    """What the samples of a made-up machine say, with a second pass that confirms them."""
    make: Callable[..., Table] = machine
    return analyse([make(**changed)], [make(**changed, seed=8)])


def packed_pays(lines: int, dtlb: int, stlb: int, hit: float, walk: float) -> float:
    """Lines in random order, several to a page: misses are random, not cyclic."""
    pages = lines * 192 / BASE
    return translation(max(pages, 1), "overlapped", dtlb, stlb, hit, walk)


def value(analysis: Analysis, quantity: str, size: int = BASE, access: str | None = None,
          pages: int | None = None) -> Interval | None:  # fmt: skip
    found = [
        cost
        for cost in analysis.costs
        if (cost.quantity, cost.page_size_bytes) == (quantity, size)
        and (access is None or cost.access == access)
        and (pages is None or cost.pages == pages)
    ]
    assert len(found) == 1
    return found[0].interval


def recorded(name: str) -> Analysis:
    """What a recorded calibration says: its samples, and the passes that confirm them."""
    folder = RECORDED / name
    second = [read_table(file, SAMPLES) for file in sorted(folder.glob("confirmation-*.tsv"))]
    return analyse([read_table(folder / "samples.tsv", SAMPLES)], second)
