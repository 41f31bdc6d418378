# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up samples of the calibrator, curve by curve."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from builders.tree import TREE
from tlbcost.calibration.analysis.quantities import Analysis, analyse
from tlbcost.common.formats import SAMPLES, Table, read_table
from tlbcost.common.units import Interval

BASE, HUGE, GIANT = 4096, 2 << 20, 1 << 30
LADDER = tuple(int(n) for n in np.unique(np.round(np.geomspace(4, 16384, 70))))
SWEEPS = 10
Row = tuple[str | None, ...]
RECORDED = TREE / "data" / "samples"
TLBS_LADDER = (
    8, 16, 32, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 160, 208, 272, 352, 448, 512, 576,
    640, 768, 896, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048, 2176, 2304, 2560,
    2816, 3072, 3584, 4096, 6144, 8192, 16384,
)  # fmt: skip
DENSE = (64, 1024, 4096, 8192, 16384)


def table(*parts: Iterable[Row], **header: str) -> Table:
    keys = {
        "base_page_bytes": str(BASE),
        "huge_page_bytes": str(HUGE),
        "packed_spacing_bytes": "192",
        "packed_page_bytes": str(HUGE),
        "region_bytes": str(HUGE),
    }
    rows = tuple(row for part in parts for row in part)
    return Table("made-up", keys | header, SAMPLES.columns, rows, True)


def curve(
    probe: str,
    layout: str,
    access: str,
    ns: Callable[[int], float],
    ladder: Iterable[int] = LADDER,
    *,
    size: int = BASE,
    spacing: int | None = None,
    seed: int = 1,
    paired: bool = True,
    noise: float = 0.05,
) -> list[Row]:
    """Sweeps over a ladder; `ns` is the time above that of the packed chain."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for sweep in range(SWEEPS):
        for lines in ladder:
            packed = 2.0 if paired else 0.0
            time = packed + ns(lines) + random.normal(0, noise)
            rows.append((probe, str(size), layout, str(spacing or size), access, str(lines),
                         str(sweep), f"{time:.4f}", f"{packed}" if paired else None))  # fmt: skip
    return rows


def single(probe: str, size: int | None, values: Iterable[float]) -> list[Row]:
    return [
        (probe, None if size is None else str(size), None, None, None, None, str(i), f"{ns:.5f}",
         None)
        for i, ns in enumerate(values)
    ]  # fmt: skip


def two_levels(first: int = 64, second: int = 1536) -> Callable[[int], float]:
    """Hits cost 2 ns and walks 20."""
    return lambda lines: 20.0 if lines > second else 2.0 if lines > first else 0.0


def step_at(end: int, ns: float = 2.0) -> Callable[[int], float]:
    """So much from there on."""
    return lambda lines: ns * (lines > end)


def always(ns: float) -> Callable[[int], float]:
    """The same at every footprint."""
    return lambda _: ns


def twice(make: Callable[[int], Table]) -> Analysis:
    return analyse([make(1)], [make(2)])


def values(analysis: Analysis, quantity: str) -> list[Interval | None]:
    return [cost.interval for cost in analysis.costs if cost.quantity == quantity]


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
            for pages in TLBS_LADDER:
                delta = translation(pages, access, dtlb, stlb, hit, walk)
                # Packed lines in base pages need entries too, and lower the difference.
                if entry != HUGE:
                    delta -= packed_pays(pages, dtlb, stlb, hit, walk if entry is None else 10)
                pair(BASE, "spread", access, pages, sweep, delta)
            for pages in DENSE if entry else ():
                delta = translation(pages, access, dtlb, stlb, hit, 10) if entry == BASE else 0
                pair(HUGE, "dense", access, pages, sweep + 100, delta)
    sizes = (str(HUGE), str(HUGE)) if entry else ("NA", str(BASE))
    return table(rows, huge_page_bytes=sizes[0], packed_page_bytes=sizes[1])


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
    folder = RECORDED / name
    second = [read_table(file, SAMPLES) for file in sorted(folder.glob("confirmation-*.tsv"))]
    return analyse([read_table(folder / "samples.tsv", SAMPLES)], second)
