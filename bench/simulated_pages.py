# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the simulator say of the access patterns on the machine of the article?

workloads/page-patterns, as the article's loop without optimisation, on the TLBs and the published
core of one machine. Its first half draws and touches the places; only windows of the reads count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kept import kept
from tlbcost.machines.estimate import SizeResult, results
from tlbcost.machines.plan import BASE_BYTES, GIB, HUGE_BYTES, machine_named, plan_pass
from tlbcost.run.launch import Launcher
from tlbcost.simulator.counts import ImageViews
from tlbcost.simulator.memory_tables import ImageWindows, WindowPlan
from tlbcost.simulator.run import Simulation

MACHINE = "e5-4617"
# Of the article, in the order of its table.
PATTERNS = range(1, 11)
SIZES = (BASE_BYTES, HUGE_BYTES, GIB)
# Reads that take longer than the drawing of the places, 2^20 at most, so that they are in the
# later half of the references.
READS = 1 << 22
_WINDOWS = WindowPlan(period=200_000, warm=25_000, measured=10_000, most=40)
# By so much a size must differ from base pages to be called slower or faster.
DIRECTION_FRACTION = 0.10


@dataclass(frozen=True, slots=True)
class Simulated:
    """One pattern: results of the sizes, the first of which is the base page."""

    pattern: int
    sizes: tuple[SizeResult, ...]

    def ratio(self, page_bytes: int) -> float | None:
        """Time on this size over that on base pages."""
        found = next(each for each in self.sizes if each.size.page_bytes == page_bytes)
        return None if found.time_ratio is None else found.time_ratio.value


def direction(ratio: float) -> int:
    """1: slower than base pages, -1: faster, 0: within a tenth."""
    return (ratio > 1 + DIRECTION_FRACTION) - (ratio < 1 - DIRECTION_FRACTION)


def within(simulated: float, measured: float, factor: float) -> bool:
    """Whether the two ratios differ by no more than a factor."""
    return 1 / factor <= simulated / measured <= factor


def simulated(
    launcher: Launcher, program: Path, pattern: int, machine: str = MACHINE, *, guesses: bool = True
) -> Simulated:
    """Run one pattern in the simulator; without `guesses` ranges lack what they may change.

    Raises TlbcostError.
    """
    other = machine_named(machine, SIZES, None, None)
    if not guesses:
        other = replace(other, variants=())
    plan = plan_pass([other])
    argv = [str(program), "--pattern", str(pattern), "--plain", "1", "--count", str(READS)]
    found = kept(launcher, plan, _WINDOWS, argv, [*argv[:-1], "1"])
    return Simulated(pattern, results([other], plan, later_half(found))[0].sizes)


def later_half(found: Simulation) -> Simulation:
    """Only the windows of the later half of each image."""
    windows: Sequence[ImageWindows] = found.windows
    views: Sequence[ImageViews] = found.views
    return replace(
        found,
        windows=tuple(
            replace(image, windows=image.windows[len(image.windows) // 2 :]) for image in windows
        ),
        views=tuple(
            replace(image, windows=image.windows[len(image.windows) // 2 :]) for image in views
        ),
    )
