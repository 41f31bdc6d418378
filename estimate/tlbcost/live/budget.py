# SPDX-License-Identifier: GPL-2.0-or-later
"""How much CPU time may be used now, so that it stays below a share of one CPU?"""

from __future__ import annotations

import time
from collections.abc import Callable

# Below 1 %, with something left for what cannot be put off.
SHARE = 0.008
# To read every process of a usual host once, before the first screen.
_FIRST_S = 0.25


class Budget:
    """CPU time of this process, in user mode and in the kernel, which reads smaps for it.

    `saved_s`: what was not used is kept for so long.
    """

    def __init__(
        self,
        saved_s: float,
        share: float = SHARE,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._share, self._clock, self._cpu = share, clock, cpu
        self._saved = share * saved_s
        self._then, self._used, self._left = clock(), cpu(), _FIRST_S
        self._begun: tuple[float, float] | None = None

    def left_s(self) -> float:
        """CPU seconds that may be used now; negative after one long look, which takes that back."""
        now, used = self._clock(), self._cpu()
        left = self._left - (used - self._used)
        # The first allowance is kept until it is used.
        self._left = min(left + self._share * (now - self._then), max(self._saved, left))
        self._then, self._used = now, used
        return self._left

    def used_fraction(self) -> float | None:
        """Of one CPU since the first reading, which has its own allowance; None before."""
        if self._begun is None:
            return None
        begun, used = self._begun
        seconds = self._clock() - begun
        return (self._cpu() - used) / seconds if seconds > 0 else None

    def first_reading_done(self) -> None:
        """From now on used_fraction() counts."""
        if self._begun is None:
            self._begun = self._clock(), self._cpu()


class Unlimited(Budget):
    """For one reading of everything."""

    def left_s(self) -> float:
        """More than anything takes."""
        return 1e9
