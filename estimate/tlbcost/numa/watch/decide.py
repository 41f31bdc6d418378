# SPDX-License-Identifier: GPL-2.0-or-later
"""What both components of Carrefour-LP do, given this evidence, and at which figures.

The reactive one: where moving pages as they are makes accesses local enough, that; else, where
splitting surely adds enough, that. The conservative one: huge pages where page walks or page faults
take too much. doc/numa.md has the rules, and what differs from the authors'.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from tlbcost.common import units
from tlbcost.common.document import amount, doc
from tlbcost.numa import carrefour, locality, placement
from tlbcost.numa.locality import Score
from tlbcost.numa.placement import Ints
from tlbcost.numa.watch.evidence import Lar, PageEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Fractions are 0 to 1. Each can be changed by --threshold NAME=VALUE."""

    act_maptu: Annotated[
        float, amount("DRAM accesses per us and node from which it acts, if the source has rates")
    ] = carrefour.ACT_FROM_MAPTU
    split_maptu: Annotated[float, amount("the same, from which it splits")] = (
        carrefour.SPLIT_FROM_MAPTU
    )
    interleave_above: Annotated[float, amount("imbalance above which pages are interleaved")] = (
        locality.INTERLEAVE_ABOVE
    )
    migrate_below: Annotated[
        float, amount("local accesses below which pages move to their users")
    ] = carrefour.MIGRATE_BELOW
    split_gain: Annotated[
        float, amount("local accesses that splitting has to add, in points / 100")
    ] = locality.SPLIT_GAIN
    split_intervals: Annotated[float, doc("intervals in a row in which it has to", minimum=1)] = (
        float(carrefour.SPLIT_INTERVALS)
    )
    veto_gain: Annotated[
        float, amount("relative gain of local accesses from which moving alone comes first")
    ] = carrefour.VETO_GAIN
    veto_below: Annotated[float, amount("local accesses below which nothing is split")] = (
        carrefour.VETO_BELOW_LAR
    )
    hot: Annotated[float, amount("share of the accesses above which a page is hot")] = (
        placement.HOT_FRACTION
    )
    promote: Annotated[
        float, amount("share of L2 misses by page walks from which pages are promoted")
    ] = carrefour.PROMOTE_FROM
    allocate: Annotated[
        float, amount("share of the time in page faults from which huge pages are allocated")
    ] = carrefour.ALLOCATE_FROM
    feedback: Annotated[
        float, amount("relative gain of local accesses or balance that an action has to have")
    ] = 0.10
    pause_s: Annotated[
        float, amount("seconds for which what was taken back is not tried again")
    ] = 60.0
    rest_s: Annotated[float, amount("seconds between two moves of one page")] = 10.0
    samples: Annotated[float, doc("accesses that a decision needs at least", minimum=1)] = 200.0
    windows: Annotated[
        float, doc("windows, or thread-seconds of a PMU, that it needs at least", minimum=2)
    ] = 4.0
    evidence_s: Annotated[float, doc("age at which accesses are forgotten", minimum=1)] = 15.0
    overhead: Annotated[float, amount("share of the process's CPU time that sampling may cost")] = (
        0.03
    )


_OF_THE_AUTHORS = (
    "act_maptu", "split_maptu", "interleave_above", "migrate_below", "split_gain",
    "split_intervals", "veto_gain", "veto_below", "hot", "promote", "allocate", "feedback",
)  # fmt: skip
_TEST = "ours: what the test of few samples needs"
SOURCES = {
    **dict.fromkeys(_OF_THE_AUTHORS, "the authors' code, 2013"),
    "pause_s": "ours: the authors' code pauses for 5 s",
    "rest_s": "ours: how often a page may move",
    **dict.fromkeys(("samples", "windows", "evidence_s"), _TEST),
    "overhead": "slides: less than 3 %",
}


def parse(text: str) -> tuple[str, float]:
    """NAME=VALUE, as the type of an option. Raises argparse.ArgumentTypeError."""
    name, _, number = text.partition("=")
    name = name.strip().replace("-", "_")
    if name not in SOURCES:
        known = ", ".join(sorted(SOURCES))
        raise argparse.ArgumentTypeError(f"no threshold is called {name}: there are {known}")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9 or (name in ("samples", "split_intervals") and value < 1):
        raise argparse.ArgumentTypeError(f"not a value of {name}: {number or 'none'}")
    if name == "windows" and value < 2:
        raise argparse.ArgumentTypeError("windows: two are the least that has a spread")
    return name, value


def with_changes(changes: Sequence[tuple[str, float]]) -> Thresholds:
    return replace(Thresholds(), **dict(changes))


def names() -> tuple[str, ...]:
    return tuple(field.name for field in fields(Thresholds))


Kind = Literal[
    "migrate", "interleave", "split", "split_hot", "promote", "allocate_huge", "stop_huge"
]
# What is tried, and judged by what it did to the accesses.
REACTIVE: tuple[Kind, ...] = ("migrate", "interleave", "split", "split_hot")

_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """`pages` move to the nodes `to`; `regions` (huge page numbers) are split or promoted first."""

    kind: Kind
    reason: str
    pages: Ints
    to: Ints
    regions: Ints

    @property
    def size(self) -> int:
        return len(self.pages) + len(self.regions)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchConditions:
    """What else is known of the process. None: not known.

    `least_walk_fraction`: lower limit of the share of its L2 misses that page walks on base pages
    cause. `huge_allowed`: page faults may get huge pages. `promotable`: huge page numbers whose
    base pages were seen and could be a huge page. `kept_split`: those that were split here.
    """

    least_walk_fraction: float | None = None
    fault_fraction: float | None = None
    maptu: float | None = None
    huge_allowed: bool | None = None
    promotable: Collection[int] = ()
    kept_split: Collection[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the samples say, and which rules they meet. None: too few samples."""

    now: Annotated[Score, doc("with the pages where they are")]
    moved_fraction: Annotated[
        float | None, doc("local accesses with each page on its main user's node")
    ] = None
    split_fraction: Annotated[float | None, doc("the same with huge pages split first")] = None
    hot_pages: Annotated[int | None, amount("hot huge pages that several nodes access")] = None
    shared_pages: Annotated[int | None, amount("huge pages that several nodes access")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`wants_split`: the gain of splitting is enough in this interval. `reasons`: in words."""

    figures: Figures
    enough: bool
    wants_split: bool
    actions: tuple[Action, ...]
    reasons: tuple[str, ...]


def decide(
    evidence: PageEvidence, conditions: WatchConditions, limits: Thresholds, wanted_before: int
) -> Verdict:
    """What to do now. `wanted_before`: intervals in a row in which splitting was wanted."""
    now = evidence.score()
    few = _too_few(evidence, limits)
    if few is not None:
        return Verdict(
            figures=Figures(now=now),
            enough=False,
            wants_split=False,
            actions=_conservative(conditions, limits),
            reasons=(few,),
        )
    moved, split = evidence.lar_moved(), evidence.lar_split()
    hot, shared = evidence.hot_units(limits.hot), evidence.shared_units()
    local = now.local_fraction or 0.0
    vetoed = local < limits.veto_below or moved.least_gain >= limits.veto_gain * local
    wants = len(shared) > 0 and split.least_gain >= limits.split_gain and not vetoed
    actions, reasons = _reactive(
        evidence, limits, conditions, moved, split, hot, shared,
        now=now, ready=wants and wanted_before + 1 >= limits.split_intervals,
    )  # fmt: skip
    return Verdict(
        figures=Figures(
            now=now,
            moved_fraction=moved.value,
            split_fraction=split.value,
            hot_pages=len(hot),
            shared_pages=len(shared),
        ),
        enough=True,
        wants_split=wants,
        actions=(*actions, *_conservative(conditions, limits)),
        reasons=reasons,
    )


def _too_few(evidence: PageEvidence, limits: Thresholds) -> str | None:
    if evidence.samples < limits.samples:
        return f"{evidence.samples} accesses seen, {limits.samples:.0f} are needed"
    if evidence.windows < limits.windows:
        return f"{evidence.windows} windows seen, {limits.windows:.0f} are needed"
    if evidence.unseen_nodes:
        return f"no window yet of a thread on node {evidence.unseen_nodes[0]}"
    return None


def _reactive(
    evidence: PageEvidence,
    limits: Thresholds,
    conditions: WatchConditions,
    moved: Lar,
    split: Lar,
    hot: Ints,
    shared: Ints,
    *,
    now: Score,
    ready: bool,
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    local, imbalance = now.local_fraction or 0.0, now.imbalance or 0.0
    uneven = imbalance > limits.interleave_above and local < 1
    remote = local < limits.migrate_below
    if not (uneven or remote):
        return (), ("accesses are local and even enough",)
    if conditions.maptu is not None and conditions.maptu < limits.act_maptu:
        return (), (f"{conditions.maptu:.1f} DRAM accesses per us and node are too few to act",)
    may_split = conditions.maptu is None or conditions.maptu >= limits.split_maptu
    if remote and moved.least_gain >= max(limits.veto_gain * local, limits.feedback * local):
        return (_migrate(evidence, moved),), ("moving pages as they are is enough",)
    if may_split and ready:
        return _split(evidence, shared, split), ("moving huge pages whole is not enough",)
    if may_split and len(hot):
        return _split_hot(evidence, hot, limits), ("hot huge pages",)
    if remote and moved.least_gain >= limits.feedback * local:
        return (_migrate(evidence, moved),), ("pages are far from their users",)
    # A page that moves now must rest before it can be split.
    if may_split and evidence.windows < 2 * limits.windows and evidence.perhaps_hot(limits.hot):
        return (), ("a huge page may be hot: more windows will tell",)
    spread = _interleave(evidence, imbalance, limits) if uneven else None
    if spread is not None:
        return (spread,), ("nodes serve unequal parts",)
    return (), ("neither moving nor splitting surely helps",)


def _migrate(evidence: PageEvidence, moved: Lar) -> Action:
    home = evidence.moved()
    reason = f"local accesses would be {units.percent(moved.value)}"
    return _moves("migrate", reason, evidence, home, np.flatnonzero(_main_user(evidence)))


def _main_user(evidence: PageEvidence) -> NDArray[np.bool_]:
    """Pages seen more than once, more than half of whose accesses come from one node."""
    pages = evidence.pages
    by = pages.by_unit(evidence.accesses)
    seen = np.bincount(pages.unit, evidence.seen(), minlength=len(by))
    mainly = (2 * by.max(axis=1) > by.sum(axis=1)) & (seen > 1)
    return np.asarray(mainly[pages.unit])


def _interleave(evidence: PageEvidence, imbalance: float, limits: Thresholds) -> Action | None:
    """Spread pages of busy nodes that have no main user; None if that evens out too little."""
    home = placement.interleaved(evidence.pages, huge=True)
    served = np.bincount(evidence.node, evidence.accesses.sum(axis=1), minlength=evidence.nodes)
    busy = served > served.mean()
    chosen = np.flatnonzero(busy[evidence.node] & ~_main_user(evidence))
    then = evidence.node.copy()
    then[chosen] = home[chosen]
    if (evidence.score(then).imbalance or 0.0) > imbalance * (1 - limits.feedback):
        return None
    return _moves("interleave", f"imbalance is {units.percent(imbalance)}", evidence, home, chosen)


def _moves(kind: Kind, reason: str, evidence: PageEvidence, home: Ints, chosen: Ints) -> Action:
    """Move these pages, if they are elsewhere; a huge page by its first base page."""
    differs = chosen[home[chosen] != evidence.node[chosen]]
    huge = evidence.pages.is_huge[evidence.pages.unit[differs]]
    number = np.where(
        huge, evidence.page[differs] // evidence.fold * evidence.fold, evidence.page[differs]
    )
    pages, first = np.unique(number, return_index=True)
    return Action(kind, reason, pages, home[differs][first], _NONE)


def _split(evidence: PageEvidence, shared: Ints, split: Lar) -> tuple[Action, ...]:
    """Split what several nodes use, and move each piece that was seen to its user."""
    home = placement.by_main_user(evidence.pages, evidence.accesses, huge=False)
    by = evidence.accesses
    owned = (2 * by.max(axis=1) > by.sum(axis=1)) & (evidence.seen() > 1)
    inside = np.isin(evidence.pages.unit, shared)
    chosen = np.flatnonzero(inside & owned & (home != evidence.node))
    reason = f"local accesses would be {units.percent(split.value)}"
    regions = evidence.pages.unit_number[shared]
    return (
        Action("stop_huge", "what is split stays split", _NONE, _NONE, _NONE),
        Action("split", reason, evidence.page[chosen], home[chosen], regions),
    )


def _split_hot(evidence: PageEvidence, hot: Ints, limits: Thresholds) -> tuple[Action, ...]:
    """Split the hot ones, and interleave all of their base pages."""
    regions = evidence.pages.unit_number[hot]
    number = (regions[:, None] * evidence.fold + np.arange(evidence.fold)).reshape(-1)
    home = np.repeat(evidence.pages.unit_first[hot], evidence.fold)
    to = number % evidence.nodes
    reason = f"more than {units.percent(limits.hot)} of the accesses go to each"
    return (
        Action("stop_huge", "what is split stays split", _NONE, _NONE, _NONE),
        Action("split_hot", reason, number[to != home], to[to != home], regions),
    )


def _conservative(conditions: WatchConditions, limits: Thresholds) -> tuple[Action, ...]:
    """Nothing while what was split has to stay split: the kernel has one switch for a process."""
    walks, faults = conditions.least_walk_fraction, conditions.fault_fraction
    off = conditions.huge_allowed is False
    if off and conditions.kept_split:
        return ()
    actions: list[Action] = []
    if walks is not None and walks >= limits.promote:
        kept = np.array(sorted(conditions.kept_split), dtype=np.int64)
        regions = np.setdiff1d(np.array(conditions.promotable, dtype=np.int64), kept)
        reason = f"page walks cause at least {units.percent(walks)} of the L2 misses"
        if len(regions) and off:
            actions.append(Action("allocate_huge", reason, _NONE, _NONE, _NONE))
        if len(regions):
            actions.append(Action("promote", reason, _NONE, _NONE, regions))
    elif off and faults is not None and faults >= limits.allocate:
        reason = f"page faults take {units.percent(faults)} of the time"
        actions.append(Action("allocate_huge", reason, _NONE, _NONE, _NONE))
    return tuple(actions)
