# SPDX-License-Identifier: GPL-2.0-or-later
"""How far has a long step come? One line on a terminal, and announcements."""

from __future__ import annotations

import sys

from tlbcost import units


class Progress:
    """One line on a terminal's stderr that is rewritten, and gone at the end.

    Ask `shown` first: where stderr is no terminal there is no line to rewrite.
    """

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()
        self._dirty = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def announce(self, text: str) -> None:
        """Print a message that stays."""
        self._clear()
        print(f"tlbcost: {text}", file=sys.stderr, flush=True)

    def calibrating(self, percent: int) -> None:
        """How much of the calibration is done."""
        self._show(f"calibrating: {percent} %")

    def simulating(self, seconds: float, native_ns: int) -> None:
        """How long the simulation has taken, beside the native run."""
        native = units.time(native_ns)
        self._show(f"simulating: {seconds:.0f} s so far; natively it took {native}")

    def _show(self, text: str) -> None:
        print(f"\r\033[Ktlbcost: {text}", end="", file=sys.stderr, flush=True)
        self._dirty = True

    def _clear(self) -> None:
        if self._dirty:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._dirty = False
