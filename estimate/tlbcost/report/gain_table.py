# SPDX-License-Identifier: GPL-2.0-or-later
"""What saves how much: a table whose rows add up to its total, as they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common import units
from tlbcost.common.interval import Interval

_HEAD = ("saved by", "share", "range")
_FAULTS, _MISSES = "fewer page faults", "cheaper TLB misses"
_MORE_PLACES = 2
# A gain that is about 0, and below this in any case, needs no row.
_NOTHING = 0.005


def gain_table(document: EstimateDocument) -> list[str]:
    """The lines of the table: without rows of about nothing, with a total if there are two."""
    measured = document.measured is not None and document.measured.system_fraction is not None
    faults, misses = ("kernel time", "user time") if measured else (_FAULTS, _MISSES)
    parts = {faults: document.fault_fraction, misses: document.expected_fraction}
    total = document.total_fraction
    known = {name: share for name, share in parts.items() if share is not None}
    some = {name: share for name, share in known.items() if not _is_nothing(share)}
    # Without a row the others must still add up, unless all of it hardly matters.
    if document.verdict.code == "not_worth_it" or list(map(_cells, some.values())) == [
        _cells(total)
    ]:
        known = some
    if not known:
        return []
    shares = list(known.values())
    (values,) = _columns(shares, total, lambda share: (share.value,))
    if document.measured is not None:
        # Each interval is that of its own differences: ends do not add up.
        lows, highs = (
            [units.percent(end) for end in ends]
            for ends in zip(*((share.low, share.high) for share in (*shares, total)), strict=True)
        )
    else:
        lows, highs = _columns(shares, total, lambda share: (share.low, share.high))
    times = [units.NOT_OBTAINED] * (len(shares) + 1)
    cpu = document.program.cpu_ns
    if cpu is not None:
        saved = [share.value * cpu for share in shares]
        times = units.sum_of_times(saved, total.value * cpu)
    rows: list[tuple[str, ...]] = [
        (_name(name, value), value, low if low == high else f"{low} to {high}", time)
        for name, value, low, high, time in zip(
            [*known, "total"], values, lows, highs, times, strict=True
        )
    ]
    if document.fault_fraction is None:
        # What was not obtained is not nothing.
        rows.insert(0, (_FAULTS, *[units.NOT_OBTAINED] * 3))
    if len(known) == 1:
        rows.pop()
    last = "CPU time" if document.fractions_of == "CPU time" else "time"
    return _aligned([(*_HEAD, last), *rows])


def _name(name: str, value: str) -> str:
    # Huge pages may cost more to fault in than they save.
    return "page faults" if name == _FAULTS and value.startswith("-") else name


def _is_nothing(share: Interval) -> bool:
    return units.percent(share.value) in (units.ZERO, units.ABOUT_ZERO) and share.high < _NOTHING


def _cells(share: Interval) -> list[str]:
    return [units.percent(end) for end in (share.value, share.low, share.high)]


def _columns(
    parts: Sequence[Interval],
    total: Interval,
    ends: Callable[[Interval], Sequence[float]],
) -> list[list[str]]:
    """The parts' ends and the total's in percent, with the fewest digits that add up."""
    columns: list[list[str]] = []
    for more in range(_MORE_PLACES + 1):
        columns = [
            [_percent(value, values[-1], more) for value in values]
            for values in zip(*map(ends, [*parts, total]), strict=True)
        ]
        for column, wanted in zip(columns, ends(total), strict=True):
            column[-1] = units.percent(wanted)
        if len(parts) == 1 or all(map(_adds_up, columns)):
            break
    return columns


def _percent(fraction: float, total: float, more: int) -> str:
    """As others write it; or with as many places more as the total needs."""
    if not more:
        return units.percent(fraction)
    places = more if abs(total) >= 0.0995 else more + 1
    return f"{100 * fraction:.{places}f} %"


def _adds_up(column: Sequence[str]) -> bool:
    *parts, total = map(_number, column)
    return units.percent(sum(parts) / 100) == units.percent(total / 100)


def _number(cell: str) -> float:
    return 0.0 if cell == units.ABOUT_ZERO else float(cell.removesuffix(" %"))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  "
        f"{row[3]:>{widths[3]}}"
        for row in rows
    ]
