# SPDX-License-Identifier: GPL-2.0-or-later
"""How are decisions about pages of another process carried out, and allocation modes put back?

No setting of the system is written. What a page cannot do is counted, and said.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tlbcost.common.cleanup import signals_deferred
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.progress import say
from tlbcost.numa.watch import kernel
from tlbcost.numa.watch.decide import Action
from tlbcost.numa.watch.process import LiveProcess
from tlbcost.settings.change import system_settings
from tlbcost.system import hints
from tlbcost.system.huge_pages import huge_settings
from tlbcost.thp.process import ask_process, make_huge_page

# Another tlbcost that changes settings is not waited for longer: the next interval comes.
_WAIT_S = 1.0
# What a page that is gone is: neither moved nor refused.
_ABSENT = (-errno.ENOENT, -errno.ESRCH)


@dataclass(slots=True)
class ActionResult:
    """The result of an action. `refused`: why pages were not moved, and how many."""

    moved: list[int] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)
    stuck_regions: list[int] = field(default_factory=list)
    done_regions: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    ns: int = 0
    failed: str | None = None


def check_rights() -> None:
    """Raises TlbcostError, 4, if this user cannot act on another process's pages, or record it."""
    if os.geteuid() != 0:
        raise TlbcostError(
            "cannot split pages of a process, and put its allocation back: that needs root",
            hints.again_as_root(),
            CANNOT_MEASURE,
        )


def collapse(pid: int, start: int, bytes_: int) -> None:
    """Make a huge page of base pages. Raises OSError.

    Before Linux 6.18 the kernel makes none of those that the process has only read since a copy was
    taken of it, which are read-only in its page tables: then one of its threads has to help.
    """
    try:
        kernel.collapse(pid, start, bytes_)
    except OSError as error:
        if error.errno != errno.EINVAL or not make_huge_page(pid, start):
            raise


class Actor:
    """Acts on one process; put_back() is for its end."""

    def __init__(self, process: LiveProcess, fold: int, page_bytes: int) -> None:
        self._process, self._page_bytes = process, page_bytes
        self._huge_bytes = fold * page_bytes
        self._switched = False
        self.asked = False

    def do(self, action: Action) -> ActionResult:
        """Do it; what cannot be done is in the outcome. A signal to end waits for a part of it."""
        outcome = ActionResult()
        begin = time.monotonic_ns()
        if action.kind in ("stop_huge", "allocate_huge"):
            self._switch(outcome, on=action.kind == "allocate_huge")
        else:
            self._regions(action, outcome)
            self._move(action, outcome)
        outcome.ns = time.monotonic_ns() - begin
        return outcome

    def _switch(self, outcome: ActionResult, *, on: bool) -> None:
        process = self._process
        try:
            with system_settings(wait_s=_WAIT_S) as settings:
                settings.outlive()
                self._switched = True
                settings.switch_thp(process.pid, process.started, on=on)
            if on and huge_settings(process.pid).thp == "madvise" and not self.asked:
                # madvise() cannot be taken back: only the memory mapped now is asked for.
                ask_process(process.pid, collapse=False)
                self.asked = True
        except TlbcostError as error:
            outcome.failed = str(error)

    def _regions(self, action: Action, outcome: ActionResult) -> None:
        change = collapse if action.kind == "promote" else kernel.split
        for region in map(int, action.regions):
            with signals_deferred():
                try:
                    change(self._process.pid, region * self._huge_bytes, self._huge_bytes)
                except OSError as error:
                    if error.errno == errno.ESRCH:
                        outcome.failed = "the process has ended"
                        return
                    outcome.stuck_regions.append(region)
                    outcome.refused[error.strerror or "failed"] += 1
                else:
                    outcome.done_regions += 1

    def _move(self, action: Action, outcome: ActionResult) -> None:
        pages = [int(page) for page in action.pages]
        if not pages or outcome.failed:
            return
        to = [int(node) for node in action.to]
        try:
            with signals_deferred():
                addresses = [page * self._page_bytes for page in pages]
                status = kernel.move(self._process.pid, addresses, to)
        except OSError as error:
            outcome.failed = f"pages cannot be moved: {error.strerror}"
            return
        for page, node, now in zip(pages, to, status, strict=True):
            if now == node:
                outcome.moved.append(page)
            elif now not in _ABSENT:
                outcome.stuck.append(page)
                outcome.refused[os.strerror(-now) if now < 0 else "it stayed"] += 1

    def put_back(self) -> None:
        if not self._switched:
            return
        with signals_deferred():
            try:
                with system_settings():
                    self._switched = False
            except TlbcostError as error:
                say(f"{error}: 'tlbcost pool restore' puts back what process had")


@contextmanager
def acting(actor: Actor | None) -> Iterator[None]:
    """However this ends, allocation modes are put back."""
    try:
        yield
    finally:
        if actor is not None:
            actor.put_back()


def undo(pid: int) -> int:
    """Put back what a killed watch changed; returns how many are left. Raises TlbcostError."""
    with system_settings() as settings:
        if not settings.found:
            say(f"nothing to put back: no change of tlbcost's of process {pid} is left")
        return settings.restore_left()
