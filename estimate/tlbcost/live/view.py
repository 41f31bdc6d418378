# SPDX-License-Identifier: GPL-2.0-or-later
"""How is it shown to people, in as many columns and lines as there are?

The lines are made here, and not by Rich's tables: laying out one of 40 rows takes 40 ms, which is
all that may be used in two refreshes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import print_whole
from tlbcost.common.progress import duration
from tlbcost.live.document import Row, TopDocument
from tlbcost.live.keys import SortKey

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_NAME_COLUMNS = 12
_NARROWEST_NAME = 8
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


@dataclass(frozen=True, slots=True)
class _Column:
    """`rank`: the highest is left out first where there are few columns."""

    sort: SortKey
    key: str
    title: str
    width: int
    rank: int
    shown: Callable[[Row], str]


def _size(value: int | None) -> str:
    return units.NOT_OBTAINED if value is None else units.size(value)


def _ratio(value: float | None) -> str:
    if value is None:
        return units.NOT_OBTAINED
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def _rate(value: float | None) -> str:
    return units.NOT_OBTAINED if value is None else units.count(round(value))


def _age(value: float | None) -> str:
    return units.NOT_OBTAINED if value is None else duration(value)


_COLUMNS = (
    _Column("memory", "m", "memory", 9, 0, lambda row: _size(row.memory_bytes)),
    _Column("huge", "h", "on huge", 9, 1, lambda row: _size(row.huge_bytes)),
    _Column("eligible", "e", "eligible", 9, 2, lambda row: _size(row.eligible_bytes)),
    _Column("ineligible", "n", "not elig.", 9, 7, lambda row: _size(row.ineligible_bytes)),
    _Column("reach", "r", "x reach", 7, 3, lambda row: _ratio(row.reach_ratio)),
    _Column("faults", "f", "faults/s", 8, 4, lambda row: _rate(row.fault_rate)),
    _Column("age", "a", "age", 6, 6, lambda row: _age(row.age_s)),
)
_PID = _Column("pid", "p", "pid", 7, 5, lambda row: str(row.pid))
KEYS: dict[str, SortKey] = {each.key: each.sort for each in (*_COLUMNS, _PID)}
_HELP = "q quit; sort by " + ", ".join(
    f"{each.key} {each.title.rstrip('.')}" for each in (*_COLUMNS, _PID)
)


def picture(document: TopDocument, sort: SortKey, width: int, height: int | None) -> Text:
    """All of it: what the host has, the rows that fit, and the keys. `height`: None: all rows."""
    from rich.text import Text

    lines = _head(document, sort)
    room = len(document.rows) if height is None else max(height - len(lines) - 2, 1)
    columns = _fitting(document, width)
    name = max(width - sum(column.width + 1 for column in columns), 1)
    text = Text("\n".join(line[:width] for line in lines), no_wrap=True, overflow="crop")
    text.append("\n")
    for part, column in _parts(document.by, columns, name, lambda column: column.title):
        chosen = column is not None and column.sort == sort
        text.append(part, style="bold reverse" if chosen else "bold")
    text.append("".join(f"\n{_line(row, columns, name)}" for row in document.rows[:room]))
    if height is not None:
        more = len(document.rows) - room
        last = f"{more} more; {_HELP}" if more > 0 else _HELP
        text.append("\n" * max(-more, 0))
        text.append(f"\n{last[:width]}", style="dim")
    return text


def print_once(document: TopDocument, file: TextIO, *, sort: SortKey) -> None:
    def fill(console: Console) -> None:
        console.print(picture(document, sort, console.width, None))

    print_whole(fill, file)


def _head(document: TopDocument, sort: SortKey) -> list[str]:
    host = document.host
    pools = [
        f"pool of {units.size(each.page_size_bytes)} pages: {units.size(each.free_bytes)} of "
        f"{units.size(each.total_bytes)} free"
        for each in host.pools
        if each.total_bytes and each.free_bytes is not None
    ]
    own = document.own_cpu_fraction
    mode = host.thp_mode or "not in this kernel"
    return [
        f"tlbcost top  {document.date[11:19]} UTC, by {sort}"
        + ("" if own is None else f", own CPU {units.percent(own)}"),
        f"THP {mode}: {_size(host.thp_bytes)} of {_size(host.memory_bytes)} on them, "
        f"{_rate(host.fallback_rate)} fallbacks/s" + "".join(f"; {each}" for each in pools),
        ", ".join(_counts(document)),
    ]


def _counts(document: TopDocument) -> list[str]:
    processes = sum(row.processes for row in document.rows)
    found = [f"{processes} processes"]
    if document.by == "cgroup":
        found.append(f"{len(document.rows)} cgroups")
    if document.unreadable:
        found.append(f"{document.unreadable} of this host's may not be read (NA)")
    if document.hidden:
        found.append("others are hidden (hidepid)")
    for what, values in (
        ("pages", [row.age_s for row in document.rows]),
        ("eligible", [row.eligible_age_s for row in document.rows]),
    ):
        ages = [age for age in values if age is not None]
        if ages:
            found.append(f"{what} read up to {duration(max(ages))} ago")
    return found


def _fitting(document: TopDocument, width: int) -> Sequence[_Column]:
    """The columns that fit, with memory always."""
    offered = (_PID, *_COLUMNS) if document.by == "process" else _COLUMNS
    chosen: list[_Column] = []
    left = width
    for column in sorted(offered, key=lambda each: each.rank):
        left -= column.width + 1
        if chosen and left < (_NARROWEST_NAME if len(chosen) < 2 else _NAME_COLUMNS):
            break
        chosen.append(column)
    return [column for column in offered if column in chosen]


def _line(row: Row, columns: Sequence[_Column], name: int) -> str:
    # One column for each character, and none that a terminal would obey.
    printable = _UNPRINTABLE.sub("?", row.name)
    parts = _parts(printable, columns, name, lambda column: column.shown(row))
    return "".join(part for part, _ in parts)


def _parts(
    name: str, columns: Sequence[_Column], width: int, cell: Callable[[_Column], str]
) -> Iterator[tuple[str, _Column | None]]:
    """The cells of a line, the pid before the name and figures after it."""
    for column in columns:
        if column is _PID:
            yield f"{cell(column):>{column.width}}", column
            yield " ", None
    yield f"{units.shortened(name, width) if width > 3 else name[:width]:<{width}}", None
    for column in columns:
        if column is not _PID:
            yield f" {cell(column):>{column.width}}"[-column.width - 1 :], column
