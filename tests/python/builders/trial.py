# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up trials: pairs of runs, their memory, and what was predicted."""

from __future__ import annotations

from dataclasses import replace

from builders.answer import MACHINE
from tlbcost.measured.method import Method
from tlbcost.memory.peak import MemoryPart, PeakMemory
from tlbcost.model.gain import PredictedGain
from tlbcost.run.outcome import Run
from tlbcost.trial.session import Pair, ProgramTrials, Trial

MIB = 1 << 20
MS = 1_000_000
METHOD = Method("a-method", "malloc is asked", "malloc", 2 * MIB, notes=("know this",))
BASE = Run(1000 * MS, 900 * MS, 100 * MS, 70_000, 0, 256 * MIB)


def backing(huge: int, *, resident: int = 256 * MIB, mthp: int | None = None) -> PeakMemory:
    """Memory at the peak, all of it the heap's."""
    part = MemoryPart("[heap]", "heap", resident, huge)
    sizes = None if mthp is None else {65536: mthp}
    return PeakMemory(resident, huge, 0, 0, 0, sizes, (part,), 3)


def pair(wall: float, covered: float | None = 1.0, user: float = 0.0) -> Pair:
    """A pair whose huge run takes `wall` of the base run's time, and `user` of it less as user."""
    huge = replace(
        BASE, wall_ns=round(BASE.wall_ns * wall), user_ns=BASE.user_ns - round(user * BASE.wall_ns)
    )
    seen = None if covered is None else backing(round(covered * 256 * MIB))
    return Pair(BASE, huge, seen, backing(0))


def made_trials(*trials: Trial, estimate: PredictedGain | None = None) -> ProgramTrials:
    return ProgramTrials(
        "0.0.1", "2026-01-02T03:04:05Z", MACHINE, ("./app", "an arg"), trials, estimate,
        2 * MIB, None if estimate else "not asked for", ("a note",),
    )  # fmt: skip
