# SPDX-License-Identifier: GPL-2.0-or-later
"""The sentences about NUMA: what placement does, what Carrefour-LP would, and why."""

from __future__ import annotations

from tlbcost.common import units
from tlbcost.numa import carrefour
from tlbcost.numa.accesses import HOT_FRACTION
from tlbcost.numa.locality import (
    INTERLEAVE_ABOVE,
    SPLIT_GAIN,
    direction_words,
    placement_words,
    share,
)
from tlbcost.numa.study import Study


def verdict(study: Study) -> str:
    """One sentence: what huge pages do here, with the figures that say so."""
    size = units.size(study.huge.page_size_bytes)
    words = direction_words(study.translation, study.placement)
    return (
        f"{size} pages by first touch on {study.nodes.count} nodes: {words} "
        f"({placement_words(study.base.first_touch, study.huge.first_touch)}; page walks cause "
        f"{share(study.walk_l2_fraction)} of the L2 misses on "
        f"{units.size(study.base.page_size_bytes)} pages)."
    )


def decision_code(study: Study) -> str:
    """One word for programs: split_shared, split_hot or keep_large."""
    return {"shared": "split_shared", "hot": "split_hot", "none": "keep_large"}[
        study.decision.split
    ]


def decision_sentence(study: Study) -> str:
    """What Carrefour-LP would do with the huge pages, in words."""
    decision = study.decision
    if decision.split == "shared":
        what = "split all shared huge pages, and move their base pages to their users"
    elif decision.split == "hot":
        what = "split the hot huge pages, and interleave their base pages"
    elif decision.interleave:
        what = "keep the huge pages, and interleave them"
    elif decision.migrate:
        what = "keep the huge pages, and move them to their users"
    else:
        what = "leave the huge pages as they are"
    return f"Carrefour-LP would {what}."


def reasons(study: Study) -> list[str]:
    """Why, component by component, each with the figure and its threshold."""
    return [*_reactive(study), *_conservative(study), *_rates(study)]


def _reactive(study: Study) -> list[str]:
    decision, whole = study.decision, study.huge.first_touch
    found = []
    if decision.lar_split is None:
        found.append(
            "reactive: the run has fewer than two intervals "
            f"({units.count(study.interval_references)} references each) to compare LARs in"
        )
    elif study.figures:
        gain = max(each.split_lar - each.migrated_lar for each in study.figures)
        met = "twice in a row" if decision.lar_split else "not twice in a row"
        found.append(
            f"reactive: splitting would raise the LAR by {_points(gain)} points at most "
            f"({_points(SPLIT_GAIN)} are asked for twice in a row: {met})"
        )
    if decision.vetoed:
        found.append(
            f"reactive: in {decision.vetoed} of {len(study.figures)} intervals moving huge pages "
            "is to be tried first, or hardly any access is local"
        )
    hot = study.huge.hot
    if hot is not None:
        found.append(
            f"reactive: {hot.count} hot huge {'page' if hot.count == 1 else 'pages'} "
            f"(above {units.percent(HOT_FRACTION)} of the accesses), {share(hot.fraction)} of all"
        )
    found.append(
        f"Carrefour: imbalance {share(whole.imbalance)}, "
        f"{'interleaves' if decision.interleave else 'does not interleave'} "
        f"(above {share(INTERLEAVE_ABOVE)}); LAR {share(whole.local_fraction)}, "
        f"{'moves pages' if decision.migrate else 'does not move pages'} "
        f"(below {share(carrefour.MIGRATE_BELOW)})"
    )
    return found


def _points(fraction: float) -> str:
    return f"{100 * fraction:.1f}".removesuffix(".0")


def _conservative(study: Study) -> list[str]:
    decision = study.decision
    walks = share(study.walk_l2_fraction)
    faults = share(study.base.largest_thread_fault_fraction)
    promote = {True: "wants huge pages", False: "does not promote", None: "cannot tell"}
    allocate = {True: "allocates huge pages", False: "need not allocate them", None: "cannot tell"}
    found = [
        f"conservative: page walks cause {walks} of the L2 misses on base pages, "
        f"{promote[decision.promote]} (from {share(carrefour.PROMOTE_FROM)})",
        f"conservative: a thread spends {faults} of the run in page faults on base pages at most, "
        f"{allocate[decision.allocate]} (from {share(carrefour.ALLOCATE_FROM)})",
    ]
    if decision.promote and decision.split == "shared":
        found.append("the components disagree: what one splits, the other promotes again")
    return found


def _rates(study: Study) -> list[str]:
    rate = units.NOT_OBTAINED if study.maptu is None else units.nanoseconds(study.maptu)
    return [
        f"rate: {rate} DRAM accesses per µs and node in the native run here; it acts from "
        f"{carrefour.ACT_FROM_MAPTU:g} and splits from {carrefour.SPLIT_FROM_MAPTU:g}, which is "
        "not applied, since the rate is this machine's"
    ]
