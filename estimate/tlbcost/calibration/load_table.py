# SPDX-License-Identifier: GPL-2.0-or-later
"""What do loads cost, to people? A table of a report; at most 80 columns."""

from __future__ import annotations

from tlbcost.calibration.costs import find
from tlbcost.calibration.loads import MOST_HALF_LIFE_NS, UNIT_BYTES
from tlbcost.calibration.records import Calibration
from tlbcost.common import units
from tlbcost.common.interval import Interval

_COLUMNS = (("load_ns", "serial"), ("load_ns", "overlapped"), ("stream_ns", None))


def load_table(calibration: Calibration, clock: Interval | None) -> list[str]:
    """Loads by footprint; empty if they were not measured. `clock`: core cycles per ns."""
    found: dict[tuple[str, str | None, int | None], Interval | None] = {
        (cost.quantity, cost.access, cost.pages): cost.interval
        for cost in calibration.costs
        if (cost.quantity, cost.access) in _COLUMNS
    }
    rows = []
    # Lines that no cache holds have no footprint.
    for pages in sorted({pages for _, _, pages in found}, key=lambda n: (n is None, n or 0)):
        cells = [
            _cell(found[*column, pages]) if (*column, pages) in found else " " * 22
            for column in _COLUMNS
        ]
        serial = found.get((*_COLUMNS[0], pages))
        cycles = units.NOT_OBTAINED
        if serial is not None and clock is not None:
            cycles = units.nanoseconds(serial.value * clock.value)
        where = "memory" if pages is None else units.size(pages * UNIT_BYTES)
        rows.append(f"{where:>9}{cells[0]}{cycles:>5}{cells[1]}{cells[2]}")
    if not rows:
        return []
    head = f"{'ns':>6}  {'95 % interval':<14}"
    return [
        f"{'Loads':<11}{'serial':<27}{'overlapped':<22}in order, 64 bytes",
        f"{'footprint':>9}{head}{'cyc.':>5}{head}{head}",
        *rows,
        *_half_life(calibration),
    ]


def _half_life(calibration: Calibration) -> list[str]:
    """The half-life of lines in the last-level cache; empty if that was not measured."""
    found = find(calibration, "l3_half_life_ns", None)
    if not found:
        return []
    label = "Half of the lines that are not accessed leave the last-level cache in"
    half_life = found[0].interval
    if half_life is None:
        return [label, f"{units.NOT_OBTAINED:>9}"]
    if half_life.value >= MOST_HALF_LIFE_NS:
        return [label, f"{units.time(MOST_HALF_LIFE_NS):>9}  or more"]
    return [
        label,
        f"{units.time(half_life.value):>9}  {units.times(half_life.low, half_life.high)}",
    ]


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return f"{units.NOT_OBTAINED:>6}{'':16}"
    low, high = units.nanoseconds(interval.low), units.nanoseconds(interval.high)
    return f"{units.nanoseconds(interval.value):>6}  {f'{low} .. {high}':<14}"
