# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up samples of the calibrator, curve by curve."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from tlbcost.calibration.analysis.quantities import Analysis, analyse
from tlbcost.common.formats import SAMPLES
from tlbcost.common.interval import Interval
from tlbcost.common.table import Table

BASE, HUGE, GIANT = 4096, 2 << 20, 1 << 30
LADDER = tuple(int(n) for n in np.unique(np.round(np.geomspace(4, 16384, 70))))
SWEEPS = 10
Row = tuple[str | None, ...]


def table(*parts: Iterable[Row], **header: str) -> Table:
    """A `samples` table of a machine with 2 MiB pages."""
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
    """Timings without a footprint."""
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
    """The analysis of two measurements, which differ in their seed."""
    return analyse([make(1)], [make(2)])


def values(analysis: Analysis, quantity: str) -> list[Interval | None]:
    """All rows of a quantity."""
    return [cost.interval for cost in analysis.costs if cost.quantity == quantity]
