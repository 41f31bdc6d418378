# SPDX-License-Identifier: GPL-2.0-or-later
"""What do loads cost from the first cache to memory, and how long do lines stay in the last?"""

from __future__ import annotations

from dataclasses import astuple, replace

from tlbcost.calibration.analysis.samples import Samples
from tlbcost.calibration.loads import UNIT_BYTES
from tlbcost.calibration.records import Access, Cost
from tlbcost.common.interval import Interval

# The calibrator's ladders, in lines: a footprint that it could not measure has a row too.
LOADS = (256, 2048, 8192, 65536, 262144, 1048576, 4194304)
STREAM = (262144, 4194304)
MEMORY = (131072,)
RESIDENCY = (65536,)
# Nearer lines come so fast that the loop itself, not the core's loads at once, is the limit.
_OVERLAPPED_FROM = 65536
_GROUPS = frozenset({"loads", "stream", "memory", "residency"})


def load_rows(samples: Samples) -> list[Cost]:
    """`load_ns`, `stream_ns`, `l3_half_life_ns` as rows of a calibration; none if not asked for."""
    probes = {key.probe for key in samples.curves}
    if not probes & {"load", "stream"} and not samples.skipped & _GROUPS:
        return []
    far = tuple(lines for lines in LOADS if lines >= _OVERLAPPED_FROM)
    return [
        *_rows(samples, ("load", "serial"), "load_ns", "serial", LOADS),
        *_rows(samples, ("load", "independent"), "load_ns", "overlapped", far),
        # From memory, however many lines it was measured over.
        *(
            replace(row, pages=None)
            for row in _rows(samples, ("load", "flushed"), "load_ns", "serial", MEMORY)
        ),
        *_rows(samples, ("stream", "sequential"), "stream_ns", None, STREAM),
        *_rows(samples, ("residency", "serial"), "l3_half_life_ns", None, RESIDENCY),
    ]


def _rows(
    samples: Samples,
    kind: tuple[str, str],
    quantity: str,
    access: Access | None,
    footprints: tuple[int, ...],
) -> list[Cost]:
    """A row for each footprint (in lines), obtained or not. `kind`: probe and access."""
    units = (samples.line_bytes or UNIT_BYTES) / UNIT_BYTES
    # Reads in order are told per 64 bytes, however long a line is.
    share = units if quantity == "stream_ns" else 1.0
    found: dict[int, tuple[Interval | None, int]] = {}
    for key, curve in samples.curves.items():
        if (key.probe, key.access) == kind:
            for i, lines in enumerate(curve.lines):
                found[int(lines)] = curve.interval(i), len(curve.column(i))
    rows = []
    for lines in footprints:
        interval, n = found.get(lines, (None, 0))
        if interval is not None:
            interval = Interval(*(ns / share for ns in astuple(interval)))
        rows.append(Cost(quantity, None, access, round(lines * units), interval, n))
    return rows
