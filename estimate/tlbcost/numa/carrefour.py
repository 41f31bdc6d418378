# SPDX-License-Identifier: GPL-2.0-or-later
"""What would Carrefour-LP do with a program's large pages, and what would come of it?

Its thresholds are those of its authors' code (doc/numa.md has the sources). It starts with huge
pages where threads touched them first, and looks at each interval of the run. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tlbcost.numa import accesses as numa
from tlbcost.numa.accesses import Pages
from tlbcost.numa.locality import INTERLEAVE_ABOVE, SPLIT_GAIN, Score

# Fractions, as everywhere; its code has percent.
SPLIT_INTERVALS = 2  # in a row, in which the LAR gains SPLIT_GAIN
VETO_GAIN = 0.15  # relative: what moving huge pages alone would give
VETO_BELOW_LAR = 0.10
MIGRATE_BELOW = 0.80  # LAR
PROMOTE_FROM = 0.05  # share of L2 misses that page walks cause
ALLOCATE_FROM = 0.05  # share of the time in page faults
# DRAM accesses per us and node, from which on it acts at all, and splits.
ACT_FROM_MAPTU, SPLIT_FROM_MAPTU = 15.0, 90.0

Split = Literal["shared", "hot", "none"]
Remedy = Literal["interleave", "migrate", "split", "split_hot", "replicate", "touched_by_users"]


@dataclass(frozen=True, slots=True)
class IntervalFigures:
    """What Carrefour sees in one interval: now, after moving huge pages, after splitting them."""

    now: Score
    migrated_lar: float
    split_lar: float
    hot_pages: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What it would do. None: not known.

    `split`: all shared huge pages, the hot ones (interleaved then), or none; `lar_split` None: the
    run has fewer intervals with accesses than that decision needs. `vetoed`: intervals in which
    moving huge pages was to be tried first. `promote` and `allocate` are the conservative
    component's.
    """

    split: Split
    lar_split: bool | None
    vetoed: int
    interleave: bool
    migrate: bool
    promote: bool | None
    allocate: bool | None


def look(pages: Pages) -> tuple[IntervalFigures, ...]:
    """Each interval, with huge pages where they were first touched.

    Those with less than half of the accesses of the middle one are left out: while a program only
    starts, and what is left over at its end.
    """
    home = numa.first_touch(pages, huge=True)
    counts = pages.accesses.sum(axis=(1, 2))
    enough = float(np.median(counts)) / 2 if len(counts) else 0.0
    found = []
    for accesses, n in zip(pages.accesses, counts, strict=True):
        if n == 0 or n < enough:
            continue
        now = numa.score(accesses, home)
        migrated = numa.score(accesses, numa.by_main_user(pages, accesses, huge=True))
        split = numa.score(accesses, numa.by_main_user(pages, accesses, huge=False))
        hot = numa.hot_shared(pages, accesses)
        found.append(
            IntervalFigures(
                now, migrated.local_fraction or 0.0, split.local_fraction or 0.0, int(hot.sum())
            )
        )
    return tuple(found)


def decide(
    figures: tuple[IntervalFigures, ...],
    whole: Score,
    walk_fraction: float | None,
    fault_fraction: float | None,
) -> Decision:
    """The decision of both components.

    `whole`: of the run. `walk_fraction`: share of the L2 misses that page walks on base pages
    cause; `fault_fraction`: largest share of its time that a thread spends in page faults on base
    pages.
    """
    local = 1.0 if whole.local_fraction is None else whole.local_fraction
    interleave = local < 1 and (whole.imbalance or 0.0) > INTERLEAVE_ABOVE
    migrate = local < MIGRATE_BELOW
    wanted = [_wants_split(each) for each in figures]
    in_a_row = any(
        all(wanted[i : i + SPLIT_INTERVALS]) for i in range(len(wanted) - SPLIT_INTERVALS + 1)
    )
    hot = sum(each.hot_pages > 0 for each in figures) * 2 > len(figures)
    split: Split = "none"
    if interleave or migrate:
        split = "shared" if in_a_row else "hot" if hot else "none"
    return Decision(
        split=split,
        lar_split=in_a_row if len(figures) >= SPLIT_INTERVALS else None,
        vetoed=sum(_vetoed(each) for each in figures),
        interleave=interleave,
        migrate=migrate,
        promote=None if walk_fraction is None else walk_fraction >= PROMOTE_FROM,
        allocate=None if fault_fraction is None else fault_fraction >= ALLOCATE_FROM,
    )


def _wants_split(each: IntervalFigures) -> bool:
    return each.split_lar - each.migrated_lar >= SPLIT_GAIN and not _vetoed(each)


def _vetoed(each: IntervalFigures) -> bool:
    """Moving huge pages alone should do, or hardly any access is local now."""
    now = each.now.local_fraction or 0.0
    return now < VETO_BELOW_LAR or each.migrated_lar - now >= VETO_GAIN * now


def remedies(pages: Pages) -> Mapping[Remedy, Score]:
    """What each remedy would give, applied for the whole run to huge pages by first touch."""
    by = pages.totals
    home = numa.first_touch(pages, huge=True)
    placements = {
        "interleave": numa.interleaved(pages, huge=True),
        "migrate": numa.by_main_user(pages, by, huge=True),
        "split": numa.by_main_user(pages, by, huge=False),
        "split_hot": numa.hot_split(pages, by, home),
        "touched_by_users": numa.touched_by_users(pages, huge=True),
    }
    scores = {name: numa.score(by, placed) for name, placed in placements.items()}
    scores["replicate"] = numa.replicated(by, home, numa.read_only(pages))
    order: tuple[Remedy, ...] = (
        "interleave", "migrate", "split", "split_hot", "replicate", "touched_by_users",
    )  # fmt: skip
    return {name: scores[name] for name in order}


def after(pages: Pages, decision: Decision) -> Score:
    """What its decision would give: splitting, then interleaving or moving what is left."""
    by = pages.totals
    if decision.split == "shared":
        return numa.score(by, numa.by_main_user(pages, by, huge=False))
    home = numa.first_touch(pages, huge=True)
    if decision.split == "hot":
        # What is not hot stays: spreading the hot pages is what evens the load.
        return numa.score(by, numa.hot_split(pages, by, home))
    if decision.interleave:
        return numa.score(by, numa.interleaved(pages, huge=True))
    if decision.migrate:
        return numa.score(by, numa.by_main_user(pages, by, huge=True))
    return numa.score(by, home)
