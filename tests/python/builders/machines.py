# SPDX-License-Identifier: GPL-2.0-or-later
"""Other machines, and what the simulator counted and timed on them."""

from __future__ import annotations

from dataclasses import replace

from tlbcost.machines.estimate import MachineEstimates, results
from tlbcost.machines.plan import OtherMachine, machine_named, plan_pass
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.counts import ImageViews, ProcessCounts, Side, SideCounts
from tlbcost.simulator.memory_tables import ImageWindows, Window
from tlbcost.simulator.run import Simulation

BASE, MTHP, HUGE = 4 << 10, 64 << 10, 2 << 20

OUTCOME = Outcome(None, "", None, 0, None, None)

SIDES: tuple[Side, ...] = ("load", "store", "fetch")


def machine(name: str, *sizes: int, guesses: bool = False) -> OtherMachine:
    """One that is published, on base and on huge pages unless asked otherwise; `guesses`: with what
    it is if they are wrong.
    """
    made = machine_named(name, sizes or (BASE, HUGE), None, None)
    return made if guesses else replace(made, variants=())


def counts(walks: int) -> dict[Side, SideCounts]:
    return {side: SideCounts(walks + 1, 1, walks) for side in SIDES}


def simulation(view_cycles: tuple[int, ...], windows: int = 20) -> Simulation:
    """The first machine's windows take 1000 and 800 cycles; the views what is given."""
    seen = {(size, side): SideCounts(5, 2, 3) for size in (BASE, HUGE) for side in SIDES}
    process = ProcessCounts(1, 0, "app", 1, seen, None)
    rows = tuple(Window(100, 1000, 800) for _ in range(windows))
    views = ImageViews(
        {view: counts(view + 10) for view in range(len(view_cycles))},
        100 * windows,
        tuple((100, dict(enumerate(view_cycles))) for _ in range(windows)),
    )
    image = ImageWindows(1, "app", 100 * windows, "x", rows)
    return Simulation((process,), OUTCOME, (image,), views=(views,))


def report(machines: list[OtherMachine], cycles: tuple[int, ...]) -> MachineEstimates:
    found = results(machines, plan_pass(machines), simulation(cycles))
    return MachineEstimates("1", "2026-11-22T00:00:00Z", ("./app",), None, None, found)
