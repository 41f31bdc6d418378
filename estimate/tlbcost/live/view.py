# SPDX-License-Identifier: GPL-2.0-or-later
"""The host read once or watched, and drawn on a terminal.

The lines are made here, and not by Rich's tables: laying out one of 40 rows takes 40 ms, which is
all that may be used in two refreshes.

Whatever ends us, and while Ctrl-Z has us stopped.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from tlbcost.common import units
from tlbcost.common.cleanup import signals_deferred
from tlbcost.common.console import is_styled, print_whole
from tlbcost.common.document import now
from tlbcost.common.output import write
from tlbcost.common.paths import version
from tlbcost.common.progress import duration
from tlbcost.live.document import (
    By,
    HostReader,
    Row,
    TopDocument,
    hides_processes,
    in_order,
    openmetrics,
    rows_of,
)
from tlbcost.live.keys import SortKey
from tlbcost.live.processes import PAGES_SHARE, STAT_SHARE, Budget, OwnUse, Processes, Unlimited
from tlbcost.memory.areas import Reaches
from tlbcost.system.machine import Machine

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


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def _rate(value: float) -> str:
    return units.count(round(value))


_COLUMNS = (
    _Column("memory", "m", "memory", 9, 0, lambda row: units.size(row.memory_bytes)),
    _Column("huge", "h", "on huge", 9, 1, lambda row: units.size(row.huge_bytes)),
    _Column("eligible", "e", "eligible", 9, 2, lambda row: units.size(row.eligible_bytes)),
    _Column(
        "ineligible",
        "n",
        "not elig.",
        9,
        7,
        lambda row: units.size(row.ineligible_bytes),
    ),
    _Column("reach", "r", "x reach", 7, 3, lambda row: units.known(row.reach_ratio, _ratio)),
    _Column("faults", "f", "faults/s", 8, 4, lambda row: units.known(row.fault_rate, _rate)),
    _Column("age", "a", "age", 6, 6, lambda row: units.known(row.age_s, duration)),
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
        f"THP {mode}: {units.size(host.thp_bytes)} of "
        f"{units.size(host.memory_bytes)} on them, "
        f"{units.known(host.fallback_rate, _rate)} fallbacks/s"
        + "".join(f"; {each}" for each in pools),
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


# What arrows and the like send.
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;]*[@-~]|O.|)")


def can_draw() -> bool:
    """Whether standard output is a terminal that pictures can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


class Screen:
    """The alternate screen of the terminal. Keys come from standard input, if that is one too."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        styled = is_styled(sys.stdout)
        self._console = Console(
            file=sys.stdout,
            force_terminal=True,
            color_system="standard" if styled else None,
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._input: int | None = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._saved = None if self._input is None else termios.tcgetattr(self._input)
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        handlers = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, lambda *_: None),
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, self._stop),
        }
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        try:
            self._enter()
            yield
        finally:
            with signals_deferred():
                self._leave()
                signal.set_wakeup_fd(-1)
                for number, handler in handlers.items():
                    signal.signal(number, handler)
                os.close(self._woken)
                os.close(self._wake)

    def _enter(self) -> None:
        if self._input is not None:
            tty.setcbreak(self._input, termios.TCSADRAIN)
        self._live.start()

    def _leave(self) -> None:
        # The terminal may be gone.
        with contextlib.suppress(OSError):
            self._live.stop()
        if self._input is not None and self._saved is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._input, termios.TCSADRAIN, self._saved)

    def _stop(self, *_: object) -> None:
        """Ctrl-Z: the shell gets its terminal back until we continue."""
        self._leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stop)
        self._enter()

    def draw(self, picture: Callable[[int, int], Text]) -> None:
        width, height = self._console.size
        self._live.update(picture(width, height), refresh=True)

    def keys(self, until: float) -> str:
        """What was typed, as soon as it is; empty: nothing until this time (time.monotonic), or
        the terminal changed.
        """
        waiting = [self._woken, *([] if self._input is None else [self._input])]
        ready, _, _ = select.select(waiting, [], [], max(until - time.monotonic(), 0))
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 512)
        if self._input not in ready or self._input is None:
            return ""
        typed = os.read(self._input, 512)
        if not typed:
            # The terminal is gone.
            self._input = None
        return _SEQUENCE.sub(b"", typed).decode(errors="replace")


_QUIT = "q"
_SAVED_INTERVALS = 2


@dataclass(frozen=True, slots=True)
class TopRequest:
    """What is to be read. `interval_s`: between two refreshes, and for rates."""

    by: By
    sort: SortKey
    interval_s: float
    machine: Machine
    reaches: Reaches
    openmetrics: Path | None = None


class _ThisHost:
    """What is known of this host so far."""

    def __init__(self, request: TopRequest, *, limited: bool) -> None:
        self._request, self._own = request, OwnUse()
        saved_s = _SAVED_INTERVALS * request.interval_s
        unlimited = None if limited else Unlimited()
        self._faults = unlimited or Budget(saved_s, STAT_SHARE, cpu=self._own.stat_s)
        self._pages = unlimited or Budget(saved_s, PAGES_SHARE, cpu=self._own.others_s)
        self._processes = Processes(grouped=request.by == "cgroup")
        self._host = HostReader()
        self._hidden = hides_processes()

    def refresh(self, sort: SortKey) -> TopDocument:
        """Read, and write the gauges if asked to. Raises TlbcostError."""
        document = self.read(sort)
        if self._request.openmetrics is not None:
            write(self._request.openmetrics, openmetrics(document))
        return document

    def read(self, sort: SortKey) -> TopDocument:
        with self._own.of_stat():
            self._processes.refresh_faults(self._faults)
        self._processes.refresh_pages(self._pages)
        request = self._request
        rows = rows_of(self._processes.seen(), request.by, request.reaches, time.monotonic())
        document = TopDocument(
            tlbcost_version=version(),
            date=now(),
            machine=request.machine,
            reach=request.reaches,
            host=self._host.read(),
            by=request.by,
            unreadable=self._processes.unreadable,
            hidden=self._hidden,
            own_cpu_fraction=self._own.fraction(),
            rows=tuple(in_order(rows, sort)),
        )
        for each in (self._own, self._faults, self._pages):
            each.first_reading_done()
        return document


def once(request: TopRequest) -> TopDocument:
    """Read all twice, an interval apart, for rates. Raises TlbcostError without pages or file."""
    host = _ThisHost(request, limited=False)
    host.read(request.sort)
    time.sleep(request.interval_s)
    return host.refresh(request.sort)


def watch(request: TopRequest, screen: Screen | None) -> None:
    """Refresh until q is typed, or forever without a screen. Raises TlbcostError as once()."""
    host = _ThisHost(request, limited=True)
    if screen is None:
        while True:
            host.refresh(request.sort)
            time.sleep(request.interval_s)
    with screen.open():
        sort = request.sort
        while True:
            due = time.monotonic() + request.interval_s
            document = host.refresh(sort)
            while True:
                screen.draw(functools.partial(picture, document, sort))
                typed = screen.keys(due)
                if _QUIT in typed:
                    return
                chosen = next((KEYS[key] for key in reversed(typed) if key in KEYS), sort)
                if chosen != sort:
                    sort = chosen
                    rows = tuple(in_order(document.rows, sort))
                    document = msgspec.structs.replace(document, rows=rows)
                if time.monotonic() >= due:
                    break
