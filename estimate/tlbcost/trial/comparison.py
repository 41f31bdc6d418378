# SPDX-License-Identifier: GPL-2.0-or-later
"""Gain of one method, by pairs of runs whose memory was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import units
from tlbcost.common.interval import Interval
from tlbcost.measured.coverage import explain, is_proven
from tlbcost.measured.method import Method
from tlbcost.measured.pairs import Pair
from tlbcost.memory.peak import PeakMemory
from tlbcost.model.gain import PredictedGain, fraction
from tlbcost.system.machine import Machine

# With fewer pairs nothing is known of how much differences vary.
MIN_PAIRS = 3
# More are not run to know a gain better.
MOST_PAIRS = 30


@dataclass(frozen=True, slots=True)
class Trial:
    """What huge pages by one method gave.

    `proven`: in MIN_PAIRS pairs at least half of the memory that the method should reach was on
    huge pages; else `why_not` says why it was not, and the shares are None. The shares are those
    of these pairs, of the time on base pages: 1 - t_huge/t_base of wall time, and the differences
    of user and system time over the CPU time on base pages; medians with their 95 % intervals.
    `difference_proven`: the interval of the first does not hold 0. `in_turns`: the runs of a pair
    took turns, and their wall time is that of their turns.
    """

    method: Method
    pairs: tuple[Pair, ...]
    proven: bool
    why_not: str | None
    measured_fraction: Interval | None = None
    measured_user_fraction: Interval | None = None
    measured_system_fraction: Interval | None = None
    difference_proven: bool = False
    notes: tuple[str, ...] = ()
    in_turns: bool = False

    @property
    def proven_pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.pairs if is_proven(self.method, pair.backing))


@dataclass(frozen=True, slots=True)
class ProgramTrials:
    """The trials of one program, and what was predicted of it.

    `estimate`, of pages of `huge_page_bytes`, is None where there is none, for which `no_estimate`
    has the reason. `region`: the phase of it that times are of.
    """

    version: str
    date: str
    machine: Machine
    argv: tuple[str, ...]
    trials: tuple[Trial, ...]
    estimate: PredictedGain | None
    huge_page_bytes: int | None
    no_estimate: str | None
    notes: tuple[str, ...]
    region: str | None = None


def judge(
    method: Method, pairs: tuple[Pair, ...], unseen: str = "", path: Path | None = None
) -> Trial:
    covered = [pair for pair in pairs if is_proven(method, pair.backing)]
    notes = list(method.notes)
    already = [pair.base_backing for pair in pairs if pair.base_backing and _is_huge(pair)]
    if already:
        notes.append(
            f"the program has {units.size(base_huge_bytes(already[0]))} of its "
            f"{units.size(already[0].resident_bytes)} on huge pages by itself, in the runs on "
            "base pages too"
        )
    if len(covered) < MIN_PAIRS:
        why = _why_not(method, [pair for pair in pairs if pair not in covered], unseen, path)
        return Trial(method, pairs, proven=False, why_not=why, notes=tuple(notes))
    if len(covered) < len(pairs):
        left = len(pairs) - len(covered)
        notes.append(
            f"{left} of {len(pairs)} pairs are left out, as less than half of the memory was on "
            "huge pages there"
        )
    whole = _median([1 - pair.huge.wall_ns / pair.base.wall_ns for pair in covered])
    return Trial(
        method,
        pairs,
        proven=True,
        why_not=None,
        measured_fraction=whole,
        measured_user_fraction=_median(
            [fraction(p.base.user_ns - p.huge.user_ns, p.base) for p in covered]
        ),
        measured_system_fraction=_median(
            [fraction(p.base.system_ns - p.huge.system_ns, p.base) for p in covered]
        ),
        difference_proven=whole is not None and not whole.low <= 0 <= whole.high,
        notes=tuple(notes),
    )


def _median(values: Sequence[float]) -> Interval | None:
    # Not at the top: NumPy takes a while to load.
    import numpy as np

    from tlbcost.common import bootstrap

    return bootstrap.median(np.array(values))


def _is_huge(pair: Pair) -> bool:
    backing = pair.base_backing
    return backing is not None and base_huge_bytes(backing) * 20 >= backing.resident_bytes > 0


def base_huge_bytes(backing: PeakMemory) -> int:
    """Bytes on huge pages in a run on base pages; multi-size THP is counted system-wide."""
    return backing.huge_bytes - sum((backing.mthp_bytes or {}).values())


def _why_not(method: Method, pairs: Sequence[Pair], unseen: str, path: Path | None) -> str:
    seen = [pair.backing for pair in pairs if pair.backing is not None]
    if not seen:
        return unseen or "its memory was not seen"
    worst = min(seen, key=lambda backing: backing.reached_fraction(method.reach) or 0.0)
    return explain(worst, method, path)
