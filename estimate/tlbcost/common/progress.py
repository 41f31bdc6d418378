# SPDX-License-Identifier: GPL-2.0-or-later
"""How far has a long step come? One line on a terminal, and announcements."""

from __future__ import annotations

import math
import sys
import time

from tlbcost.common import units

_BAR = 20
# Before this much is done, how long the rest takes is anyone's guess.
_TELLING_PERCENT = 5


class Progress:
    """One line on a terminal's stderr that is rewritten, and gone at the end.

    Ask `shown` first: where stderr is no terminal there is no line to rewrite.
    """

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()
        self._dirty = False
        self._begun: tuple[float, int] | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def announce(self, text: str) -> None:
        """Print a message that stays."""
        self._clear()
        print(f"tlbcost: {text}", file=sys.stderr, flush=True)

    def calibrating(self, percent: int) -> None:
        """How much of the calibration is done; the rest of the time is estimated from that."""
        now = time.monotonic()
        if self._begun is None or percent < self._begun[1]:
            self._begun = now, percent
        start, first = self._begun
        bar = ("=" * (_BAR * percent // 100) + ">")[:_BAR]
        left = ""
        if percent - first >= _TELLING_PERCENT:
            seconds = (now - start) * (100 - percent) / (percent - first)
            left = f", {math.ceil(seconds)} s left"
        self._show(f"calibrating [{bar:<{_BAR}}] {percent} %{left}")

    def simulating(self, seconds: float, native_ns: int) -> None:
        """How long the simulation has taken, compared with the native run."""
        native = units.time(native_ns)
        self._show(f"simulating: {seconds:.0f} s so far; natively it took {native}")

    def _show(self, text: str) -> None:
        print(f"\r\033[Ktlbcost: {text}", end="", file=sys.stderr, flush=True)
        self._dirty = True

    def _clear(self) -> None:
        if self._dirty:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._dirty = False
