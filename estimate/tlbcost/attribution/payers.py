# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of a program's memory pays for translation, and what would huge pages for it alone give?

One Payer is one mapping, or all of the same kind and name in one program. What was not obtained is
None. Shares of all payers of an estimate sum to the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from tlbcost.common.interval import Interval
from tlbcost.memory.kinds import Backing, MemoryKind
from tlbcost.simulator.memory_tables import SourceLocation


@dataclass(frozen=True, slots=True)
class Payer:
    """One mapping's part in the misses, the time and the gain.

    `name`: the path, or `[heap]`, `[stack]`, `[bss]`, `anonymous memory`. `touched_bytes`: base
    pages that the program referred to; `touched_huge_bytes`: what it takes on huge pages, by the
    regions that they lie in. `misses_fraction`, `huge_misses_fraction`: of all walks on base pages,
    and on huge ones. `time_fraction`: of the time in translation on base pages. `gain_fraction`:
    part of the run time that huge pages for this memory alone should give back. `sites`: where it
    was allocated, with their share of its misses, most first. `samples`: that `misses_fraction`
    rests on, with its 95 % interval; None: it was simulated.
    """

    program: str
    kind: MemoryKind
    name: str
    size_bytes: int | None
    touched_bytes: int | None
    touched_huge_bytes: int | None
    code: bool
    misses_fraction: float | None
    huge_misses_fraction: float | None
    time_fraction: float | None
    huge_time_fraction: float | None
    gain_fraction: Interval | None
    sites: tuple[tuple[SourceLocation, float], ...] = ()
    backed: Backing | None = None
    samples: int | None = None
    misses_interval: Interval | None = None

    @property
    def mapped_bytes(self) -> int:
        """`size_bytes` of memory whose size is known; remedies are for no other."""
        assert self.size_bytes is not None
        return self.size_bytes


def on_huge_bytes(touched_bytes: int, huge_pages: int, mapped_bytes: int, huge_bytes: int) -> int:
    """What touched memory takes on huge pages, of which it touches so many.

    A huge page does not fit into less, and no more is taken than is mapped.
    """
    if mapped_bytes < huge_bytes:
        return touched_bytes
    return max(touched_bytes, min(huge_pages * huge_bytes, mapped_bytes))
