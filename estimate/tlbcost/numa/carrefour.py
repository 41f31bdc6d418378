# SPDX-License-Identifier: GPL-2.0-or-later
"""Carrefour-LP's decisions about a program's large pages, and their effect.

Its thresholds are those of its authors' code (doc/numa.md has the sources). It starts with huge
pages where threads touched them first, and examines each interval of the run. Pure functions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from tlbcost.common.document import amount, doc, portion
from tlbcost.numa import placement
from tlbcost.numa.locality import INTERLEAVE_ABOVE, SPLIT_GAIN, Score
from tlbcost.numa.placement import NodePages

# Fractions, as everywhere; its code uses percent.
SPLIT_INTERVALS = 2  # consecutive ones in which the LAR gains SPLIT_GAIN
VETO_GAIN = 0.15  # relative: the gain of moving huge pages alone
VETO_BELOW_LAR = 0.10
MIGRATE_BELOW = 0.80  # LAR
PROMOTE_FROM = 0.05  # share of L2 misses that page walks cause
ALLOCATE_FROM = 0.05  # share of the time in page faults
# DRAM accesses per us and node, from which on it acts at all, and splits.
ACT_FROM_MAPTU, SPLIT_FROM_MAPTU = 15.0, 90.0
_UNKNOWN = Score(None, None)

Split = Literal["shared", "hot", "none"]
DecisionCode = Literal["split_shared", "split_hot", "keep_large"]
Remedy = Literal["interleave", "migrate", "split", "split_hot", "replicate", "touched_by_users"]


@dataclass(frozen=True, slots=True)
class IntervalFigures:
    """What Carrefour sees in one interval, with huge pages by first touch."""

    now: Annotated[Score, doc("huge pages by first touch")]
    migrated_lar: Annotated[float, portion("LAR if they were moved to their main users")]
    split_lar: Annotated[float, portion("LAR if they were split first")]
    hot_pages: Annotated[int, amount("hot huge pages that several nodes access")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What Carrefour-LP would do. None: not known; report.worded() adds the words.

    `promote` and `allocate` are the conservative component's.
    """

    code: Annotated[DecisionCode | None, doc("the decision about huge pages, for programs")] = None
    sentence: Annotated[str, doc("the same in words")] = ""
    split: Annotated[Split, doc("all shared huge pages, the hot ones (interleaved then), or none")]
    lar_split: Annotated[
        bool | None,
        doc("whether the LAR calls for splitting; null: too few intervals with accesses"),
    ]
    vetoed: Annotated[int, amount("intervals in which it would try moving huge pages first")]
    interleave: Annotated[bool, doc("whether it interleaves what is not split")]
    migrate: Annotated[bool, doc("whether it moves pages to their users")]
    promote: Annotated[bool | None, doc("whether it makes huge pages of base pages")]
    allocate: Annotated[bool | None, doc("whether page faults get huge pages")]
    after: Annotated[Score, doc("the effect of its decision")] = _UNKNOWN
    reasons: Annotated[tuple[str, ...], doc("each figure with its threshold")] = ()


def intervals_of(pages: NodePages) -> tuple[IntervalFigures, ...]:
    """Figures by interval, but for those with less than half of the median's accesses."""
    home = placement.first_touch(pages, huge=True)
    counts = pages.accesses.sum(axis=(1, 2))
    enough = float(np.median(counts)) / 2 if len(counts) else 0.0
    found = []
    for accesses, n in zip(pages.accesses, counts, strict=True):
        if n == 0 or n < enough:
            continue
        now = placement.score(accesses, home)
        migrated = placement.score(accesses, placement.by_main_user(pages, accesses, huge=True))
        split = placement.score(accesses, placement.by_main_user(pages, accesses, huge=False))
        hot = placement.hot_shared(pages, accesses)
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
    wanted = [
        each.split_lar - each.migrated_lar >= SPLIT_GAIN and not _vetoed(each) for each in figures
    ]
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


def _vetoed(each: IntervalFigures) -> bool:
    """Moving huge pages alone should suffice, or hardly any access is local now."""
    now = each.now.local_fraction or 0.0
    return now < VETO_BELOW_LAR or each.migrated_lar - now >= VETO_GAIN * now


def remedies(pages: NodePages) -> Mapping[Remedy, Score]:
    by = pages.totals
    home = placement.first_touch(pages, huge=True)
    score = functools.partial(placement.score, by)
    return {
        "interleave": score(placement.interleaved(pages, huge=True)),
        "migrate": score(placement.by_main_user(pages, by, huge=True)),
        "split": score(placement.by_main_user(pages, by, huge=False)),
        "split_hot": score(placement.hot_split(pages, by, home)),
        "replicate": score(home, placement.read_only(pages)),
        "touched_by_users": score(placement.touched_by_users(pages, huge=True)),
    }


def after(pages: NodePages, decision: Decision) -> Score:
    by = pages.totals
    if decision.split == "shared":
        return placement.score(by, placement.by_main_user(pages, by, huge=False))
    home = placement.first_touch(pages, huge=True)
    if decision.split == "hot":
        # Pages that are not hot stay: spreading the hot ones evens out the load.
        return placement.score(by, placement.hot_split(pages, by, home))
    if decision.interleave:
        return placement.score(by, placement.interleaved(pages, huge=True))
    if decision.migrate:
        return placement.score(by, placement.by_main_user(pages, by, huge=True))
    return placement.score(by, home)
