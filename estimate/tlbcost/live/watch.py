# SPDX-License-Identifier: GPL-2.0-or-later
"""How is the host read once, or watched until somebody wants no more?"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tlbcost.common.document import now
from tlbcost.common.output import write
from tlbcost.common.paths import version
from tlbcost.live.budget import PAGES_SHARE, STAT_SHARE, Budget, OwnUse, Unlimited
from tlbcost.live.document import By, TopDocument, in_order, rows_of
from tlbcost.live.host import HostReader, hides_processes
from tlbcost.live.keys import SortKey
from tlbcost.live.openmetrics import openmetrics
from tlbcost.live.processes import Processes
from tlbcost.live.screen import Screen
from tlbcost.live.view import KEYS, picture
from tlbcost.memory.areas import Reaches
from tlbcost.system.machine import Machine

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
        self._faults: Budget = Unlimited()
        self._pages: Budget = Unlimited()
        if limited:
            self._faults = Budget(saved_s, STAT_SHARE, cpu=self._own.stat_s)
            self._pages = Budget(saved_s, PAGES_SHARE, cpu=self._own.others_s)
        self._processes = Processes(grouped=request.by == "cgroup")
        self._host = HostReader()
        self._hidden = hides_processes()

    def refresh(self, sort: SortKey) -> TopDocument:
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
    host.refresh(request.sort)
    time.sleep(request.interval_s)
    document = host.refresh(request.sort)
    _write(request, document)
    return document


def watch(request: TopRequest, screen: Screen | None) -> None:
    """Refresh until q is typed, or forever without a screen. Raises TlbcostError as once()."""
    host = _ThisHost(request, limited=True)
    if screen is None:
        while True:
            _write(request, host.refresh(request.sort))
            time.sleep(request.interval_s)
    with screen.open():
        sort = request.sort
        while True:
            due = time.monotonic() + request.interval_s
            document = host.refresh(sort)
            _write(request, document)
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


def _write(request: TopRequest, document: TopDocument) -> None:
    if request.openmetrics is not None:
        write(request.openmetrics, openmetrics(document))
