# SPDX-License-Identifier: GPL-2.0-or-later
"""How much CPU time may be used now, so that it stays below a share of one CPU?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

# Together below 1 %: for stat, so that one long look at pages does not stop the rest; and for pages
# and all else.
STAT_SHARE, PAGES_SHARE = 0.003, 0.005
# To read every process of a usual host once, before the first screen.
_FIRST_S = 0.25


class Budget:
    """CPU time of this process, in user mode and in the kernel, which writes smaps for it.

    `saved_s`: what was not used is kept for so long.
    """

    def __init__(
        self,
        saved_s: float,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._share, self._clock, self._cpu = share, clock, cpu
        self._saved, self._most = share * saved_s, _FIRST_S
        self._then, self._used, self._left = clock(), cpu(), _FIRST_S

    def left_s(self) -> float:
        """CPU seconds that may be used now; negative after one long look, which takes that back."""
        now, used = self._clock(), self._cpu()
        left = self._left - (used - self._used)
        self._left = min(left + self._share * (now - self._then), self._most)
        self._then, self._used = now, used
        return self._left

    def first_reading_done(self) -> None:
        self._most = self._saved
        self._left = min(self._left, self._most)


class OwnUse:
    """CPU time of this process, and that which reading stat takes, apart."""

    def __init__(self) -> None:
        self._stat_s, self._since = 0.0, 0.0
        self._reads_stat = False
        self._begun: tuple[float, float] | None = None

    @contextlib.contextmanager
    def of_stat(self) -> Iterator[None]:
        """What is used in here is used for stat."""
        self._since, self._reads_stat = time.process_time(), True
        try:
            yield
        finally:
            self._stat_s, self._reads_stat = self.stat_s(), False

    def stat_s(self) -> float:
        return self._stat_s + (time.process_time() - self._since if self._reads_stat else 0.0)

    def others_s(self) -> float:
        return time.process_time() - self.stat_s()

    def fraction(self) -> float | None:
        """Of one CPU since the first reading, which has its own allowance; None before."""
        if self._begun is None:
            return None
        begun, used = self._begun
        seconds = time.monotonic() - begun
        return (time.process_time() - used) / seconds if seconds > 0 else None

    def first_reading_done(self) -> None:
        if self._begun is None:
            self._begun = time.monotonic(), time.process_time()


class Unlimited(Budget):
    """For one reading of everything."""

    def __init__(self) -> None:
        super().__init__(0.0, 0.0)

    def left_s(self) -> float:
        return 1e9
