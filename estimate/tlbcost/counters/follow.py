# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the counters say while they still count? Follows the table as tlbcost-count writes it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tlbcost.common import formats
from tlbcost.counters.tool import Reading, reading


class Intervals:
    """The table so far. `text` is whole once `followed` is left."""

    def __init__(self, n_events: int, show: Callable[[Sequence[Reading]], None]) -> None:
        self.text = ""
        self._n_events = n_events
        self._show = show
        self._rows: list[Reading] = []

    @contextlib.contextmanager
    def followed(self, fifo: Path) -> Iterator[None]:
        """Make `fifo`, for tlbcost-count to write to; each whole interval is shown."""
        os.mkfifo(fifo, 0o600)
        # Opened before there is a writer, which would wait for us otherwise; and our own writing
        # end keeps us from seeing its end before tlbcost-count has opened it.
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        writer = os.open(fifo, os.O_WRONLY | os.O_CLOEXEC)
        os.set_blocking(reader, True)
        thread = threading.Thread(target=self._follow, args=(reader,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.close(writer)
            thread.join()

    def _follow(self, reader: int) -> None:
        with open(reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self.text += line
                cells = line.rstrip("\n").split("\t")
                if line.startswith("#") or len(cells) != len(formats.COUNTERS.columns):
                    continue
                # What is no row is refused later, with the whole table.
                with contextlib.suppress(ValueError):
                    self._add(reading(formats.COUNTERS.columns, cells))

    def _add(self, row: Reading) -> None:
        self._rows.append(row)
        if len(self._rows) == self._n_events:
            self._show(self._rows)
            self._rows = []
