# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of the calibrator's timings belong together? Pairs them into curves."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from tlbcost import units
from tlbcost.errors import TlbcostError
from tlbcost.records import Access
from tlbcost.steps import Curve, Floats
from tlbcost.table import Table, count, number

ACCESSES: tuple[Access, ...] = ("serial", "overlapped")
# A footprint with fewer says nothing of its spread.
MIN_SAMPLES = 3

# Keys of the header, e.g. limited_2097152_spread, and what they mean.
_LEFT_OUT = {
    "skipped": "were not measured",
    "limited": "were measured in part",
    "dropped": "were measured less often",
    "stopped": "were not measured to the end",
}
_PARTS = {
    "near": "small footprints of {}",
    "middle": "medium footprints of {}",
    "far": "large footprints of {}",
    "fault": "page faults on {}",
}

CurveKey = tuple[int, str, Access]  # page size in bytes, layout, access


def read_curves(samples: Table) -> tuple[dict[CurveKey, Curve], dict[int, Floats]]:
    """Pair the timings of each sweep, and collect those of the faults by page size; all in ns.

    Raises TlbcostError naming the row that is not one of samples.
    """
    times: dict[tuple[int, str, str], dict[tuple[int, int], float]] = defaultdict(dict)
    faults: dict[int, list[float]] = defaultdict(list)
    for line, row in enumerate(samples.records(), start=1):
        try:
            size, pages = count(row["page_size_bytes"]), count(row["pages"])
            repetition, ns = count(row["repetition"]), number(row["ns"])
        except ValueError as error:
            raise TlbcostError(f"{samples.name}: row {line}: {error}") from error
        if size is None or pages is None or repetition is None or ns is None:
            continue
        if row["probe"] == "fault":
            faults[size].append(ns)
        elif row["layout"] is not None and row["access"] is not None:
            times[size, row["layout"], row["access"]][pages, repetition] = ns
    curves: dict[CurveKey, Curve] = {}
    for size in sorted({size for size, _, _ in times}):
        for access in ACCESSES:
            packed = times.get((size, "packed", access), {})
            for layout in ("spread", "dense"):
                curve = _pair(times.get((size, layout, access), {}), packed)
                if curve is not None:
                    curves[size, layout, access] = curve
    return curves, {size: np.array(values) for size, values in faults.items()}


def _pair(
    apart: dict[tuple[int, int], float], packed: dict[tuple[int, int], float]
) -> Curve | None:
    deltas = {at: apart[at] - packed[at] for at in apart if at in packed}
    by_pages: dict[int, int] = defaultdict(int)
    for pages, _ in deltas:
        by_pages[pages] += 1
    footprints = sorted(pages for pages, n in by_pages.items() if n >= MIN_SAMPLES)
    if not footprints:
        return None
    sweeps = sorted({repetition for _, repetition in deltas})
    matrix = np.array([[deltas.get((p, s), np.nan) for p in footprints] for s in sweeps])
    matrix = matrix[~np.isnan(matrix).all(axis=1)]
    return Curve(np.array(footprints, dtype=np.float64), matrix)


def integer(samples: Table, key: str) -> int:
    """A positive number from the header. Raises TlbcostError if there is none."""
    text = samples.key(key)
    if not text.isdigit() or int(text) == 0:
        raise TlbcostError(f"{samples.name}: {key} is not a positive number: {text}")
    return int(text)


def notes(samples: Table) -> list[str]:
    """What the header says was left out, as sentences without a full stop."""
    said = ((key.split("_"), value) for key, value in samples.header.items())
    return [_note(what, where, value) for (what, *where), value in said if what in _LEFT_OUT]


def _note(what: str, where: list[str], value: str) -> str:
    size = f"{units.size(int(where[0]))} pages" if where[0].isdigit() else f"{where[0]} pages"
    subject = _PARTS.get(where[-1], "{}").format(size)
    reason, _, cause = value.partition(": ")
    return f"{subject} {_LEFT_OUT[what]}: {reason}" + (f" ({cause})" if cause else "")
