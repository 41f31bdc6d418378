# SPDX-License-Identifier: GPL-2.0-or-later
"""How far has a long step come? One line on a terminal, and announcements."""

from __future__ import annotations

import sys

from tlbcost import units


class Progress:
    """One line on a terminal's stderr that is rewritten, and gone at the end."""

    def __init__(self, native_ns: int) -> None:
        self.shown = sys.stderr.isatty()
        self._native_ns = native_ns
        self._dirty = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def announce(self, text: str) -> None:
        self._clear()
        print(f"tlbcost: {text}", file=sys.stderr, flush=True)

    def percent(self, percent: int) -> None:
        self._show(f"calibrating: {percent} %")

    def simulating(self, seconds: float) -> None:

        native = units.time(self._native_ns)
        self._show(f"simulating: {seconds:.0f} s so far; natively it took {native}")

    def _show(self, text: str) -> None:
        print(f"\r\033[Ktlbcost: {text}", end="", file=sys.stderr, flush=True)
        self._dirty = True

    def _clear(self) -> None:
        if self._dirty:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._dirty = False
